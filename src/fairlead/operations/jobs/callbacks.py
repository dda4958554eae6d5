"""Callbacks of engine hosts, during the check of a workflow and during the execution of a job."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fairlead.clock import Clock
from fairlead.domain.faults import FaultError
from fairlead.domain.jobs.entries import NewEvent
from fairlead.domain.jobs.events import (
    Cached,
    Event,
    EventEnvelope,
    Executed,
    Executing,
    Failed,
    Finished,
    Interrupted,
    JobEvent,
    Place,
    Preview,
    ProgressText,
    ShownValues,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.domain.jobs.jobs import LiveJob
from fairlead.domain.jobs.outputs import SHOWN_BYTES_MAX
from fairlead.domain.jobs.updates import ProgressCount
from fairlead.engine.hosts.service import DeclinedError, ModelAnswer
from fairlead.messaging.event_hub import EventHub
from fairlead.operations.assets.files import NO_SUCH_FILE, WorkflowFiles
from fairlead.operations.jobs.effects import EffectQueue
from fairlead.operations.jobs.model_faults import decline
from fairlead.operations.jobs.patience import Patience

T = TypeVar("T")

RunModel = Callable[[str, int, str, bytes], Any]
_KEPT: Final = (Started, Cached, Executed, Stopped, Succeeded, Failed, Interrupted)
_MISSING_MAX: Final = 1_000
_EVENTS_MAX: Final = 10_000


class CheckCallbacks:
    """Callbacks for a workflow that is checked: it may read the files of its workspace, and nothing else."""

    def __init__(self, files: WorkflowFiles, workspace_id: str) -> None:
        self._files = files
        self._workspace_id = workspace_id
        self.missing: set[str] = set()
        """The names that no file has."""
        self.unanswered: FaultError | None = None
        """Why a question could not be answered, so that the check has no result."""

    async def find_file(self, name: str) -> Path:
        """The path of a file that the workflow names."""
        try:
            return await self._answer(self._files.find(self._workspace_id, name))
        except DeclinedError as error:
            if error.exception_type == NO_SUCH_FILE and len(self.missing) < _MISSING_MAX:
                self.missing.add(name)
            raise

    async def list_files(self, folder: str) -> Sequence[str]:
        """The files in a folder of the inputs."""
        return await self._answer(self._files.list_inputs(self._workspace_id, folder))

    async def _answer(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except FaultError as error:
            self.unanswered = error
            raise decline(error.fault) from error


class FileNotKeptError(Exception):
    """A file of a node could not be stored: why, the node, and the nodes that were executed before."""

    def __init__(self, cause: DeclinedError, place: Place | None, executed: Sequence[str]) -> None:
        super().__init__(cause.message)
        self.cause = cause
        self.place = place
        self.executed = executed


class JobCallbacks:
    """Callbacks for one job that is executed. They collect what is written about it.

    Questions are repeated while the database or the files are away, by `patience`. `interrupt` is called when the nodes
    display more than is stored of a job, and when a file of theirs cannot be stored, which `settle` then reports.
    """

    def __init__(
        self,
        job: LiveJob,
        files: WorkflowFiles,
        event_hub: EventHub,
        clock: Clock,
        patience: Patience,
        run_model: RunModel,
        kept_until: Callable[[], int],
        interrupt: Callable[[], None],
    ) -> None:
        self._job = job
        self._files = files
        self._event_hub = event_hub
        self._clock = clock
        self._patience = patience
        self._run_model = run_model
        self._kept_until = kept_until
        self._interrupt = interrupt
        self._effects = EffectQueue(interrupt)
        self._outputs: dict[str, object] = {}
        self._outputs_bytes = 0
        self._numbered = job.events
        self._unwritten: list[NewEvent] = []
        self._count = ProgressCount(job.nodes)
        self._executing: set[str] = set()
        self._executed: list[str] = []
        self._at_work: dict[str, Place] = {}
        """The nodes that the host has started and not finished, the latest last."""
        self._unkept: Place | None = None
        """The node whose file could not be stored."""
        self._shown_again: set[tuple[str, str]] = set()
        self._has_news = False
        self.overflowed = False
        """Whether the nodes have displayed more than is stored."""

    def tell(self, events: Sequence[Event]) -> None:
        """Record an event and publish it to watchers, once the files before it are stored."""
        now = self._clock.now_ms()
        # Noted at once and not with the effects: a file that is kept next belongs to the node that runs now.
        for event in events:
            if isinstance(event, Executing):
                self._at_work.pop(event.place.node, None)
                self._at_work[event.place.node] = event.place
            elif isinstance(event, Finished):
                self._at_work.pop(event.place.node, None)
        self._effects.act(lambda: self._tell(events, now))

    def _tell(self, events: Sequence[Event], now: int) -> None:
        for event in events:
            self.publish(event, now, is_kept=self.note(event, now))

    def note(self, event: Event, now: int) -> bool:
        """Record an event; returns whether it is stored with the job."""
        self._count.note(event)
        self._has_news = True
        if isinstance(event, Executing):
            self._executing.add(event.place.node)
        if isinstance(event, Finished):
            self._executed.append(event.place.node)
        if isinstance(event, Executed):
            shown = ShownValues.encode(event.ui)
            if not self._has_kept(event, shown):
                return False
            event = msgspec.structs.replace(event, ui=shown.raw)
        if not isinstance(event, _KEPT) or self._numbered >= _EVENTS_MAX:
            return False
        self._numbered += 1
        self._unwritten.append(NewEvent(self._numbered, type(event).__name__, msgspec.json.encode(event), now))
        return True

    def publish(self, event: JobEvent, now: int, *, is_kept: bool = False) -> None:
        """Publish an event to watchers; one that is stored was recorded just before."""
        job = self._job
        self._event_hub.publish(
            EventEnvelope(job.workspace_id, job.id, job.public_id, now, event, job.attempt, self._numbered, is_kept)
        )

    def show(self, shown: Preview | ProgressText) -> None:
        """Show something to everyone watching now."""
        now = self._clock.now_ms()
        self._effects.act(lambda: self.publish(shown, now))

    async def catch_up(self) -> None:
        """Wait until pending files are stored and watchers have had a turn, so that both stay bounded."""
        with suppress(Exception):  # reported with the end of the job
            await self._effects.settle()
        await asyncio.sleep(0)

    async def settle(self) -> None:
        """Return when all files are stored and all events published. FileNotKeptError, or another failure of them."""
        try:
            await self._effects.settle()
        except DeclinedError as error:
            raise FileNotKeptError(error, self._unkept, self._executed) from error

    def close(self) -> None:
        """Store and publish nothing more."""
        self._effects.close()

    async def find_file(self, name: str) -> Path:
        """The path of a file that the workflow names; the job may have made it a moment ago."""
        await self._effects.settle()
        return await self._ask("find a file", lambda: self._files.find(self._job.workspace_id, name, expired=True))

    async def list_files(self, folder: str) -> Sequence[str]:
        """The files in a folder of the inputs."""
        await self._effects.settle()
        return await self._ask("list files", lambda: self._files.list_inputs(self._job.workspace_id, folder))

    async def name_file(self, name: str, extension: str, kind: str, *, exact: bool) -> str:
        """The name of a new file."""
        workspace_id = self._job.workspace_id
        return await self._ask(
            "name a file", lambda: self._files.name(workspace_id, name, extension, kind, exact=exact)
        )

    async def keep_file(self, path: Path, filename: str, kind: str) -> None:
        """Keep a new file for as long as the job is kept."""
        await self._effects.settle()
        await self._keep(path, filename, kind)

    async def keep_bytes(self, content: bytes, filename: str, kind: str) -> None:
        """Keep a small new file for as long as the job is kept; the nodes go on while it is made durable."""
        place = next(reversed(self._at_work.values()), None)

        async def keep() -> None:
            self._unkept = place
            await self._keep(content, filename, kind)

        await self._effects.begin(keep)

    async def _keep(self, made: Path | bytes, filename: str, kind: str) -> None:
        content = await self._ask("take in a file", lambda: self._files.adopt(made, filename, kind))
        owners = self._job.workspace_id, self._job.id
        await self._ask("keep a file", lambda: self._files.keep(*owners, content, filename, kind, self._kept_until()))

    async def run_model(self, node: str, turn: int, model: str, body: bytes) -> ModelAnswer:
        """Run a partner's model, paid by the key the job was submitted with."""
        await self._effects.settle()
        answer: ModelAnswer = await self._run_model(node, turn, model, body)
        return answer

    async def _ask(self, doing: str, question: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._patience.ask(doing, question)
        except FaultError as error:
            raise decline(error.fault) from error

    def unwritten(self) -> Sequence[NewEvent]:
        """The events that are not written yet; the caller writes them now."""
        events, self._unwritten = self._unwritten, []
        self._has_news = False
        return events

    @property
    def has_news(self) -> bool:
        """Whether anything has happened since the last call of `unwritten`."""
        return self._has_news

    def progress(self) -> str:
        """The progress of the job, as JSON."""
        return msgspec.json.encode(self._count.report()).decode()

    def outputs(self) -> bytes:
        """What the nodes displayed, as JSON by node."""
        return msgspec.json.encode(self._outputs)

    def files_shown_again(self) -> Sequence[tuple[str, str]]:
        """The files, by kind and name, that earlier jobs have made and this one shows: they are kept as long as it."""
        return sorted(self._shown_again)

    def _has_kept(self, event: Executed, shown: ShownValues) -> bool:
        """Store what a node displays; False where that exceeds the limit of a job."""
        if self._outputs_bytes + len(shown.json) > SHOWN_BYTES_MAX:
            if not self.overflowed:
                self.overflowed = True
                self._interrupt()
            return False
        self._outputs_bytes += len(shown.json)
        self._outputs[event.place.node] = {"ui": shown.raw, "place": event.place}
        # A node that was not executed shows what an earlier job has made.
        if event.place.node not in self._executing:
            self._shown_again.update(_files_in(event.ui))
        return True


def _files_in(ui: Mapping[str, object]) -> set[tuple[str, str]]:
    """The files that a node shows, by kind and name."""
    return {
        (item["type"], item["filename"])
        for items in ui.values()
        if isinstance(items, list)
        for item in items
        if isinstance(item, dict) and isinstance(item.get("filename"), str) and isinstance(item.get("type"), str)
    }
