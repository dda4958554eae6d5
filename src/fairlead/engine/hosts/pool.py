"""The engine hosts of a server: those that check workflows for everybody, and some that execute jobs.

A host has one set of node packs for as long as it lives. One that executes also belongs to one workspace, and so does
its cache. It is kept while it is idle, for that workspace's next job with those packs, until its place is wanted for
another or nobody has come for a while.
"""

import asyncio
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from fairlead.domain.deployments import PackSet
from fairlead.domain.jobs.events import Ending, Interrupted
from fairlead.engine.hosts.child import Host, HostNotStartedError, Loss
from fairlead.engine.hosts.desk import Desk
from fairlead.engine.hosts.desk_host import EngineUnavailableError, Prepared
from fairlead.engine.hosts.desk_hosts import DeskHostLimits, DeskHosts
from fairlead.engine.hosts.losses import not_started
from fairlead.engine.hosts.notes import TakeNote
from fairlead.engine.hosts.protocol import Checked, Execute, Order, Refused, Render, Rendered
from fairlead.engine.hosts.scratch import ScratchFolders
from fairlead.engine.hosts.sitting import Sitting
from fairlead.engine.packs.finding import absence, absent, find_packs

_JOBS_MAX: Final = 20_000
"""What a host executes before another takes its place: node packs leak."""
_CLOSED: Final = "the server ends"
_UNFIT: Final = "it is not good for another job"


@dataclass(frozen=True, slots=True)
class HostSettings:
    """What hosts are given. Memory and cache are in bytes of each host (0 memory is no bound), times in seconds.

    `scratch` is the folder for theirs, shared with other servers at will; `packs` are folders of node packs; `places`
    is how many hosts execute jobs at once. Beside them there are the one that checks with every pack, and as many as
    `desk_hosts` that do so with some; when all of these are at work, room is waited for `room_seconds` at most.
    A host that does not end a job within `interrupt_seconds` of the wish is killed, and so is one that checks something
    for more than `check_seconds`.
    """

    scratch: Path
    places: int = 2
    desk_hosts: int = 4
    memory: int = 0
    cache: int = 256 * 2**20
    packs: Sequence[str] = ()
    confined: bool = False
    blobs: Path | None = None
    idle_seconds: float = 300.0
    job_seconds: float = 3_600.0
    interrupt_seconds: float = 5.0
    check_seconds: float = 60.0
    room_seconds: float = 15.0


@dataclass(eq=False, slots=True)
class _Place:
    """A place for a host that executes; `host` is None while one is being started."""

    workspace: str
    packs: PackSet
    generation: int
    host: Host | None = None
    is_stale: bool = False
    """Whether its packs are to be loaded anew."""
    jobs: int = 0
    expiry: asyncio.TimerHandle | None = None


class Hosts:
    """Every engine host of a server. It belongs to one event loop."""

    def __init__(self, settings: HostSettings, partner_nodes: bytes, note: TakeNote) -> None:
        self._settings = settings
        self._packs = [Path(folder).resolve() for folder in settings.packs]
        self._partner_nodes = partner_nodes
        self._note = note
        self._generation = 0
        self.edition = 0
        """Counts the changes of the classes that there are with every pack."""
        self._folders: ScratchFolders | None = None
        limits = DeskHostLimits(
            settings.desk_hosts, settings.idle_seconds, settings.room_seconds, settings.check_seconds
        )
        self._desk_hosts = DeskHosts(self._start_desk_host, limits)
        self._busy: set[_Place] = set()
        self._idle: list[_Place] = []
        """Those that wait for their workspaces' next jobs, the longest idle first."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._sittings: dict[str, Sitting] = {}
        self._endings: set[asyncio.Future[Any]] = set()
        self._is_closed = False

    async def begin(self) -> None:
        """Take a folder and have the host that checks started; who asks before it is there waits for it.

        EngineUnavailableError where no folder can be made. A host that cannot be started is noted and tried again.
        """
        try:
            self._folders = await asyncio.to_thread(ScratchFolders, self._settings.scratch)
        except OSError as error:
            words = f"no folder for engine hosts can be made in {self._settings.scratch}: {error.strerror}"
            raise EngineUnavailableError(words) from error
        self._desk_hosts.begin()

    async def close(self) -> None:
        """End every host. Jobs that are executed are not ended: `execute` raises EngineUnavailableError."""
        self._is_closed = True
        for sitting in self._sittings.values():
            sitting.interrupt()
        for place in (*self._busy, *self._idle):
            self._end(place, _CLOSED)
        self._idle.clear()
        await self._desk_hosts.close()
        while self._endings:
            await asyncio.wait(self._endings)
        if self._folders is not None:
            await asyncio.to_thread(self._folders.close)
            self._folders = None

    def set_partner_nodes(self, document: bytes) -> None:
        """Have partners' models as nodes from now on. Each host is replaced as soon as it has nothing to do."""
        self._partner_nodes = document
        self._generation += 1
        self.edition += 1
        stale, self._idle = self._idle, []
        for place in stale:
            self._end(place, "its nodes are out of date")
        self._wake(len(stale))
        self._desk_hosts.replace()

    async def pack_names(self) -> list[str]:
        """The names of the node packs there are right now; a folder that is gone has none."""
        found = await asyncio.to_thread(find_packs, self._packs)
        return sorted({pack.name for pack in found.packs})

    async def prepare(self, packs: PackSet, *, anew: bool = False) -> Prepared:
        """Have a host load some packs that checks workflows with them, and say how each fared; minutes, at worst.

        With `anew` no host that has loaded them before takes more work. EngineUnavailableError when no host comes and
        no pack is to blame.
        """
        missing = () if packs is None else absent(packs, await self.pack_names())
        if missing:
            return Prepared((), missing, absence(missing))
        prepared = await self._desk_hosts.prepare(packs, anew=anew)
        if anew:
            self._set_stale(packs)
        return prepared

    def _set_stale(self, packs: PackSet) -> None:
        """Have no job executed any more by hosts with some packs that were started before."""
        self.edition += packs is None
        for place in self._busy:
            place.is_stale = place.is_stale or place.packs == packs
        stale = [place for place in self._idle if place.packs == packs]
        self._idle = [place for place in self._idle if place.packs != packs]
        for place in stale:
            self._end(place, "its node packs are loaded anew")
        self._wake(len(stale))

    @property
    def is_current(self) -> bool:
        """Whether classes that are described from now on are those that were set last."""
        return self._desk_hosts.is_current

    async def describe(self, packs: PackSet = None) -> bytes:
        """The classes of nodes there are with some packs, as one JSON object (C-01). EngineUnavailableError."""
        return await self._desk_hosts.describe(packs)

    async def check(
        self, job_id: str, workflow: bytes, targets: Sequence[str] | None, desk: Desk, packs: PackSet = None
    ) -> Checked | Refused:
        """Check a workflow, the graph in the API format; `desk` is asked for files. EngineUnavailableError."""
        return await self._desk_hosts.check(job_id, workflow, targets, desk, packs)

    async def render(self, order: Render) -> Rendered:
        """Have a picture rendered; the order's `job` is any name. EngineUnavailableError."""
        return await self._desk_hosts.render(order)

    # Jobs.

    async def execute(self, workspace_id: str, order: Execute, desk: Desk, packs: PackSet = None) -> Ending:
        """Execute a workflow that was checked with these packs, as soon as there is a place; returns how it ended.

        EngineUnavailableError when the server ends meanwhile. Who cancels this ends the host that executes.
        """
        if order.job in self._sittings:
            raise ValueError(f"job {order.job} is being executed")
        settings = self._settings
        sitting = Sitting(order, desk, settings.job_seconds, settings.interrupt_seconds)
        self._sittings[order.job] = sitting
        try:
            place = await self._taken(workspace_id, packs, sitting)
            ending: Ending | Loss = (
                Interrupted(None, None, []) if place is None else await self._executed(place, sitting)
            )
        except HostNotStartedError as error:
            ending = not_started(str(error))
        finally:
            del self._sittings[order.job]
        if self._is_closed and isinstance(ending, Interrupted | Loss):
            raise EngineUnavailableError(_CLOSED)
        return await sitting.failed(ending) if isinstance(ending, Loss) else ending

    def interrupt(self, job_id: str) -> None:
        """Have a job end soon; one that is not executed here is passed by."""
        if job_id in self._sittings:
            self._sittings[job_id].interrupt()

    async def _executed(self, place: _Place, sitting: Sitting) -> Ending | Loss:
        host = cast("Host", place.host)
        try:
            return await sitting.held(host)
        except BaseException:
            host.kill("its job was given up")
            raise
        finally:
            self._give_back(place)

    # Places.

    async def _taken(self, workspace: str, packs: PackSet, sitting: Sitting) -> _Place | None:
        """A place with a host of the workspace that has the packs; None when the job is not wanted any more.

        Who comes while others wait waits behind them.
        """
        is_called = False
        while not (self._is_closed or sitting.wish.done()):
            place = self._found(workspace, packs) if is_called or not self._waiting else None
            if place is not None:
                return place if place.host is not None else await self._started(place, sitting)
            await self._wait(sitting, is_called=is_called)
            is_called = True
        if is_called:
            self._wake(1)  # it was this one's turn
        return None

    def _found(self, workspace: str, packs: PackSet) -> _Place | None:
        """A place for a job: an idle one of its workspace and packs, a free one, or the longest idle of another."""
        for place in reversed(self._idle):
            if (place.workspace, place.packs) == (workspace, packs):
                self._idle.remove(place)
                if not cast("Host", place.host).is_gone:
                    return self._occupied(place)
                self._end(place, _UNFIT)
                break
        if self._idle and len(self._busy) + len(self._idle) >= self._settings.places:
            self._end(self._idle.pop(0), "its place was wanted for another workspace, or other node packs")
        if len(self._busy) + len(self._idle) < self._settings.places:
            return self._occupied(_Place(workspace, packs, self._generation))
        return None

    def _occupied(self, place: _Place) -> _Place:
        if place.expiry is not None:
            place.expiry.cancel()
        self._busy.add(place)
        return place

    async def _started(self, place: _Place, sitting: Sitting) -> _Place | None:
        """The place with a host, started for it; None when the job is not wanted any more."""
        starting = asyncio.ensure_future(self._start_host(place.packs, is_desk=False))
        try:
            waits: set[asyncio.Future[Any]] = {starting, sitting.wish}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                place.host = starting.result()
            return place if place.host is not None else None
        finally:
            if place.host is None:
                self._give_up(starting)
                self._busy.discard(place)
                self._wake(1)

    def _give_up(self, starting: "asyncio.Task[Host]") -> None:
        """Have a start end that nobody waits for; a host may have come in the very moment."""
        if starting.cancel():
            self._ending(starting)
        elif not starting.cancelled() and starting.exception() is None:
            self._ending(asyncio.ensure_future(starting.result().end("its start was given up")))

    async def _wait(self, sitting: Sitting, *, is_called: bool) -> None:
        turn = asyncio.get_running_loop().create_future()
        if is_called:
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        try:
            await asyncio.wait({turn, sitting.wish}, return_when=asyncio.FIRST_COMPLETED)
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

    def _give_back(self, place: _Place) -> None:
        """Keep a host for the next job of its workspace, if it is good for one."""
        self._busy.discard(place)
        place.jobs += 1
        is_stale = place.is_stale or place.generation != self._generation or place.jobs >= _JOBS_MAX
        if self._is_closed or is_stale or cast("Host", place.host).is_gone:
            self._end(place, _UNFIT)
        else:
            self._idle.append(place)
            loop = asyncio.get_running_loop()
            place.expiry = loop.call_later(self._settings.idle_seconds, self._expire, place)
        self._wake(1)

    def _expire(self, place: _Place) -> None:
        self._idle.remove(place)
        self._end(place, "it was idle")

    def _end(self, place: _Place, reason: str) -> None:
        if place.expiry is not None:
            place.expiry.cancel()
        if place.host is not None:
            self._ending(asyncio.ensure_future(place.host.end(reason)))

    def _ending(self, task: "asyncio.Future[Any]") -> None:
        """Something that ends; the server waits for it before it ends itself."""
        self._endings.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Future[Any]") -> None:
        self._endings.discard(task)
        if not task.cancelled():
            task.exception()

    # Processes.

    async def _start_desk_host(self, packs: PackSet) -> Host:
        return await self._start_host(packs, is_desk=True)

    async def _start_host(self, packs: PackSet, *, is_desk: bool) -> Host:
        if self._folders is None:
            raise HostNotStartedError(_CLOSED)
        settings = self._settings
        order = Order(
            str(self._folders.next()),
            self._partner_nodes,
            [str(folder) for folder in self._packs],
            settings.cache,
            settings.memory,
            settings.confined,
            None if settings.blobs is None else str(settings.blobs),
            packs,
        )
        threads = max(1, (os.cpu_count() or 1) // settings.places)
        return await Host.start(order, self._note, is_desk=is_desk, threads=threads)
