"""Watching a queued run: its status now, and again whenever it changes (docs/queue.md). A live view of polling."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from fairlead.domain.callers import Caller
from fairlead.domain.faults import ConcurrencyLimitExceeded, FaultError
from fairlead.domain.runs.queue import QueueStatus
from fairlead.observing.observations import Observation, RunClaimed, RunEnded, RunWithdrawn
from fairlead.operations.runs.collect import Collector, RequestStatus

WATCHERS_MAX: Final = 100
"""How many watches a workspace may have open at this server."""
_LOOK_SECONDS: Final = 2.0
_SILENCE_SECONDS: Final = 15.0


class Watcher:
    """Lets callers watch their queued runs. It is woken by what happens here, and looks for what happens elsewhere."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._open = Counter[str]()
        self._is_closed = False

    def close(self) -> None:
        """End every watch: the server is about to stop, and would wait for them."""
        self._is_closed = True
        for events in self._waiting.values():
            for event in events:
                event.set()

    def observe(self, observation: Observation) -> None:
        """Wake whoever watches the run something happened to."""
        if self._waiting and isinstance(observation, RunClaimed | RunEnded | RunWithdrawn):
            for event in self._waiting.get(observation.run_id, ()):
                event.set()

    async def watch(self, caller: Caller, model_id: str, request_id: str) -> AsyncIterator[RequestStatus | None]:
        """The run's status now and whenever it has changed, until it is completed; None after a while of silence.

        FaultError before anything is watched: no such run, or too many watches. A watch ends early when the server
        stops or the status cannot be read any more.
        """
        first = await self._collector.status(caller, model_id, request_id)
        current = self._open[caller.workspace_id]
        if current >= WATCHERS_MAX:
            raise FaultError(ConcurrencyLimitExceeded(WATCHERS_MAX, current, what="event streams"))
        return self._changes(caller, first)

    async def _changes(self, caller: Caller, status: RequestStatus) -> AsyncIterator[RequestStatus | None]:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        self._open[caller.workspace_id] += 1
        self._waiting.setdefault(status.request_id, set()).add(event)
        try:
            yield status
            said_at = loop.time()
            while status.status is not QueueStatus.COMPLETED:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await event.wait()
                event.clear()
                found = await self._look(caller, status)
                if found is None:
                    return
                has_changed = (found.status, found.position) != (status.status, status.position)
                status = found
                if has_changed or loop.time() - said_at >= _SILENCE_SECONDS:
                    said_at = loop.time()
                    yield status if has_changed else None
        finally:
            self._leave(caller.workspace_id, status.request_id, event)

    async def _look(self, caller: Caller, status: RequestStatus) -> RequestStatus | None:
        """How the run stands; None where that cannot be told: the head of the answer was sent long ago."""
        if self._is_closed:
            return None
        try:
            return await self._collector.status(caller, status.model_id, status.request_id)
        except FaultError:
            return None

    def _leave(self, workspace_id: str, request_id: str, event: asyncio.Event) -> None:
        self._open[workspace_id] -= 1
        if not self._open[workspace_id]:
            del self._open[workspace_id]
        watching = self._waiting[request_id]
        watching.discard(event)
        if not watching:
            del self._waiting[request_id]
