"""What a server and an engine host ask of each other, defined once; all messages follow from these definitions.

The server calls a process, first to load nodes (TemplateService) and then to work for one workspace (HostService).
While a workflow is checked or executed, the process asks the server for what only that has: files, names for new ones,
runs of partner models (CheckQuestions, JobCalls). It reports about itself by ProcessNotices. A host knows no workspace,
no database and no secret. Everything it sends is checked like anything else from outside, because node packs run in it.

To have a process forked, the server sends a message over a second socket, with three descriptors: the new process's two
sockets and its standard error. The first byte that a new process sends is HELLO, which names it to the server. Calls,
notices and frames are those of `processes.rpc`. A large document is in a file (`document_files`).
"""

from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from fairlead.domain.jobs.events import Ending, Event, Preview, ProgressText
from fairlead.engine.hosts.document_files import Document
from fairlead.processes.confinement.policy import Policy
from fairlead.processes.rpc import Definition, methods_of

D = TypeVar("D")
"""A document: its bytes on either side, and in between perhaps the file that holds it."""

FRAME_BYTES_MAX: Final = 320 * 2**20
"""The largest answers of partners' models fit."""
HELLO: Final = b"\x01"
TOLD_BYTES_MAX: Final = 32 * 2**20
"""The largest frame of a host: a preview, a call of a model. Outputs of nodes have less (SHOWN_BYTES_MAX)."""
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=8_192)]
"""A name that a host may send; links may be long."""
NewKind: TypeAlias = Literal["output", "temp"]
"""The folder of a new file."""


class DeclinedError(Exception):
    """A call of a host that cannot be answered; it becomes the error of the node that made it.

    `exception_type` is one of C-12 (`ImageDownloadError`, `InsufficientFundsError` …) or the name of another error.
    """

    def __init__(self, exception_type: str, message: str) -> None:
        super().__init__(message)
        self.exception_type = exception_type
        self.message = message


# What a host may call.


class ModelAnswer(msgspec.Struct, frozen=True):
    """The answer of a partner's model: JSON, and the paths of the files that it names, with their types, by link.

    An answer of bytes has no `body`, and its file under the empty link.
    """

    body: bytes
    files: Mapping[str, Path] = msgspec.field(default_factory=dict)
    content_types: Mapping[str, str] = msgspec.field(default_factory=dict)


class CheckQuestions(Definition, Protocol):
    """What a host may ask while it checks a workflow. Each method may raise DeclinedError."""

    async def find_file(self, name: Name, /) -> Path:
        """The path of a file that the workflow names.

        The name may have its folder, `name [input]`, or be an http(s) link.
        """
        ...

    async def list_files(self, folder: Name, /) -> Sequence[str]:
        """The files in a folder of the inputs, by names that `find_file` takes."""
        ...


class JobQuestions(CheckQuestions, Protocol):
    """What a host may ask while it executes a job. Each method may raise DeclinedError."""

    async def name_file(self, name: Name, extension: Name, kind: NewKind, /, *, exact: bool) -> str:
        """The name of a new file. `name` is its beginning, to be numbered, or its `exact` name."""
        ...

    async def keep_file(self, path: Path, filename: Name, kind: NewKind, /) -> None:
        """Store a file that the host has written in its folder, under the name it was given; the file is moved."""
        ...

    async def keep_bytes(self, content: bytes, filename: Name, kind: NewKind, /) -> None:
        """Store a small new file, whose content the host sends."""
        ...

    async def run_model(self, node: Name, turn: int, model: Name, body: bytes, /) -> ModelAnswer:
        """Run a partner's model, in the partner's native JSON, paid by the key the job was submitted with.

        `node` is its id in the graph, and `turn` counts its calls from 0: by these a job that is executed again gets
        the same runs, and pays for none twice.
        """
        ...


class JobCalls(JobQuestions, Protocol):
    """What a host may ask and report while it executes a job."""

    def tell(self, events: Sequence[Event], /) -> None:
        """Record events, in order; never the ending. Must not raise."""
        ...

    def show(self, shown: Preview | ProgressText, /) -> None:
        """Show something to the current watchers; it is never stored. Must not raise."""
        ...


class HostCallbacks(JobCalls, Protocol):
    """The server's side of a job that is executed."""

    def catch_up(self) -> Awaitable[None]:
        """Return when there is room for more events; after a flood of them nothing is read from the host until then."""
        ...


class ProcessNotices(Definition, Protocol):
    """What an engine process reports about itself."""

    def loading(self, pack: str, /) -> None:
        """The process begins to load a node pack: if it ends before the pack is loaded, that is what it was doing."""
        ...

    def child_ended(self, pid: int, status: int, /) -> None:
        """A process that was forked here has ended: its code, or a signal as a negative number. Answered by `reap`."""
        ...


# What a server may call.


class PackReport(msgspec.Struct, frozen=True):
    """A node pack: how many classes of nodes it provides, or why it, or some of them, could not be loaded.

    `notes` name parts of it that are ignored, such as routes and scripts for editors.
    """

    name: str
    nodes: int
    error: str | None = None
    seconds: float = 0.0
    notes: Sequence[str] = ()


class Checked(msgspec.Struct, Generic[D], frozen=True, tag=True):
    """A workflow that can be executed: its graph with converted constants, and the outputs to make.

    `node_errors` is a JSON object of what is wrong with outputs that are left out. `partner_nodes` is how many nodes
    are partners' models, `classes` are the classes that the graph names.
    """

    workflow: D
    outputs: Sequence[str]
    nodes: int
    partner_nodes: int
    node_errors: bytes = b"{}"
    classes: Sequence[str] = ()


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A workflow that cannot be executed: `error` and `node_errors` as JSON objects (engine-wire, 2.1)."""

    error: bytes
    node_errors: bytes = b"{}"


class Execute(msgspec.Struct, frozen=True):
    """A job to execute, of a workflow that was checked.

    `hidden` is a JSON object of the values of hidden inputs by their kinds, such as EXTRA_PNGINFO.
    """

    job: str
    workflow: bytes
    outputs: Sequence[str]
    hidden: bytes


class Ended(msgspec.Struct, frozen=True):
    """How a job has ended; no event of it follows. `descriptors` is how many the host has open now.

    ValueError or TypeError for an ending with values that only MessagePack can hold: they are later read as JSON.
    """

    ending: Ending
    descriptors: int = 0

    def __post_init__(self) -> None:
        """Refuse what JSON does not have."""
        msgspec.json.encode(self.ending)


class Render(msgspec.Struct, frozen=True):
    """A picture to make out of pictures, for a server that decodes nothing itself.

    `how` is one of: `mask`, the `original` with its alpha replaced by that of `other` (C-03), its texts kept;
    `rgb` or `a`, a channel of the original as PNG; `webp` or `jpeg`, the original in that format at `quality`;
    `thumbnail`, a JPEG that fits `edge`. The result is written to `target`.
    """

    how: str
    original: str
    target: str
    other: str | None = None
    quality: int = 90
    edge: int = 0


class Rendered(msgspec.Struct, frozen=True):
    """The picture is written, or could not be: `error` is a message for the caller."""

    content_type: str = ""
    error: str | None = None


class TemplateService(Definition, Protocol):
    """An engine process from its start: it loads what belongs to nobody and is forked, or loads packs and serves.

    A process that has loaded packs is never forked: what their code has done to it stays in it.
    """

    async def begin(self, packs: Sequence[str], memory: int, policy: Policy | None, /) -> None:
        """Set the limits of the process before anything else.

        `packs` are the folders of node packs; `memory` is the most that a process may use, in bytes (0 is no bound).
        With a `policy` it, and everything forked from it, may see, reach and use only what that allows.
        """
        ...

    async def load_engine(self, partner_nodes: bytes, /) -> bool:
        """Load the engine's own classes of nodes, and those of partners' models; returns whether it can be forked.

        `partner_nodes` is the JSON document of `domain/catalog/partner_nodes.py`.
        """
        ...

    async def preload(self) -> bool:
        """Import, where it is installed, the library whose values packs are given; returns whether it can be forked."""
        ...

    async def load(self, folder: str, selection: Sequence[str], policy: Policy | None, /) -> Sequence[PackReport]:
        """Belong to one workspace, or to a probe, from now on: load some packs; a pack not found has no report.

        `folder` is its own, and the only one in which it may write; `policy` is narrower than that of `begin`. Each
        pack is announced by `loading`.
        """
        ...

    async def describe(self) -> bytes:
        """The classes of its packs, or where it has none all others, as editors read them (C-01): a JSON object."""
        ...

    async def serve(self, cache: int, /) -> int:
        """Become a host, whose results may take `cache` bytes; returns how many descriptors are open."""
        ...

    async def ping(self) -> None:
        """Give a sign of life, from the main thread."""
        ...

    def reap(self, pid: int, /) -> None:
        """All that was left of a process that was forked here has ended: its number may be used again."""
        ...


class HostService(Definition, Protocol):
    """An engine process that serves one workspace."""

    async def ping(self) -> None:
        """Give a sign of life, from the main thread."""
        ...

    async def survey(self, workflow: Document, /) -> Sequence[str]:
        """The classes of nodes that a workflow names; none for one that cannot be read."""
        ...

    async def check(
        self, workflow: Document, targets: Sequence[str] | None, callbacks: CheckQuestions, /
    ) -> Checked[Document] | Refused:
        """Validate a workflow (the graph in the API format, as JSON)."""
        ...

    async def execute(
        self, workflow: Document, outputs: Sequence[str], hidden: Document, callbacks: JobCalls, /
    ) -> Ended:
        """Execute a workflow that was checked. Where the call is cancelled, the job ends early."""
        ...

    async def render(self, picture: Render, /) -> Rendered:
        """Make a picture."""
        ...


TEMPLATE_SERVICE: Final = methods_of(TemplateService)
HOST_SERVICE: Final = methods_of(HostService)
PROCESS_NOTICES: Final = methods_of(ProcessNotices)
JOB_CALLS: Final = methods_of(JobCalls)
