"""What a server and an engine host say to each other: records over one socket, each a frame of its own.

The server gives orders and answers questions; a host tells what happens, and asks for what only the server has: files,
names for new ones, runs of partner models. A host knows no workspace, no database and no secret. Everything a host
says is checked like anything else from outside: node packs run in it.

An engine process is started with Begin, or forked from one that was. It loads, and then either serves one workspace or
is forked. To have it forked, the server sends a message over a second socket, with three descriptors: the new process's
two sockets and its standard error. The first byte that a new process sends is HELLO, which names it to the server.

A frame is four bytes of length, big-endian, and the record in MessagePack. `job` names an order; the answer to it and
everything told in between carry the same name. A large document is in a file (`document_files`). `question` numbers a
host's questions, each answered once.
"""

from collections.abc import Sequence
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from fairlead.domain.jobs.events import Ending, Event, Place
from fairlead.engine.hosts.document_files import Document
from fairlead.processes.confinement.policy import Policy

A = TypeVar("A")
D = TypeVar("D")
"""A document: its bytes on either side, and on the way perhaps the file that holds it."""

FRAME_BYTES_MAX: Final = 320 * 2**20
"""The largest answers of partners' models fit."""
HELLO: Final = b"\x01"
TOLD_BYTES_MAX: Final = 32 * 2**20
"""What a host may say at once: a preview, a call of a model. Of what nodes show there is less (SHOWN_BYTES_MAX)."""


class Begin(msgspec.Struct, frozen=True, tag=True):
    """What an engine process is told first, before it knows anything: what it may take and see. Answered with Ready.

    `scratch` is the folder below which it, and everything forked from it, may write; `packs` are the folders of node
    packs; `memory` is what a process may take in all (0 no bound), in bytes. With a `policy` it, and everything forked
    from it, sees, reaches and takes nothing else but what that says.
    """

    scratch: str
    packs: Sequence[str] = ()
    memory: int = 0
    policy: Policy | None = None


class Preload(msgspec.Struct, frozen=True, tag=True):
    """Import, where it is installed, what packs are given whether they ask for it or not. Answered with Ready."""


class Load(msgspec.Struct, frozen=True, tag=True):
    """Load classes of nodes: the engine's own, those of partners' models, and those of some packs.

    `partner_nodes` is the JSON document of `domain/catalog/partner_nodes.py`; `folder` the one in which packs may write
    while they are loaded. What is forked from the process has its folders beside that, and nowhere else; `policy` is
    narrower than that of Begin. Each pack is announced with Loading, and everything answered with Ready.
    """

    folder: str
    partner_nodes: bytes = b"[]"
    selection: Sequence[str] = ()
    policy: Policy | None = None


class Serve(msgspec.Struct, frozen=True, tag=True):
    """Be the host of one workspace from now on; answered with Ready. Nothing more is forked from it.

    `folder` is its own; of the scratch folder it sees nothing else but, to read, where its packs were `loaded`, too.
    `cache` is in bytes.
    """

    folder: str
    loaded: str = ""
    cache: int = 256 * 2**20


class Ping(msgspec.Struct, frozen=True, tag=True):
    """Give a sign of life; answered with Pong by the main thread."""


class Reap(msgspec.Struct, frozen=True, tag=True):
    """What a process that was forked here has left behind is ended: its number may be used again."""

    pid: int


class Survey(msgspec.Struct, Generic[D], frozen=True, tag=True):
    """Tell which classes of nodes a workflow names; answered with Surveyed."""

    job: str
    workflow: D


class Check(msgspec.Struct, Generic[D], frozen=True, tag=True):
    """Validate a workflow (the graph in the API format, as JSON); answered with Checked or Refused."""

    job: str
    workflow: D
    targets: Sequence[str] | None = None


class Execute(msgspec.Struct, Generic[D], frozen=True, tag=True):
    """Execute a workflow that was checked; answered with Ended.

    `hidden` is a JSON object of the values of hidden inputs by their kinds, such as EXTRA_PNGINFO.
    """

    job: str
    workflow: D
    outputs: Sequence[str]
    hidden: D


class Interrupt(msgspec.Struct, frozen=True, tag=True):
    """A job is not wanted any more."""

    job: str


class Render(msgspec.Struct, frozen=True, tag=True):
    """Make a picture out of pictures, for a server that decodes nothing itself; answered with Rendered.

    `how` is one of: `mask`, the `original` with its alpha replaced by that of `other` (C-03), its texts kept;
    `rgb` or `a`, a channel of the original as PNG; `webp` or `jpeg`, the original in that format at `quality`;
    `thumbnail`, a JPEG that fits `edge`. The result is written to `target`.
    """

    job: str
    how: str
    original: str
    target: str
    other: str | None = None
    quality: int = 90
    edge: int = 0


class Answer(msgspec.Struct, Generic[A], frozen=True, tag=True):
    """What a question was answered with, as the question's method returns it."""

    question: int
    value: A


class Declined(msgspec.Struct, frozen=True, tag=True):
    """A question that was refused: the kind of the fault, in words of C-12 or another, and why."""

    question: int
    exception_type: str
    message: str


ToHost: TypeAlias = (
    Begin
    | Preload
    | Load
    | Serve
    | Ping
    | Reap
    | Survey[Document]
    | Check[Document]
    | Execute[Document]
    | Interrupt
    | Render
    | Answer[msgspec.Raw]
    | Declined
)


class PackReport(msgspec.Struct, frozen=True):
    """A node pack: how many classes of nodes it gave, or why it, or some of them, could not be loaded.

    `notes` say what of it is passed by, such as routes and scripts for editors.
    """

    name: str
    nodes: int
    error: str | None = None
    seconds: float = 0.0
    notes: Sequence[str] = ()


class Loading(msgspec.Struct, frozen=True, tag=True):
    """A node pack begins to be loaded: where the process ends before it is ready, that was the last it did."""

    pack: str


class Ready(msgspec.Struct, frozen=True, tag=True):
    """What was ordered is done. A pack that was not found has no report.

    `object_info` are the classes that were loaded, as editors read them (C-01): those of the packs where there are
    some, else all. `keeps_folder` says that a pack has been given a folder to write in, and may go on using it.
    `descriptors` is how many are open.
    """

    packs: Sequence[PackReport] = ()
    object_info: bytes = b"{}"
    keeps_folder: bool = False
    descriptors: int = 0


class Pong(msgspec.Struct, frozen=True, tag=True):
    """The answer to Ping."""


class ChildEnded(msgspec.Struct, frozen=True, tag=True):
    """A process that was forked here has ended: its code, or a signal as a negative number. Answered with Reap."""

    pid: int
    status: int


class Surveyed(msgspec.Struct, frozen=True, tag=True):
    """The classes that a workflow names; none for one that cannot be read."""

    job: str
    classes: Sequence[str]


class Checked(msgspec.Struct, Generic[D], frozen=True, tag=True):
    """A workflow that can be executed: its graph with constants as they are taken, and the outputs to make.

    `node_errors` is a JSON object of what is wrong with outputs that are left out. `partner_nodes` says how
    many nodes are partners' models.
    """

    job: str
    workflow: D
    outputs: Sequence[str]
    nodes: int
    partner_nodes: int
    node_errors: bytes = b"{}"


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A workflow that cannot be executed: `error` and `node_errors` as JSON objects (engine-wire, 2.1)."""

    job: str
    error: bytes
    node_errors: bytes = b"{}"


class Rendered(msgspec.Struct, frozen=True, tag=True):
    """The picture is written, or could not be: `error` says why, in words for the caller."""

    job: str
    content_type: str = ""
    error: str | None = None


class Told(msgspec.Struct, frozen=True, tag=True):
    """What has happened in a job, in order; never its ending."""

    job: str
    events: Sequence[Event]


class Previewed(msgspec.Struct, frozen=True, tag=True):
    """What a node has made so far, for those who watch: never kept. `image_type` is image/jpeg or image/png."""

    job: str
    place: Place
    image_type: str
    image: bytes


class Said(msgspec.Struct, frozen=True, tag=True):
    """A word of a node about its progress, for those who watch: never kept."""

    job: str
    place: Place
    text: str


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A job has ended; nothing more is told of it. `descriptors` is how many the host has open now."""

    job: str
    ending: Ending
    descriptors: int = 0


class Question(msgspec.Struct, Generic[A], frozen=True, tag=True):
    """A call of a method of `callbacks.JobQuestions`, with its arguments, for an order."""

    question: int
    job: str
    method: str
    arguments: A


FromHost: TypeAlias = (
    Loading
    | Ready
    | Pong
    | ChildEnded
    | Surveyed
    | Checked[Document]
    | Refused
    | Rendered
    | Told
    | Previewed
    | Said
    | Ended
    | Question[msgspec.Raw]
)
