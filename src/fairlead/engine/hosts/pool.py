"""The engine hosts of a server: those that check graphs and make pictures, and those that execute jobs.

Each belongs to one workspace while it lives, and has exactly the node packs of the graph it was started for: no pack
sees a graph, a file or a name of a workspace that has not submitted one of its nodes.
"""

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Collection, Coroutine, Hashable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from fairlead.domain.deployments import PackSet, is_copy, title_of
from fairlead.domain.jobs.events import Ending, Interrupted
from fairlead.engine.hosts.classes import classes_of
from fairlead.engine.hosts.execution import HostedExecution, not_started
from fairlead.engine.hosts.notes import EngineUnavailableError, TakeNote
from fairlead.engine.hosts.pack_catalog import NodeClasses, PackCatalog
from fairlead.engine.hosts.places import Place, Places
from fairlead.engine.hosts.process import EngineProcess, HostNotStartedError
from fairlead.engine.hosts.scratch import ScratchFolders
from fairlead.engine.hosts.service import (
    Checked,
    CheckQuestions,
    Execute,
    HostCallbacks,
    HostService,
    PackReport,
    Refused,
    Render,
    Rendered,
)
from fairlead.engine.hosts.templates import HostSettings, Packs, Service, Start, Templates
from fairlead.engine.hosts.validator_pool import ValidatorPool
from fairlead.engine.packs.copies import NotCopiedError, copy_pack, forget_copies
from fairlead.engine.packs.finding import absence, absent
from fairlead.processes.exits import Exit
from fairlead.processes.heartbeats import keep_beating

_CLOSED: Final = "the server ends"
_STILL_LOADED: Final = "the node packs are still being loaded"
_PREPARE_SECONDS: Final = 150.0
_READ_HERE_BYTES: Final = 64 * 1024
"""A larger workflow takes too long to be read in the event loop."""
_REMEMBERED_MAX: Final = 10_000
_CHECK: Final = Service("check")
_RENDER: Final = Service("render", niceness=10)


class Prepared(msgspec.Struct, frozen=True):
    """The reports about loading a set of node packs, and which of them are missing.

    `error` says why none of them can be used; it is None where each can be used that has no error of its own.
    """

    packs: Sequence[PackReport]
    missing: tuple[str, ...] = ()
    error: str | None = None


class Copied(msgspec.Struct, frozen=True):
    """The names of copies of some packs, which packs are missing, and why there are no copies, if there are none."""

    names: tuple[str, ...]
    missing: tuple[str, ...] = ()
    error: str | None = None


class Hosts:
    """Every engine process of a server. It belongs to one event loop."""

    def __init__(self, settings: HostSettings, partner_nodes: bytes, note: TakeNote) -> None:
        self._settings = settings
        self._note = note
        kept = () if settings.copies is None or not settings.packs else (settings.copies,)
        self._folders_of_packs = [Path(folder).resolve() for folder in (*settings.packs, *kept)]
        self._partner_nodes = partner_nodes
        self._generation = 0
        """Counts the documents of partner nodes so far."""
        self.edition = 0
        """Counts the changes of the classes with all packs."""
        self._folders: ScratchFolders | None = None
        self._executions: dict[str, HostedExecution] = {}
        self._needed: OrderedDict[str, Packs] = OrderedDict()
        """The packs of jobs that were checked here."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._is_closed = False

    async def begin(self) -> None:
        """Make a folder, and begin to load the engine and to probe the packs; calls wait for that.

        Returns when a process loads the engine in the background. EngineUnavailableError where no folder can be made.
        """
        settings = self._settings
        try:
            self._folders = await asyncio.to_thread(ScratchFolders, settings.scratch)
        except OSError as error:
            words = f"no folder for engine hosts can be made in {settings.scratch}: {error.strerror}"
            raise EngineUnavailableError(words) from error
        self._templates = Templates(settings, self._folders_of_packs, self._folders, self._partner_nodes, self._note)
        self._catalog = PackCatalog(self._templates, self._folders_of_packs, self._note, self._change)
        self._classes = NodeClasses(self._templates, self._catalog)
        self._checking = ValidatorPool(settings.checks, settings, self._start(_CHECK), self._stamp)
        self._rendering = ValidatorPool(settings.renders, settings, self._start(_RENDER), self._stamp)
        execute = Service("execute", settings.cache)
        most = settings.places + settings.extra_places
        self._places = Places(most, settings.idle_seconds, self._start(execute), self._stamp)
        self._keep(keep_beating(self._templates.living, settings.heartbeat_seconds))
        self._keep(self._load())
        await self._templates.begun.wait()

    async def close(self) -> None:
        """End every process. Jobs that are executed are not ended: `execute` raises EngineUnavailableError."""
        if self._folders is None:
            return
        self._is_closed = True
        for execution in self._executions.values():
            execution.interrupt()
        self._catalog.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(self._places.close(_CLOSED), self._checking.close(_CLOSED), self._rendering.close(_CLOSED))
        await self._templates.close(_CLOSED)
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.to_thread(self._folders.close)
        self._folders = None

    def set_partner_nodes(self, document: bytes) -> None:
        """Use other partners' models as nodes from now on. Each host is replaced as soon as it is idle."""
        self._generation += 1
        self._templates.renew(document, "its nodes are out of date")
        self._classes.expire()
        self._change()
        self._keep(self._classes.refresh())

    # Node packs and classes.

    async def pack_names(self) -> list[str]:
        """The names of the present node packs without copies; a missing folder has none."""
        return sorted(name for name in await self._catalog.names() if not is_copy(name))

    async def copy_packs(self, packs: PackSet) -> Copied:
        """Copy some packs as they are now, or all packs; takes minutes at worst."""
        found = {pack.name: pack for pack in await self._catalog.packs() if not is_copy(pack.name)}
        missing = absent(packs, found)
        if missing:
            return Copied((), missing, self._settings.packs_refused or absence(missing))
        if self._settings.copies is None:
            return Copied(tuple(found) if packs is None else packs)
        folder = Path(self._settings.copies)
        kept: list[str] = []
        for name in sorted(found) if packs is None else packs:
            try:
                kept.append(await asyncio.to_thread(copy_pack, found[name], folder))
            except NotCopiedError as error:
                if packs is not None:  # they were named, and so are needed
                    return Copied((), error=str(error))
        return Copied(tuple(kept))

    async def restore_copies(self, packs: PackSet, there: Collection[str]) -> None:
        """Restore missing copies, where the packs are unchanged since they were copied."""
        lost = [name for name in packs or () if is_copy(name) and name not in there]
        if lost and (originals := sorted({title_of(name) for name in lost}.intersection(there))):
            await self.copy_packs(tuple(originals))

    async def forget_copies(self, needed: Collection[str]) -> int:
        """Remove the copies that no release names any more, and return how many."""
        if self._settings.copies is None:
            return 0
        return await asyncio.to_thread(forget_copies, Path(self._settings.copies), needed)

    async def all_packs(self) -> tuple[str, ...]:
        """The names of the packs there are right now and of the copies of packs."""
        return tuple(await self._catalog.names())

    async def prepare(self, packs: PackSet, *, again: bool = False) -> Prepared:
        """Probe some packs, and return the reports; takes minutes at worst.

        With `again` each is probed again, and no host that has loaded it before takes more work; without, only those
        that could not be loaded are. EngineUnavailableError when that takes too long.
        """
        there = await self._catalog.names()
        missing = absent(packs, there)
        if missing:
            self._catalog.forget(missing)
            return Prepared((), missing, self._settings.packs_refused or absence(missing))
        broken = {report.name for report in self._catalog.reports if report.error is not None}
        names = [name for name in there if not is_copy(name)] if packs is None else packs
        probes = [self._catalog.probe(name, again=again or name in broken) for name in names]
        if probes:
            _, pending = await asyncio.wait(probes, timeout=_PREPARE_SECONDS)
            if pending or any(probe.cancelled() for probe in probes):
                raise EngineUnavailableError(_CLOSED if self._is_closed else _STILL_LOADED)
        return Prepared([probe.result() for probe in probes])

    def begin_to_try(self, packs: PackSet, names: Collection[str]) -> None:
        """Probe the copies among some packs that were not probed yet; `edition` changes when the results are known."""
        for name in packs or ():
            if is_copy(name) and name in names:
                self._catalog.probe(name)

    def refusal(self, packs: PackSet, names: Collection[str]) -> str | None:
        """Why some packs cannot be used as they are now, as far as they were probed here; None where they can.

        `names` are those of the present packs.
        """
        return self._catalog.refuse_among(packs, names) if packs else None

    @property
    def is_current(self) -> bool:
        """Whether classes that are described from now on are those that were set last."""
        return self._classes.is_current and self._catalog.is_settled

    async def describe(self, packs: PackSet = None) -> bytes:
        """The classes of nodes with some packs, as one JSON object (C-01). EngineUnavailableError."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.loading_seconds):
                await self._catalog.wait_for_probes(packs)
        return await self._classes.describe(packs)

    # Questions.

    async def check(
        self,
        job_id: str,
        workspace_id: str,
        workflow: bytes,
        targets: Sequence[str] | None,
        callbacks: CheckQuestions,
        packs: PackSet = None,
    ) -> Checked[bytes] | Refused:
        """Check a workflow, the graph in the API format, with those of some packs that it needs.

        `callbacks` find the files that it names. EngineUnavailableError.
        """
        self._refuse_if_closed()
        if packs and (refusal := await self._catalog.refuse(packs)) is not None:
            raise EngineUnavailableError(refusal)  # they were named, and so are needed
        needed = await self._packs_of(workspace_id, workflow, packs)

        async def check(host: EngineProcess) -> Checked[bytes] | Refused:
            document = await host.hand_over(workflow)
            found = await host.connection.ask(HostService.check, document, targets, callbacks)
            if isinstance(found, Refused):
                return found
            try:
                checked = await host.take(found.workflow)
            except (OSError, ValueError) as error:
                raise EngineUnavailableError("the checked workflow was lost on its way") from error
            return Checked(checked, found.outputs, found.nodes, found.partner_nodes, found.node_errors, found.classes)

        result = await self._checking.ask(workspace_id, needed, check)
        self._needed[job_id] = needed
        if len(self._needed) > _REMEMBERED_MAX:
            self._needed.popitem(last=False)
        return result

    async def render(self, workspace_id: str, picture: Render) -> Rendered:
        """Have a picture rendered. EngineUnavailableError."""
        self._refuse_if_closed()

        async def render(host: EngineProcess) -> Rendered:
            made = host.connection.folder / f"render-{uuid.uuid4().hex}"  # a host writes nowhere else
            order = msgspec.structs.replace(picture, target=str(made))
            rendered = await host.connection.ask(HostService.render, order)
            if rendered.error is None:
                try:
                    await asyncio.to_thread(made.replace, picture.target)
                except OSError as error:
                    raise EngineUnavailableError("the picture was lost on its way") from error
            return rendered

        return await self._rendering.ask(workspace_id, (), render)

    # Jobs.

    async def execute(
        self, workspace_id: str, order: Execute, callbacks: HostCallbacks, packs: PackSet = None
    ) -> Ending:
        """Execute a workflow that was checked with these packs, as soon as there is a place; returns how it ended.

        EngineUnavailableError when the server ends meanwhile. Cancelling this kills the host.
        """
        if order.job in self._executions:
            raise ValueError(f"job {order.job} is being executed")
        settings = self._settings
        execution = HostedExecution(order, callbacks, settings.job_seconds, settings.interrupt_seconds)
        self._executions[order.job] = execution
        try:
            # They are known where this server has checked the workflow, which another may have done.
            needed = self._needed.pop(order.job, None)
            if needed is None:
                needed = await self._packs_of(workspace_id, order.workflow, packs)
            place = await self._places.take(workspace_id, needed, execution)
            ending: Ending | Exit = (
                Interrupted(None, None, []) if place is None else await self._execute(place, execution)
            )
        except HostNotStartedError as error:
            ending = not_started(str(error))
        finally:
            del self._executions[order.job]
        if self._is_closed and isinstance(ending, Interrupted | Exit):
            raise EngineUnavailableError(_CLOSED)
        return await execution.failure(ending) if isinstance(ending, Exit) else ending

    def interrupt(self, job_id: str) -> None:
        """Have a job end soon; one that is not executed here is ignored."""
        if job_id in self._executions:
            self._executions[job_id].interrupt()

    async def _execute(self, place: Place, execution: HostedExecution) -> Ending | Exit:
        host = place.host
        if host is None:
            raise AssertionError
        try:
            return await execution.run_on(host)
        except BaseException:
            host.kill("its job was given up")
            raise
        finally:
            self._places.give_back(place, execution.descriptors)

    # Which packs.

    async def _packs_of(self, workspace_id: str, workflow: bytes, allowed: PackSet) -> Packs:
        """The allowed packs that provide the classes of a workflow. EngineUnavailableError.

        While packs are being probed, a workflow waits only if it names a class that is not known yet.
        """
        if not self._folders_of_packs:
            return ()
        if len(workflow) <= _READ_HERE_BYTES:
            names = classes_of(workflow)
        else:

            async def survey(host: EngineProcess) -> Sequence[str]:
                return await host.connection.ask(HostService.survey, await host.hand_over(workflow))

            names = frozenset(await self._checking.ask(workspace_id, (), survey))
        foreign = names - await self._classes.own()
        if not foreign <= self._catalog.owners(allowed).keys():
            try:
                async with asyncio.timeout(self._settings.loading_seconds):
                    await self._catalog.wait_for_probes(allowed)
            except TimeoutError:
                raise EngineUnavailableError(_STILL_LOADED) from None
        owners = self._catalog.owners(allowed)
        return tuple(sorted({owners[name] for name in foreign if name in owners}))

    def _stamp(self, packs: Packs) -> Hashable:
        """A stamp that changes when hosts with some packs are out of date."""
        return self._generation, *(self._catalog.edition_of(name) for name in packs)

    def _change(self) -> None:
        """Note that other classes are known, and that hosts may be out of date."""
        self.edition += 1
        self._places.refresh()
        self._checking.refresh()
        self._rendering.refresh()

    # Processes.

    async def _load(self) -> None:
        """Load what is needed first, before it is asked for; what fails is tried again when it is needed."""
        try:
            await asyncio.gather(self._classes.refresh(), self._catalog.begin())
        finally:
            self._templates.begun.set()  # also where no process could be started

    def _refuse_if_closed(self) -> None:
        if self._is_closed or self._folders is None:
            raise EngineUnavailableError(_CLOSED)

    def _start(self, service: Service) -> Start:
        return lambda packs: self._templates.host(packs, service)

    def _keep(self, work: Coroutine[object, object, object]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, EngineUnavailableError | HostNotStartedError):
            # A bug: the server must not go on silently without heartbeats, or without packs.
            words = {"message": "a task of the engine hosts has failed", "exception": error, "task": task}
            asyncio.get_running_loop().call_exception_handler(words)
