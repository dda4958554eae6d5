"""The processes that hosts are forked from: one that has the engine, one that has torch too, one for each set of packs.

What takes long is done once: the first imports the engine's libraries, the second torch, and templates that are forked
from these import packs. A host is forked from the template with its packs. Where a template cannot be forked, because a
pack has left something in it that must not be shared, a host loads its packs by itself. While there are no packs there
is one template, which has the engine.
"""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from fairlead.engine.hosts.forking import CAN_FORK, is_forkable
from fairlead.engine.hosts.kept_process import KeptProcess
from fairlead.engine.hosts.notes import HostStarted, TakeNote
from fairlead.engine.hosts.policies import HostPolicies
from fairlead.engine.hosts.process import EngineProcess, HostNotStartedError
from fairlead.engine.hosts.scratch import ScratchFolders
from fairlead.engine.hosts.service import LoadedNodes, TemplateService
from fairlead.engine.packs.finding import absence, absent
from fairlead.fair_shares import FairShares, NoRoomError
from fairlead.processes.confinement.policy import PROCESSES_MAX, Policy
from fairlead.processes.tree import NICENESS

Packs: TypeAlias = tuple[str, ...]
Start: TypeAlias = Callable[[Packs, str], Awaitable[EngineProcess]]
"""Starts a host with some packs for a workspace."""
_ENVIRONMENT: Final = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""One thread for linear algebra and two arenas of memory, because there are many hosts, each with several threads."""
_THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
_START_SECONDS: Final = 60.0
_WAITING_MAX: Final = 1_000
_OWN: Final = "loaded"
_NO_ROOM: Final = "too many sets of node packs are being loaded right now"


class HostSettings(msgspec.Struct, frozen=True):
    """The options of engine hosts.

    Memory and cache are in bytes for each host (0 memory is no bound), times in seconds. `scratch` is the folder for
    their folders, which servers may share; `packs` are folders of node packs, which are ignored while they are
    `packs_refused`, and `copies` is the folder of releases' copies; without `policies` hosts are not confined. At a
    time `places` hosts execute jobs, `checks` graphs are checked and `renders` pictures made; for each of the latter
    two, `kept` idle hosts are kept, and `templates` sets of packs stay loaded. A place is waited for `room_seconds` at
    most, and packs that are still being loaded for `loading_seconds`. A host that does not end a job within
    `interrupt_seconds` of a request to stop is killed, and so is one that checks something for more than
    `check_seconds`, or does not answer for `heartbeat_seconds`. A pack that takes more than `pack_seconds` to load is
    not used.
    """

    scratch: Path
    places: int = 2
    checks: int = 8
    renders: int = 2
    kept: int = 16
    templates: int = 4
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
    room_seconds: float = 15.0
    loading_seconds: float = 15.0
    pack_seconds: float = 60.0
    heartbeat_seconds: float = 10.0


class Service(msgspec.Struct, frozen=True):
    """The purpose of a host: `kind` is for reports, the rest is sent to the host."""

    kind: str
    cache: int = 0
    niceness: int = NICENESS


class _Template(msgspec.Struct, eq=False):
    """A process with some packs loaded, and the reports about them."""

    process: EngineProcess
    loaded: LoadedNodes
    is_forkable: bool
    folder: Path

    @property
    def is_gone(self) -> bool:
        """Whether it is no longer forked."""
        return self.process.is_gone


class Templates:
    """Every template of a server, and every process that was forked from one."""

    def __init__(
        self,
        settings: HostSettings,
        packs: Sequence[Path],
        folders: ScratchFolders,
        partner_nodes: bytes,
        note: TakeNote,
    ) -> None:
        """Fork from templates that know the `packs` of some folders, and work below `folders`."""
        self.partner_nodes = partner_nodes
        self.living: Final[set[EngineProcess]] = set()
        """All running processes."""
        self.begun: Final = asyncio.Event()
        """Set once the first process has begun to load the engine."""
        self._settings = settings
        self._packs = [str(folder) for folder in packs]
        self._folders = folders
        self._note = note
        self._numbers = itertools.count()
        self._plain = KeptProcess[_Template](self._start_plain)
        self._torch = KeptProcess[_Template](self._start_torch)
        self._templates: dict[Packs, KeptProcess[_Template]] = {}
        """Those that are kept, the longest idle first."""
        self._starts = FairShares(max(2, settings.templates), _WAITING_MAX, max(1, settings.templates - 1))
        self._tasks: set[asyncio.Future[Any]] = set()

    async def close(self, reason: str) -> None:
        """End every process."""
        for kept in (*self._templates.values(), self._torch, self._plain):
            kept.close()
        while self.living:  # forks end first, because the process they were forked from reaps them
            leaves = [process for process in self.living if not process.forked]
            await asyncio.gather(*(process.end(reason) for process in leaves))
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def load(self, packs: Packs, owner: str) -> LoadedNodes:
        """Have a template load some packs, and return the reports; `owner` is who waits. HostNotStartedError."""
        async with self._template_of(packs, owner).use() as template:
            return template.loaded

    async def host(self, packs: Packs, owner: str, service: Service) -> EngineProcess:
        """A new host for a workspace, with exactly some packs. HostNotStartedError."""
        began = asyncio.get_running_loop().time()
        # A template may end before it is forked; another one is then tried once.
        for is_last in (False, True):
            async with self._template_of(packs, owner).use() as template:
                try:
                    process = await self._serve(template, packs, service)
                    break
                except HostNotStartedError:
                    if is_last or not template.process.is_gone:
                        raise
        self._note(HostStarted(process.pid, asyncio.get_running_loop().time() - began, service.kind, packs))
        return process

    def retire(self, packs: Packs, reason: str) -> None:
        """Fork a template no more; it ends with its last host."""
        kept = self._templates.pop(packs, None)
        if kept is not None:
            self._keep(asyncio.ensure_future(self._retire(kept, reason)))

    def retire_with(self, pack: str, reason: str) -> None:
        """Fork no template that has loaded a pack any more."""
        for packs in [packs for packs in self._templates if pack in packs]:
            self.retire(packs, reason)

    def retire_all(self, reason: str) -> None:
        """Fork no template any more."""
        for packs in list(self._templates):
            self.retire(packs, reason)

    # Hosts.

    async def _serve(self, template: _Template, packs: Packs, service: Service) -> EngineProcess:
        """A process that has the packs of a template, and serves."""
        if template.is_forkable:
            folder = template.folder / f"h{next(self._numbers)}"
            process = await self._see(await template.process.fork(folder))
            loaded = str(template.folder / _OWN)
        else:
            process, folder = await self._fresh(packs)
            await self._load(process, folder, packs)
            loaded = ""
        process.connection.folder = folder
        process.child.tree.give_way(service.niceness)
        process.descriptors = await process.order(
            _START_SECONDS, TemplateService.serve, str(folder), loaded, service.cache
        )
        return process

    # Templates.

    def _template_of(self, packs: Packs, owner: str) -> KeptProcess[_Template]:
        """The template with some packs, to be used at once; it becomes the most recently used one."""
        kept = self._templates.pop(packs, None) or KeptProcess[_Template](lambda: self._start_template(packs, owner))
        self._templates[packs] = kept
        idle = [one for one, other in self._templates.items() if one and other.is_idle and other is not kept]
        beyond = len(self._templates) - 1 - self._settings.templates
        for one in idle[: max(0, beyond)]:
            self.retire(one, "its place was wanted for other node packs")
        return kept

    async def _start_template(self, packs: Packs, owner: str) -> _Template:
        began = asyncio.get_running_loop().time()
        try:
            async with self._starts.place(owner, self._settings.room_seconds):
                process, folder = await self._fresh(packs)
                loaded = await self._load(process, folder, packs)
        except NoRoomError as error:
            raise HostNotStartedError(_NO_ROOM) from error
        can_fork = not loaded.keeps_folder and await self._can_fork(process)
        self._note(HostStarted(process.pid, asyncio.get_running_loop().time() - began, "template", packs))
        template = _Template(process, loaded, can_fork, folder)
        self._expire_later(packs, template)
        return template

    async def _load(self, process: EngineProcess, folder: Path, packs: Packs) -> LoadedNodes:
        own = folder / _OWN
        own.mkdir(mode=0o700)
        policy = self._policy(packs, folder)
        loaded = await process.order(
            self._settings.pack_seconds, TemplateService.load, str(own), self.partner_nodes, packs, policy
        )
        if missing := absent(packs, [report.name for report in loaded.packs]):
            process.kill("it lacks node packs")
            raise HostNotStartedError(absence(missing), missing=missing)
        return loaded

    def _widest(self, scratch: str) -> Policy | None:
        """The policy of each process at its start: it has no pack yet, and hosts of all kinds are forked from it."""
        policies = self._settings.policies
        if policies is None:
            return None
        return msgspec.structs.replace(policies.widest, writable=(scratch,), is_forked=True)

    def _policy(self, packs: Packs, folder: Path) -> Policy | None:
        policies = self._settings.policies
        return None if policies is None else policies.narrow(packs, str(folder))

    def _expire_later(self, packs: Packs, template: _Template) -> None:
        """Check after a while whether a template with packs is still used."""
        if packs:
            asyncio.get_running_loop().call_later(self._settings.idle_seconds, self._expire, packs, template)

    def _expire(self, packs: Packs, template: _Template) -> None:
        kept = self._templates.get(packs)
        if kept is None or kept.value is not template:
            return
        if kept.is_idle and not template.process.forked:
            self.retire(packs, "it was idle")
        else:
            self._expire_later(packs, template)

    async def _retire(self, kept: KeptProcess[_Template], reason: str) -> None:
        """End a template when nobody uses it and all its forks have ended."""
        template = await kept.last()
        while template is not None and not template.process.is_gone:
            await kept.until_idle()
            if not template.process.forked:
                await template.process.end(reason)
            else:
                await asyncio.wait([process.lost for process in template.process.forked])

    # What templates are made of.

    async def _fresh(self, packs: Packs) -> tuple[EngineProcess, Path]:
        """A process that has loaded no pack yet, and its folder."""
        folder = self._folders.next()
        if not self._packs:  # no other template would share a plain process, which takes 28 MB
            return await self._spawn(folder, preloads=False), folder
        source = await (self._torch if packs else self._plain).get()
        if source.is_forkable:
            return await self._see(await source.process.fork(folder)), folder
        return await self._spawn(folder, preloads=bool(packs)), folder

    async def _start_plain(self) -> _Template:
        folder = self._folders.next()
        process = await self._spawn(folder, preloads=False)
        return _Template(process, LoadedNodes(), await self._can_fork(process), folder)

    async def _start_torch(self) -> _Template:
        """A process with torch; the plain one where torch cannot be imported, which packs then notice by themselves."""
        plain = await self._plain.get()
        if not plain.is_forkable:
            return plain
        folder = self._folders.next()
        process = await self._see(await plain.process.fork(folder))
        try:
            await process.order(_START_SECONDS, TemplateService.preload)
        except HostNotStartedError:
            return plain
        return _Template(process, LoadedNodes(), await self._can_fork(process), folder)

    async def _spawn(self, folder: Path, *, preloads: bool) -> EngineProcess:
        # The hosts that execute jobs at the same time share the processors.
        threads = str(max(1, (os.cpu_count() or 1) // self._settings.places))
        environment = {**_ENVIRONMENT, **dict.fromkeys(_THREADS, threads), "TMPDIR": str(folder)}
        process = await self._see(await EngineProcess.spawn(environment, folder, self._note, self.begun.set))
        scratch, packs, memory = str(self._folders.folder), self._packs, self._settings.memory
        await process.order(_START_SECONDS, TemplateService.begin, scratch, packs, memory, self._widest(scratch))
        if preloads:
            await process.order(_START_SECONDS, TemplateService.preload)
        return process

    async def _can_fork(self, process: EngineProcess) -> bool:
        return CAN_FORK and await asyncio.to_thread(is_forkable, process.pid)

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
