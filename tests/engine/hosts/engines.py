"""Engine hosts as tests see them: real processes, with callbacks that keep files in a folder."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from fairlead.domain.deployments import PackSet
from fairlead.domain.jobs.events import Ending, Event, Executed, Failed, Failure, Preview, ProgressText
from fairlead.engine.hosts.notes import HostEnded, HostNote, HostStarted, PackProbed
from fairlead.engine.hosts.policies import HostPolicies
from fairlead.engine.hosts.pool import Hosts
from fairlead.engine.hosts.service import Checked, DeclinedError, Execute, ModelAnswer, PackReport, Refused
from fairlead.engine.hosts.templates import HostSettings
from fairlead.processes.confinement.policy import Policy
from fairlead.processes.confinement.probe import with_filters

PACKS: Final = Path(__file__).parent / "custom_nodes"
T = TypeVar("T")


@dataclass
class FolderCallbacks:
    """Callbacks that keep files in a folder, and answer every call of a model with its number."""

    folder: Path
    events: list[Event] = field(default_factory=list)
    shown: list[Preview | ProgressText] = field(default_factory=list)
    kept: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    models: list[tuple[str, int, str, bytes]] = field(default_factory=list)
    caught_up_times: int = 0

    def tell(self, events: Sequence[Event]) -> None:
        """Take note."""
        self.events.extend(events)

    def show(self, shown: Preview | ProgressText) -> None:
        """Take note."""
        self.shown.append(shown)

    async def catch_up(self) -> None:
        """Count."""
        self.caught_up_times += 1

    async def find_file(self, name: str) -> Path:
        """Return a file of the folder."""
        if name.startswith("http"):
            raise DeclinedError("ImageDownloadError", "there is no way to get it")
        if name == "trouble":
            raise RuntimeError("a secret of the server")
        if name not in _names(self.folder):
            raise DeclinedError("FileNotFoundError", f"there is no file {name}")
        return self.folder / name

    async def list_files(self, folder: str) -> Sequence[str]:
        """Return the files of a folder."""
        return _names(self.folder / folder)

    async def name_file(self, name: str, extension: str, kind: str, *, exact: bool) -> str:
        """Return a flat name."""
        del kind
        return name if exact else f"{name.replace('/', '-')}_00001_.{extension}"

    async def keep_file(self, path: Path, filename: str, kind: str) -> None:
        """Take a file over."""
        self.kept[filename] = kind, _take(path)

    async def keep_bytes(self, content: bytes, filename: str, kind: str) -> None:
        """Take the content of a file over."""
        self.kept[filename] = kind, content

    async def run_model(self, node: str, turn: int, model: str, body: bytes) -> ModelAnswer:
        """Return the call's number, and what it was given as a file."""
        if body == b"poor":
            raise DeclinedError("InsufficientFundsError", "there is no money left")
        self.models.append((node, turn, model, body))
        file = self.folder / f"model-{node}-{turn}"
        file.write_bytes(body)
        return ModelAnswer(f"answer {turn}".encode(), {"": file}, {"": "text/plain"})


def _take(path: Path) -> bytes:
    content = path.read_bytes()
    path.unlink()
    return content


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@dataclass(frozen=True)
class Seen:
    """A job that has ended."""

    ending: Ending
    callbacks: FolderCallbacks

    @property
    def failure(self) -> Failure:
        """Why it has failed."""
        assert isinstance(self.ending, Failed), self.ending
        return self.ending.failure

    @property
    def texts(self) -> list[Any]:
        """The texts its nodes have shown."""
        shown = [event.ui for event in self.callbacks.events if isinstance(event, Executed)]
        return [text for ui in shown for text in ui.get("text", ())]


class Engine:
    """Hosts of a server, in an event loop of their own."""

    def __init__(self, folder: Path, runner: asyncio.Runner, hosts: Hosts, notes: list[HostNote]) -> None:
        self.folder = folder
        self.hosts = hosts
        self.notes = notes
        self.run = runner.run
        self._numbers = 0

    def execute(self, graph: Mapping[str, Any], workspace: str = "w", packs: PackSet = None) -> Seen:
        """Check a workflow and execute it."""
        return self.run(self.run_workflow(graph, workspace, packs=packs))

    async def run_workflow(
        self, graph: Mapping[str, Any], workspace: str = "w", job: str | None = None, packs: PackSet = None
    ) -> Seen:
        """Check a workflow and execute it."""
        callbacks = FolderCallbacks(self.folder)
        self._numbers += 1
        name = job or f"job-{self._numbers}"
        checked = await self.hosts.check(name, workspace, json.dumps(graph).encode(), None, callbacks, packs)
        assert isinstance(checked, Checked), checked
        order = Execute(name, checked.workflow, checked.outputs, b"{}")
        return Seen(await self.hosts.execute(workspace, order, callbacks, packs), callbacks)

    def check(self, content: bytes, targets: Sequence[str] | None = None) -> Checked[bytes] | Refused:
        """Check a workflow."""
        return self.run(self.hosts.check("check", "w", content, targets, FolderCallbacks(self.folder)))

    @property
    def packs(self) -> Sequence[PackReport]:
        """How the node packs fared, in the order of their names."""
        reports = [note.report for note in self.notes if isinstance(note, PackProbed)]
        return sorted(reports, key=lambda report: report.name)

    @property
    def started(self) -> list[int]:
        """The processes that were started to execute jobs, in order."""
        return self.of_kind("execute")

    @property
    def checking(self) -> list[int]:
        """The processes that were started to check."""
        return self.of_kind("check")

    def of_kind(self, kind: str, *packs: str) -> list[int]:
        """The processes of a kind, with some packs where any are named, in the order of their starts."""
        started = [note for note in self.notes if isinstance(note, HostStarted) and note.kind == kind]
        return [note.pid for note in started if not packs or tuple(note.packs) == packs]

    @property
    def ended(self) -> dict[int, str | None]:
        """The processes that have ended, and why we ended them."""
        return {note.pid: note.reason for note in self.notes if isinstance(note, HostEnded)}


@contextmanager
def running_engine(folder: Path, hear: Callable[[HostNote], object] = bool, **settings: Any) -> Iterator[Engine]:
    """Start hosts with the pack of troubles, and end them; `hear` is told what they note in that very moment."""
    folder.mkdir(exist_ok=True)
    notes: list[HostNote] = []

    def note_down(note: HostNote) -> None:
        notes.append(note)
        hear(note)

    with asyncio.Runner() as runner:

        async def make() -> Hosts:
            given = {"packs": (str(PACKS),), **settings}
            hosts = Hosts(HostSettings(folder / "scratch", **given), b"[]", note_down)
            await hosts.begin()
            await hosts.describe()  # when every pack was tried
            return hosts

        hosts = runner.run(make())
        try:
            yield Engine(folder, runner, hosts, notes)
        finally:
            runner.run(hosts.close())


def confining(packs: Path) -> HostPolicies:
    """Return the policies of hosts with a folder of packs, as a server makes them."""
    policy = with_filters(Policy(readable=(str(packs),), is_required=True), shared_memory=False)
    return HostPolicies(policy)


def trouble(name: str, how: str = "", **others: tuple[str, str]) -> dict[str, Any]:
    """Return a graph of one node of the pack, and others by their ids."""
    nodes = {"1": (name, how), **others}
    return {id_: {"class_type": kind, "inputs": {"how": said}} for id_, (kind, said) in nodes.items()}


async def wait_for(what: Coroutine[Any, Any, T], seconds: float = 120.0) -> T:
    """Return what comes of it, which must come in time."""
    return await asyncio.wait_for(what, seconds)
