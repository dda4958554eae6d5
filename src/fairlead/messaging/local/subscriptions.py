"""The queue of one subscriber, within bounds."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from fairlead.domain.jobs.events import (
    Cached,
    Counted,
    EventEnvelope,
    Executed,
    Executing,
    Failed,
    Finished,
    Interrupted,
    Notice,
    Preview,
    Progress,
    ProgressText,
    ShownValues,
)
from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.event_hub import Broadcast, CloseReason, HubLimits

_BASE_BYTES: Final = 512
"""The size that is counted for an event without content of its own."""
_NODE_BYTES: Final = 300
"""The size that is counted for the progress of one node."""
_encode: Final = msgspec.json.Encoder().encode
_OfANode: TypeAlias = Preview | Progress | ProgressText
"""Live events about a node."""
_LiveKey: TypeAlias = tuple[type[object], str | None, str]
_Key: TypeAlias = int | _LiveKey


class SizedBroadcast:
    """A broadcast with its size on the wire; with a `key` if only the newest broadcast of that key is sent."""

    __slots__ = ("broadcast", "live_key", "size")

    def __init__(self, broadcast: Broadcast) -> None:
        self.broadcast = broadcast
        self.size = _size(broadcast)
        self.live_key = _live_key(broadcast.envelope)


class LocalSubscription:
    """The events for one subscriber.

    `running` are the nodes that are executed when it begins; `ended` is done when it has ended. `leave` is called once,
    when it ends.
    """

    def __init__(
        self, running: Sequence[EventEnvelope], limits: HubLimits, leave: Callable[["LocalSubscription"], None]
    ) -> None:
        self.running = running
        self.ended: asyncio.Future[CloseReason] = asyncio.get_running_loop().create_future()
        self._limits = limits
        self._leave = leave
        self._waiting: dict[_Key, SizedBroadcast] = {}
        self._live: dict[_Key, None] = {}
        self._bytes = 0
        self._turns = itertools.count()
        self._waiter: asyncio.Future[None] | None = None

    async def next(self) -> Sequence[Broadcast]:
        """The next events, in order, at most `batch_bytes` and one more; empty once the subscription has ended.

        Only one caller may wait at a time.
        """
        while not self._waiting and not self.ended.done():
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        taken: list[Broadcast] = []
        size = 0
        while self._waiting and size < self._limits.batch_bytes:
            sized = self._remove(next(iter(self._waiting)))
            size += sized.size
            taken.append(sized.broadcast)
        return taken

    def close(self) -> None:
        """Stop watching."""
        self.end(CloseReason.CLOSED)

    def put(self, sized: SizedBroadcast) -> None:
        """Keep a broadcast until `wake`; one that does not fit any more ends the subscription."""
        if self.ended.done():
            return
        key: _Key = next(self._turns)
        if sized.live_key is not None:
            # One that keeps up gets every event; of one that is behind, the newest of each subject replaces the others.
            if self._is_behind():
                key = sized.live_key
                if key in self._waiting:
                    self._remove(key)
            self._live[key] = None
        self._waiting[key] = sized
        self._bytes += sized.size
        if self._is_full():
            self._make_room()

    def wake(self) -> None:
        """Let the caller of `next` have what is there."""
        has_next = self._waiting or self.ended.done()
        if has_next and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self, reason: CloseReason) -> None:
        """End, and discard what waits."""
        if not self.ended.done():
            self.ended.set_result(reason)
            self._leave(self)
        self._waiting.clear()
        self._live.clear()
        self._bytes = 0
        self.wake()

    def _is_behind(self) -> bool:
        limits = self._limits
        return len(self._waiting) >= limits.coalesce_above or self._bytes >= limits.coalesce_above_bytes

    def _is_full(self) -> bool:
        return len(self._waiting) > self._limits.waiting or self._bytes > self._limits.waiting_bytes

    def _make_room(self) -> None:
        """Drop live events, the oldest first; end the subscription if that is not enough."""
        while self._live and self._is_full():
            self._remove(next(iter(self._live)))
        if self._is_full():
            self.end(CloseReason.TOO_SLOW)

    def _remove(self, key: _Key) -> SizedBroadcast:
        sized = self._waiting.pop(key)
        self._live.pop(key, None)
        self._bytes -= sized.size
        return sized


def _size(broadcast: Broadcast) -> int:
    """About how many bytes a broadcast takes on the wire."""
    least = _BASE_BYTES + _NODE_BYTES * len(broadcast.progress)
    match None if broadcast.envelope is None else broadcast.envelope.event:
        case Executing() | Finished():  # nearly all events of a long job
            return least
        case Preview(_, _, image):
            return least + len(image)
        case Executed(_, ui):
            return least + len(ShownValues.encode(ui).json)
        case Failed() | Cached() | Interrupted() | Notice() | ProgressText() as event:
            return least + len(_encode(event))
        case _:
            return least


def _live_key(envelope: EventEnvelope | None) -> _LiveKey | None:
    """The subject of a live event: of several with one subject only the newest is worth sending."""
    if envelope is None:
        return None
    if isinstance(envelope.event, _OfANode):
        return type(envelope.event), envelope.job_id, envelope.event.place.node
    return (Counted, envelope.job_id, "") if isinstance(envelope.event, Counted) else None


class LocalRunWatch:
    """Gets the changes of one run. `leave` is called when it is closed."""

    def __init__(self, leave: Callable[["LocalRunWatch"], None]) -> None:
        self._leave = leave
        self._woken = asyncio.Event()
        self._newest: RunChanged | None = None

    def put(self, change: RunChanged) -> None:
        """Note that the run has changed."""
        self._newest = change
        self._woken.set()

    async def wait(self, seconds: float) -> RunChanged | None:
        """Wait until the run has changed since the last wait; its newest change, None after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()
        newest, self._newest = self._newest, None
        return newest

    def close(self) -> None:
        """End the watch, and a wait for it."""
        self._woken.set()
        self._leave(self)
