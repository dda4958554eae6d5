"""Watches a queued run: its status now, and again whenever it changes (docs/queue.md)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import ConcurrencyLimitExceeded, FaultError
from fairlead.domain.runs.queue import QueueStatus
from fairlead.messaging.event_hub import EventHub, RunWatch
from fairlead.operations.runs.collect import Collector, RequestStatus

WATCHERS_MAX: Final = 100
"""How many watches a workspace may have open at this server."""
_LOOK_SECONDS: Final = 2.0
_SILENCE_SECONDS: Final = 15.0


class Watcher:
    """Lets callers watch their queued runs. An event is a reason to read the status; it is also read now and then."""

    def __init__(self, collector: Collector, events: EventHub) -> None:
        self._collector = collector
        self._events = events
        self._watches: set[RunWatch] = set()
        self._open = Counter[str]()
        self._is_closed = False

    def close(self) -> None:
        """End every watch: the server is about to stop, and would otherwise wait for them."""
        self._is_closed = True
        for watch in self._watches:
            watch.close()

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
        loop = asyncio.get_running_loop()
        watch = self._events.watch_run(caller.workspace_id, status.request_id)
        self._open[caller.workspace_id] += 1
        self._watches.add(watch)
        try:
            yield status
            said_at = loop.time()
            while status.status is not QueueStatus.COMPLETED:
                await watch.wait(_LOOK_SECONDS)
                found = await self._look(caller, status)
                if found is None:
                    return
                has_changed = (found.status, found.position) != (status.status, status.position)
                status = found
                if has_changed or loop.time() - said_at >= _SILENCE_SECONDS:
                    said_at = loop.time()
                    yield status if has_changed else None
        finally:
            self._leave(caller.workspace_id, watch)

    async def _look(self, caller: Caller, status: RequestStatus) -> RequestStatus | None:
        """The status of the run; None where it cannot be read, as the head of the answer was sent long ago."""
        if self._is_closed:
            return None
        try:
            return await self._collector.status(caller, status.model_id, status.request_id)
        except FaultError:
            return None

    def _leave(self, workspace_id: str, watch: RunWatch) -> None:
        watch.close()
        self._watches.discard(watch)
        self._open[workspace_id] -= 1
        if not self._open[workspace_id]:
            del self._open[workspace_id]
