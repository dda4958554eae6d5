"""The hosts that execute jobs, so many at a time: each belongs to one workspace, and so does its cache.

Whose job is next is decided before it is claimed (`operations/work/places.py`), so that a job finds a place here.
An idle host is kept for its workspace's next job with the same packs, until its place is needed for another, or it was
idle for long.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, Final, cast

import msgspec

from fairlead.engine.hosts.execution import HostedExecution
from fairlead.engine.hosts.process import EngineProcess
from fairlead.engine.hosts.templates import Packs, Start

_JOBS_MAX: Final = 20_000
"""How many jobs a host executes before it is replaced, because node packs leak."""
_DESCRIPTORS_MORE_MAX: Final = 64
"""How many more descriptors than at its start a host may have open after a job: a few belong to what it has cached."""
_OUT_OF_DATE: Final = "its nodes are out of date"
_LEAKS: Final = "it leaves descriptors open"
_UNFIT: Final = "it is not good for another job"


class Place(msgspec.Struct, eq=False):
    """A place for a host; `host` is None while one is being started. `stamp` is the state of its packs at its start."""

    workspace: str
    packs: Packs
    stamp: Hashable
    host: EngineProcess | None = None
    jobs: int = 0
    expiry: asyncio.TimerHandle | None = None


class Places:
    """Places for hosts. `start` starts one for a workspace; `stamp` changes when its packs are out of date."""

    def __init__(self, count: int, idle_seconds: float, start: Start, stamp: Callable[[Packs], Hashable]) -> None:
        self._count = count
        self._idle_seconds = idle_seconds
        self._start = start
        self._stamp = stamp
        self._busy: set[Place] = set()
        self._idle: list[Place] = []
        """The places that wait for their workspaces' next jobs, the longest idle first."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._endings: set[asyncio.Future[object]] = set()
        self._is_closed = False

    async def close(self, reason: str) -> None:
        """End every host."""
        self._is_closed = True
        for place in (*self._busy, *self._idle):
            self._end(place, reason)
        self._idle.clear()
        self._wake(len(self._waiting))
        while self._endings:
            await asyncio.wait(self._endings)

    def refresh(self) -> None:
        """End the idle hosts whose packs are out of date; others end after their jobs."""
        stale = [place for place in self._idle if place.stamp != self._stamp(place.packs)]
        self._idle = [place for place in self._idle if place not in stale]
        for place in stale:
            self._end(place, _OUT_OF_DATE)
        self._wake(len(stale))

    async def take(self, workspace: str, packs: Packs, execution: HostedExecution) -> Place | None:
        """A place with a host of the workspace that has the packs; None when the job was cancelled.

        Calls are served in their order. HostNotStartedError.
        """
        is_called = False
        while not (self._is_closed or execution.cancellation.done()):
            place = self._find(workspace, packs) if is_called or not self._waiting else None
            if place is not None:
                return place if place.host is not None else await self._start_host(place, execution)
            await self._wait(execution, is_called=is_called)
            is_called = True
        if is_called:
            self._wake(1)  # it was this call's turn
        return None

    def give_back(self, place: Place, descriptors: int) -> None:
        """Keep a host for the next job of its workspace, if it is fit for one; `descriptors` are open in it."""
        self._busy.discard(place)
        place.jobs += 1
        unfit = self._unfit(place, cast("EngineProcess", place.host), descriptors)
        if unfit is not None:
            self._end(place, unfit)
        else:
            self._idle.append(place)
            loop = asyncio.get_running_loop()
            place.expiry = loop.call_later(self._idle_seconds, self._expire, place)
        self._wake(1)

    def _unfit(self, place: Place, host: EngineProcess, descriptors: int) -> str | None:
        if descriptors > host.descriptors + _DESCRIPTORS_MORE_MAX:
            return _LEAKS
        if place.stamp != self._stamp(place.packs):
            return _OUT_OF_DATE
        return _UNFIT if self._is_closed or place.jobs >= _JOBS_MAX or host.is_gone else None

    def _find(self, workspace: str, packs: Packs) -> Place | None:
        """A place for a job: an idle one of its workspace and packs, a free one, or the longest idle one of another."""
        for place in reversed(self._idle):
            if (place.workspace, place.packs) == (workspace, packs):
                self._idle.remove(place)
                if not cast("EngineProcess", place.host).is_gone:
                    return self._occupy(place)
                self._end(place, _UNFIT)
                break
        if self._idle and len(self._busy) + len(self._idle) >= self._count:
            self._end(self._idle.pop(0), "its place was wanted for another workspace, or other node packs")
        if len(self._busy) + len(self._idle) < self._count:
            return self._occupy(Place(workspace, packs, self._stamp(packs)))
        return None

    def _occupy(self, place: Place) -> Place:
        if place.expiry is not None:
            place.expiry.cancel()
        self._busy.add(place)
        return place

    async def _start_host(self, place: Place, execution: HostedExecution) -> Place | None:
        """The place with a host, started for it; None when the job was cancelled."""
        starting = asyncio.ensure_future(self._start(place.packs))
        try:
            waits: set[asyncio.Future[Any]] = {starting, execution.cancellation}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                place.host = starting.result()
            return place if place.host is not None else None
        finally:
            if place.host is None:
                self._give_up(starting)
                self._busy.discard(place)
                self._wake(1)

    def _give_up(self, starting: "asyncio.Future[EngineProcess]") -> None:
        """Cancel a start that is no longer needed; the host may have started at the same moment."""
        if starting.cancel():
            self._ending(starting)
        elif not starting.cancelled() and starting.exception() is None:
            self._ending(asyncio.ensure_future(starting.result().end("its start was given up")))

    async def _wait(self, execution: HostedExecution, *, is_called: bool) -> None:
        turn = asyncio.get_running_loop().create_future()
        if is_called:
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        try:
            await asyncio.wait({turn, execution.cancellation}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if turn.done():
                self._wake(1)
            raise
        finally:
            if not turn.done():
                self._waiting.remove(turn)

    def _wake(self, count: int) -> None:
        for _ in range(min(count, len(self._waiting))):
            self._waiting.popleft().set_result(None)

    def _expire(self, place: Place) -> None:
        self._idle.remove(place)
        self._end(place, "it was idle")

    def _end(self, place: Place, reason: str) -> None:
        if place.expiry is not None:
            place.expiry.cancel()
        if place.host is not None:
            self._ending(asyncio.ensure_future(place.host.end(reason)))

    def _ending(self, task: "asyncio.Future[Any]") -> None:
        """Something that ends; the server waits for it before it ends itself."""
        self._endings.add(task)
        task.add_done_callback(self._note_ending)

    def _note_ending(self, task: "asyncio.Future[Any]") -> None:
        self._endings.discard(task)
        if not task.cancelled():
            task.exception()
