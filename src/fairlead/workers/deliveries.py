"""The poster: makes deliveries that are due, some at a time, and deletes old logs: webhooks of runs, and alerts."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from fairlead.observing.observations import Observer, UnexpectedError

AT_ONCE: Final = 32
"""Attempts at a time: a receiver that does not answer occupies one of them for fifteen seconds."""
_ROUND_SECONDS: Final = 1.0
_FORGET_SECONDS: Final = 60.0


D = TypeVar("D")


class Deliveries(Protocol[D]):
    """A source of deliveries: `Webhooks`, `AlertTeller`."""

    async def claim(self, limit: int) -> Sequence[D]:
        """Claim up to `limit` deliveries that are due."""
        ...

    async def deliver(self, due: D) -> None:
        """Make one attempt of a claimed delivery and record it."""
        ...

    async def forget(self) -> int:
        """Delete a batch of old logs; 0 when there are none left."""
        ...


class Poster(Generic[D]):
    """Runs until it is cancelled, whatever errors occur.

    An attempt that is cancelled with it is made again, by this server's next start or another server, when its lease
    has run out.
    """

    def __init__(self, deliveries: Deliveries[D], what: str, observe: Observer) -> None:
        self._deliveries = deliveries
        self._what = what
        self._observe = observe
        self._woken = asyncio.Event()
        self._tries: set[asyncio.Task[None]] = set()

    def wake(self) -> None:
        """Look for deliveries at once, because a run has just ended, instead of within a second."""
        self._woken.set()

    async def work(self) -> None:
        """Make deliveries and delete old logs, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._deliver())
                group.create_task(self._forget())
        finally:
            await self._abandon()

    async def _deliver(self) -> None:
        while True:
            self._woken.clear()
            try:
                room = AT_ONCE - len(self._tries)
                due = await self._deliveries.claim(room) if room else ()
                for delivery in due:
                    self._begin(asyncio.create_task(self._deliveries.deliver(delivery)), fills=len(due) == room)
            except Exception as error:  # noqa: BLE001 -- observed; the next turn tries again
                self._observe(UnexpectedError(f"deliver {self._what}", error))
            with suppress(TimeoutError):
                async with asyncio.timeout(_ROUND_SECONDS):
                    await self._woken.wait()

    def _begin(self, task: asyncio.Task[None], *, fills: bool) -> None:
        """Keep track of an attempt until it ends; where there was no room for more, its end triggers the next look."""
        self._tries.add(task)
        task.add_done_callback(self._tries.discard)
        if fills:
            task.add_done_callback(lambda _: self.wake())

    async def _forget(self) -> None:
        while True:
            await asyncio.sleep(_FORGET_SECONDS)
            try:
                while await self._deliveries.forget():
                    pass
            except Exception as error:  # noqa: BLE001 -- as above
                self._observe(UnexpectedError(f"forget {self._what}", error))

    async def _abandon(self) -> None:
        tries = list(self._tries)
        for task in tries:
            task.cancel()
        if tries:
            await asyncio.wait(tries)
