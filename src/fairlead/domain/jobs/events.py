"""The events of a job. There are a few for each node, never one with all nodes.

The events of an execution are made by the engine, in a process of its own. All events may travel between servers. Hence
structs, which msgspec encodes as they are, each with its name.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias

import msgspec


class ShownValues(dict[str, object]):
    """The output of a node, with its `json`, which is encoded once for storing, measuring and sending."""

    __slots__ = ("json",)

    json: bytes

    @classmethod
    def encode(cls, values: Mapping[str, object]) -> Self:
        """The same values with their JSON; TypeError, ValueError or RecursionError for what JSON does not have."""
        if isinstance(values, cls):
            return values
        made = cls(values)
        made.json = msgspec.json.encode(values)
        return made

    @property
    def raw(self) -> msgspec.Raw:
        """The values for an encoder, which copies their JSON."""
        return msgspec.Raw(self.json)


class Place(msgspec.Struct, frozen=True):
    """A node as watchers know it: its own id, the node to show it at, the node that made it, and that one's place."""

    node: str
    display: str
    parent: str | None = None
    real: str | None = None

    @property
    def real_node(self) -> str:
        """The node of the submitted graph that this one is, or was made by."""
        return self.real or self.node


class Failure(msgspec.Struct, frozen=True):
    """Why a node could not be executed. Inputs are shortened; `executed` are the nodes that were executed before."""

    place: Place
    node_type: str
    exception_type: str
    message: str
    traceback: Sequence[str]
    current_inputs: Mapping[str, Sequence[Any]]
    executed: Sequence[str]


class Started(msgspec.Struct, frozen=True, tag=True):
    """The execution has begun."""


class Cached(msgspec.Struct, frozen=True, tag=True):
    """The nodes whose results are cached."""

    nodes: Sequence[str]


class Executing(msgspec.Struct, frozen=True, tag=True):
    """A node begins, or starts again after it has asked for more inputs."""

    place: Place


class Progress(msgspec.Struct, frozen=True, tag=True):
    """The progress of a node."""

    place: Place
    value: float
    most: float


class Executed(msgspec.Struct, frozen=True, tag=True):
    """A node has an output."""

    place: Place
    ui: Mapping[str, Any]


class Finished(msgspec.Struct, frozen=True, tag=True):
    """A node that was executing has finished."""

    place: Place


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """A node was not executed, because a value blocks it; the execution goes on without what depends on it."""

    place: Place
    node_type: str
    message: str


class Succeeded(msgspec.Struct, frozen=True, tag=True):
    """The execution has ended, and every output that could be made was made."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A node could not be executed, and the execution is over. `is_late`: because it has taken longer than it may."""

    failure: Failure
    is_late: bool = False


class Interrupted(msgspec.Struct, frozen=True, tag=True):
    """The execution was cancelled; `place` is the node that was executing, if one was."""

    place: Place | None
    node_type: str | None
    executed: Sequence[str]


Event: TypeAlias = (
    Started | Cached | Executing | Progress | Executed | Finished | Stopped | Succeeded | Failed | Interrupted
)
Ending: TypeAlias = Succeeded | Failed | Interrupted


class QueueChanged(msgspec.Struct, frozen=True, tag=True):
    """A job of the workspace was submitted, began or ended: how many of them now wait or are executed."""

    remaining: int


class Notice(msgspec.Struct, frozen=True, tag=True):
    """A sentence for people, such as why a job has to wait."""

    text: str


class Preview(msgspec.Struct, frozen=True, tag=True):
    """A preview of what a node makes. `image_type` is image/jpeg or image/png."""

    place: Place
    image_type: str
    image: bytes


class ProgressText(msgspec.Struct, frozen=True, tag=True):
    """A text of a node about its progress."""

    place: Place
    text: str


class Counted(msgspec.Struct, frozen=True, tag=True):
    """How many nodes of the job are done, according to the database; sent where its single events do not arrive."""

    nodes_done: int


JobEvent: TypeAlias = Event | QueueChanged | Notice | Preview | ProgressText | Counted
"""Everything that is sent to watchers. Events of the execution are stored with the job; the others are live only."""


class EventEnvelope(msgspec.Struct, frozen=True):
    """An event, the workspace and the job it is about, and when it happened, in ms since 1970.

    Both ids are None where it is not a job's. `job_id` is the job's own, and unique; `public_id` is the one that
    callers know.

    The `attempt` at the job and how many of its events are `kept` by then say where in the life of the job this one
    belongs, whichever way it comes; `is_kept` says that it is the last of those itself. All are 0 where no server
    executes the job, or there is none.
    """

    workspace_id: str
    job_id: str | None
    public_id: str | None
    at: int
    event: JobEvent
    attempt: int = 0
    kept: int = 0
    is_kept: bool = False
