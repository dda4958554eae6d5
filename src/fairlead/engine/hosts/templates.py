"""The processes that hosts are forked from: one that has the engine, and one, for hosts with packs, that has torch too.

What takes long and belongs to nobody is done once. A host loads its packs itself, for what their code has done to a
process stays in it, and it serves one workspace. Where a template cannot be forked, as on systems other than Linux,
each host is a process of its own.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeAlias

import msgspec

from fairlead.engine.hosts.forking import CAN_FORK
from fairlead.engine.hosts.kept_process import KeptProcess
from fairlead.engine.hosts.notes import HostStarted, TakeNote
from fairlead.engine.hosts.policies import HostPolicies
from fairlead.engine.hosts.process import EngineProcess, HostNotStartedError
from fairlead.engine.hosts.scratch import ScratchFolders
from fairlead.engine.hosts.service import PackReport, TemplateService
from fairlead.engine.packs.finding import absence, absent
from fairlead.processes.confinement.policy import PROCESSES_MAX
from fairlead.processes.tree import NICENESS

P = ParamSpec("P")
Packs: TypeAlias = tuple[str, ...]
Start: TypeAlias = Callable[[Packs], Awaitable[EngineProcess]]
"""Starts a host with some packs."""
_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""One thread for linear algebra and two arenas of memory, because there are many hosts, each with several threads."""
_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
_START_SECONDS: Final = 60.0
_PROBES_AT_ONCE: Final = 2


class HostSettings(msgspec.Struct, frozen=True):
    """The options of engine hosts.

    Memory and cache are in bytes for each host (0 memory is no bound), times in seconds. `scratch` is the folder for
    their folders, which servers may share; `packs` are folders of node packs, which are ignored while they are
    `packs_refused`, and `copies` is the folder of releases' copies; without `policies` hosts are not confined. At a
    time `places` hosts execute jobs, and `extra_places` more (T-05), `checks` graphs are checked and `renders` pictures
    made; for each of the latter two, `kept` idle hosts are kept. Packs that are still being probed are waited for
    `loading_seconds` at most. A host that does not end a job within `interrupt_seconds` of a request to stop is killed,
    and so is one that checks something for more than `check_seconds`, or does not answer for `heartbeat_seconds`. A
    pack that takes more than `pack_seconds` to load is not used, and one that takes more than `turn_seconds` no longer
    keeps the probes of others waiting.
    """

    scratch: Path
    places: int = 2
    extra_places: int = 0
    checks: int = 8
    renders: int = 2
    kept: int = 16
    memory: int = 0
    cache: int = 256 * 2**20
    packs: Sequence[str] = ()
    packs_refused: str | None = None
    copies: str | None = None
    policies: HostPolicies | None = None
    idle_seconds: float = 300.0
    job_seconds: float = 3_600.0
    interrupt_seconds: float = 5.0
    check_seconds: float = 60.0
    loading_seconds: float = 15.0
    pack_seconds: float = 60.0
    turn_seconds: float = 5.0
    heartbeat_seconds: float = 10.0


class Service(msgspec.Struct, frozen=True):
    """The purpose of a host: `kind` is for reports, the rest is sent to the host."""

    kind: str
    cache: int = 0
    niceness: int = NICENESS


class _Template(msgspec.Struct, eq=False):
    """A process that has run no code of packs, and whether it can be forked."""

    process: EngineProcess
    is_forkable: bool

    @property
    def is_gone(self) -> bool:
        """Whether it is no longer forked."""
        return self.process.is_gone


class Templates:
    """The templates of a server, and every process that was forked from one."""

    def __init__(
        self,
        settings: HostSettings,
        packs: Sequence[Path],
        folders: ScratchFolders,
        partner_nodes: bytes,
        note: TakeNote,
    ) -> None:
        """Fork from templates that know the `packs` of some folders, and work below `folders`."""
        self.living: Final[set[EngineProcess]] = set()
        """All running processes."""
        self.begun: Final = asyncio.Event()
        """Set once the first process has begun to load the engine."""
        self._partner_nodes = partner_nodes
        self._settings = settings
        self._packs = [str(folder) for folder in packs]
        self._folders = folders
        self._note = note
        self._plain = KeptProcess[_Template](self._start_plain)
        self._torch = KeptProcess[_Template](self._start_torch)
        self._probes = asyncio.Semaphore(_PROBES_AT_ONCE)
        self._tasks: set[asyncio.Future[Any]] = set()

    async def close(self, reason: str) -> None:
        """End every process."""
        for kept in (self._torch, self._plain):
            kept.close()
        while self.living:  # forks end first, because the process they were forked from reaps them
            leaves = [process for process in self.living if not process.forked]
            await asyncio.gather(*(process.end(reason) for process in leaves))
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def renew(self, partner_nodes: bytes, reason: str) -> None:
        """Have other partners' models as nodes: templates are started anew, and the old ones end with their forks."""
        self._partner_nodes = partner_nodes
        for kept in (self._torch, self._plain):
            self._keep(asyncio.ensure_future(self._retire(kept, reason)))
        self._plain = KeptProcess[_Template](self._start_plain)
        self._torch = KeptProcess[_Template](self._start_torch)

    async def classes(self) -> bytes:
        """The classes of no pack, as `TemplateService.describe`. HostNotStartedError."""
        async with self._plain.use() as template:
            return await template.process.order(_START_SECONDS, TemplateService.describe)

    async def probe(self, pack: str) -> tuple[PackReport, bytes]:
        """Load a pack by itself: the report, and its classes as `TemplateService.describe`. HostNotStartedError.

        A few packs begin at a time. The others wait for their turns, and their time limit begins with them; a pack that
        takes longer than a turn goes on beside them.
        """
        async with self._probes:
            probe = asyncio.ensure_future(self._probe(pack))
            try:
                await asyncio.wait({probe}, timeout=self._settings.turn_seconds)
            except asyncio.CancelledError:
                probe.cancel()
                raise
        return await probe

    async def _probe(self, pack: str) -> tuple[PackReport, bytes]:
        began = asyncio.get_running_loop().time()
        process, folder = await self._process((pack,))
        reports = await self._load(process, folder, (pack,))
        self._note(HostStarted(process.pid, asyncio.get_running_loop().time() - began, "probe", (pack,)))
        classes = await process.order(_START_SECONDS, TemplateService.describe)
        self._keep(asyncio.ensure_future(process.end("its node pack was probed")))
        return next(report for report in reports if report.name == pack), classes

    async def host(self, packs: Packs, service: Service) -> EngineProcess:
        """A new host, with exactly some packs, which loads them itself. HostNotStartedError."""
        began = asyncio.get_running_loop().time()
        process, folder = await self._process(packs)
        process.child.tree.give_way(service.niceness)
        await self._load(process, folder, packs)
        process.descriptors = await process.order(_START_SECONDS, TemplateService.serve, service.cache)
        self._note(HostStarted(process.pid, asyncio.get_running_loop().time() - began, service.kind, packs))
        return process

    # Processes that load packs.

    async def _process(self, packs: Packs) -> tuple[EngineProcess, Path]:
        """A process for some packs, which it has not loaded yet, and its folder. HostNotStartedError."""
        kept = self._torch if packs else self._plain
        # A template may end before it is forked; another one is then tried once.
        for is_last in (False, True):
            folder = self._folders.next()
            async with kept.use() as template:
                if not template.is_forkable:
                    break
                try:
                    return await self._see(await template.process.fork(folder)), folder
                except HostNotStartedError:
                    if is_last or not template.process.is_gone:
                        raise
        process = await self._spawn(folder)
        if packs:
            await process.order(_START_SECONDS, TemplateService.preload)
        return process, folder

    async def _load(self, process: EngineProcess, folder: Path, packs: Packs) -> Sequence[PackReport]:
        """Have a process confine itself to its folder, and load some packs."""
        policies = self._settings.policies
        policy = None if policies is None else policies.narrow(packs, str(folder))
        reports = await process.order(self._settings.pack_seconds, TemplateService.load, str(folder), packs, policy)
        if missing := absent(packs, [report.name for report in reports]):
            process.kill("it lacks node packs")
            raise HostNotStartedError(absence(missing), missing=missing)
        return reports

    # Templates.

    async def _start_plain(self) -> _Template:
        began = asyncio.get_running_loop().time()
        process = await self._begin(self._folders.next())
        template = await self._prepare(process, TemplateService.load_engine, self._partner_nodes)
        self._note(HostStarted(process.pid, asyncio.get_running_loop().time() - began, "template"))
        return template

    async def _start_torch(self) -> _Template:
        """A process with torch; the plain one where torch cannot be imported, which packs then notice by themselves."""
        began = asyncio.get_running_loop().time()
        plain = await self._plain.get()
        if not plain.is_forkable:
            return plain
        process = await self._see(await plain.process.fork(self._folders.next()))
        try:
            template = await self._prepare(process, TemplateService.preload)
        except HostNotStartedError:
            return plain
        self._note(HostStarted(process.pid, asyncio.get_running_loop().time() - began, "template"))
        return template

    async def _prepare(
        self,
        process: EngineProcess,
        method: Callable[Concatenate[TemplateService, P], Awaitable[bool]],
        *given: P.args,
        **named: P.kwargs,
    ) -> _Template:
        can_fork = await process.order(_START_SECONDS, method, *given, **named)
        return _Template(process, CAN_FORK and can_fork)

    async def _spawn(self, folder: Path) -> EngineProcess:
        """A process of its own, with the engine. HostNotStartedError."""
        process = await self._begin(folder)
        await process.order(_START_SECONDS, TemplateService.load_engine, self._partner_nodes)
        return process

    async def _begin(self, folder: Path) -> EngineProcess:
        """A process of its own, confined as far as hosts of all kinds are. HostNotStartedError."""
        # The hosts that execute jobs at the same time share the processors.
        threads = str(max(1, (os.cpu_count() or 1) // self._settings.places))
        environment = {**_ENVIRONMENT, **dict.fromkeys(_THREADS, threads), "TMPDIR": str(folder)}
        process = await self._see(await EngineProcess.spawn(environment, folder, self._note, self.begun.set))
        policies = self._settings.policies
        policy = None if policies is None else policies.widest(str(self._folders.folder))
        await process.order(_START_SECONDS, TemplateService.begin, self._packs, self._settings.memory, policy)
        return process

    async def _retire(self, kept: KeptProcess[_Template], reason: str) -> None:
        """End a template when nobody uses it and all its forks have ended."""
        template = await kept.last()
        while template is not None and not template.process.is_gone:
            await kept.until_idle()
            if not template.process.forked:
                await template.process.end(reason)
            else:
                await asyncio.wait([process.lost for process in template.process.forked])

    async def _see(self, process: EngineProcess) -> EngineProcess:
        """Manage a process from now on, with all that it will start. HostNotStartedError."""
        groups = None if self._settings.policies is None else self._settings.policies.groups
        self.living.add(process)
        process.lost.add_done_callback(lambda _: self.living.discard(process))
        try:  # in a thread: the system takes tens of milliseconds to move a process into a group
            await asyncio.to_thread(process.child.tree.bound, groups, self._settings.memory, PROCESSES_MAX)
        except OSError as error:
            process.kill("it could not be bounded")
            raise HostNotStartedError(f"it could not be put into a control group: {error.strerror}") from error
        except asyncio.CancelledError:
            process.kill("nobody waits for it any more")
            raise
        return process

    def _keep(self, task: "asyncio.Future[Any]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
