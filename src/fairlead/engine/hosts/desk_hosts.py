"""The desk hosts of a server: one that has every node pack, and one for each set of packs that is asked of.

The first lives as long as the server. The others begin with the first question about their packs, end when nobody has
asked for a while, and are few: the longest idle one makes room.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from fairlead.domain.deployments import PackSet
from fairlead.engine.hosts.child import Host
from fairlead.engine.hosts.desk import Desk
from fairlead.engine.hosts.desk_host import DeskHost, EngineUnavailableError, Prepared
from fairlead.engine.hosts.protocol import Checked, Refused, Render, Rendered

_WAITING_MAX: Final = 1_000
_REST_SECONDS: Final = 10.0
"""How long no host is started with packs that two could not be started with, but to prepare them."""
_CLOSED: Final = "the server ends"
_NO_ROOM: Final = "too many sets of node packs are in use right now"


@dataclass(frozen=True, slots=True)
class DeskHostLimits:
    """Bounds of those beside the first: how many there are, and in seconds how long one is idle and room waited for.

    One that works longer than `question_seconds` on a question is ended, and so is the first.
    """

    count: int
    idle_seconds: float
    room_seconds: float
    question_seconds: float


@dataclass(eq=False, slots=True)
class _Other:
    """One beside the first, and how many are with it: who asks it something, and who sees it started."""

    host: DeskHost
    visitors: int = 0
    expiry: asyncio.TimerHandle | None = None


class DeskHosts:
    """Whom a server asks, by the packs that a question is about. `start_host` starts a host that has some packs."""

    def __init__(self, start_host: Callable[[PackSet], Awaitable[Host]], limits: DeskHostLimits) -> None:
        self._start_host = start_host
        self._limits = limits
        self._first = DeskHost(partial(start_host, None), limits.question_seconds)
        self._others: dict[tuple[str, ...], _Other] = {}
        """By their packs, those longest idle first among the idle."""
        self._room = asyncio.Event()
        """Set for a moment when there may be room for another."""
        self._waiting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def begin(self) -> None:
        """Have the first there from now on; who asks before it is waits for it."""
        self._first.begin()

    async def close(self) -> None:
        """End every host; whoever still waits for one gets EngineUnavailableError."""
        self._is_closed = True
        for packs in list(self._others):
            self._end(packs, _CLOSED)
        await self._first.close(_CLOSED)
        while self._tasks:
            await asyncio.wait(self._tasks)

    def replace(self) -> None:
        """Have others take the place of all, whose nodes are out of date; they serve until then."""
        for host in (self._first, *(other.host for other in self._others.values())):
            host.replace()

    @property
    def is_current(self) -> bool:
        """Whether the first has the nodes that there are now."""
        return self._first.is_current

    async def check(
        self, job: str, workflow: bytes, targets: Sequence[str] | None, desk: Desk, packs: PackSet
    ) -> Checked | Refused:
        """Check a workflow. EngineUnavailableError when no host lives to say something about it."""
        async with self._visited(packs) as host:
            return await host.check(job, workflow, targets, desk)

    async def describe(self, packs: PackSet) -> bytes:
        """The classes of nodes there are with some packs, as JSON. EngineUnavailableError as for checks."""
        async with self._visited(packs) as host:
            return await host.describe()

    async def render(self, order: Render) -> Rendered:
        """Have a picture rendered. EngineUnavailableError as for checks."""
        return await self._first.render(order)

    async def prepare(self, packs: PackSet, *, anew: bool) -> Prepared:
        """What a host makes of some packs, with `anew` one that is started now. EngineUnavailableError for none."""
        async with self._visited(packs, is_anew=True) as host:
            return await host.prepared(anew=anew)

    # Which one.

    @asynccontextmanager
    async def _visited(self, packs: PackSet, *, is_anew: bool = False) -> AsyncIterator[DeskHost]:
        """The one for some packs, which stays while it is visited. Where it was given up, it begins `is_anew`."""
        if packs is None:
            yield self._first
            return
        other = await self._entered(packs, is_anew=is_anew)
        try:
            yield other.host
        finally:
            self._leave(packs, other)

    async def _entered(self, packs: tuple[str, ...], *, is_anew: bool) -> _Other:
        clock = asyncio.get_running_loop().time
        until = clock() + self._limits.room_seconds
        while not self._is_closed:
            other = self._found(packs, is_anew=is_anew)
            if other is not None:
                _enter(other)
                return other
            if self._waiting >= _WAITING_MAX or clock() >= until:
                raise EngineUnavailableError(_NO_ROOM)
            await self._wait_for_room(until - clock())
        raise EngineUnavailableError(_CLOSED)

    async def _wait_for_room(self, seconds: float) -> None:
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._room.wait()
        finally:
            self._waiting -= 1

    def _found(self, packs: tuple[str, ...], *, is_anew: bool) -> _Other | None:
        """The one for some packs, begun where there is none; None where there is no room for it."""
        other = self._others.get(packs)
        if other is not None and other.host.failed_at is not None:
            rested = asyncio.get_running_loop().time() - other.host.failed_at
            if is_anew or rested >= _REST_SECONDS:
                self._end(packs, "another try is made")
                other = None
        if other is None and self._has_room():
            host = DeskHost(partial(self._start_host, packs), self._limits.question_seconds, may_fail=True)
            host.begin()
            self._others[packs] = other = _Other(host)
            _enter(other)
            self._keep(asyncio.create_task(self._see_started(packs, other)))
        return other

    def _has_room(self) -> bool:
        """Whether there is room for one more, for which the longest idle is ended."""
        if len(self._others) < self._limits.count:
            return True
        idle = next((packs for packs, other in self._others.items() if not other.visitors), None)
        if idle is not None:
            self._end(idle, "its place was wanted for other node packs")
        return idle is not None

    async def _see_started(self, packs: tuple[str, ...], other: _Other) -> None:
        """Stay until its host is there: who it was begun for may have left meanwhile, to come again."""
        await other.host.settled()
        self._leave(packs, other)

    def _leave(self, packs: tuple[str, ...], other: _Other) -> None:
        other.visitors -= 1
        if other.visitors or self._others.get(packs) is not other:
            return
        self._others[packs] = self._others.pop(packs)
        loop = asyncio.get_running_loop()
        other.expiry = loop.call_later(self._limits.idle_seconds, self._end, packs, "it was idle")
        self._tell_of_room()

    def _end(self, packs: tuple[str, ...], reason: str) -> None:
        other = self._others.pop(packs)
        if other.expiry is not None:
            other.expiry.cancel()
        self._keep(asyncio.create_task(other.host.close(reason)))
        self._tell_of_room()

    def _tell_of_room(self) -> None:
        self._room.set()
        self._room.clear()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _enter(other: _Other) -> None:
    other.visitors += 1
    if other.expiry is not None:
        other.expiry.cancel()
        other.expiry = None
