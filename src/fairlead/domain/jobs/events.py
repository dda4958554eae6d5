"""What is told of a job while it is executed. There are a few events for each node, never one with all nodes.

They are made by the engine, in a process of its own, and read by everybody else: hence structs, which travel as they
are (msgspec), each with its name.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias

import msgspec


class ShownValues(dict[str, Any]):
    """What a node shows, with the `json` of it: encoded once, for everyone who keeps it, measures it or sends it."""

    __slots__ = ("json",)

    json: bytes

    @classmethod
    def encoded(cls, values: Mapping[str, Any]) -> Self:
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
    """A node as those who watch know it: by its own id, where to show it, what made it, and where that stands."""

    node: str
    display: str
    parent: str | None = None
    real: str | None = None

    @property
    def real_node(self) -> str:
        """The node of the submitted graph that this one is, or was made by."""
        return self.real or self.node


class Failure(msgspec.Struct, frozen=True):
    """Why a node could not be executed. Inputs are shortened; `executed` are the nodes that were before."""

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
    """The nodes whose results are there already."""

    nodes: Sequence[str]


class Executing(msgspec.Struct, frozen=True, tag=True):
    """A node begins, or starts again after it has asked for more inputs."""

    place: Place


class Progress(msgspec.Struct, frozen=True, tag=True):
    """A node is this far."""

    place: Place
    value: float
    most: float


class Executed(msgspec.Struct, frozen=True, tag=True):
    """A node has something to show."""

    place: Place
    ui: Mapping[str, Any]


class Finished(msgspec.Struct, frozen=True, tag=True):
    """A node that was executing is through."""

    place: Place


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """A node was not executed, because a value blocks it; the execution goes on without what depends on it."""

    place: Place
    node_type: str
    message: str


class Succeeded(msgspec.Struct, frozen=True, tag=True):
    """Everything that could be made was."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A node could not be executed, and the execution is over. `is_late`: because it has taken longer than it may."""

    failure: Failure
    is_late: bool = False


class Interrupted(msgspec.Struct, frozen=True, tag=True):
    """The execution was not wanted any more; `place` is the node that was executing, if one was."""

    place: Place | None
    node_type: str | None
    executed: Sequence[str]


Event: TypeAlias = (
    Started | Cached | Executing | Progress | Executed | Finished | Stopped | Succeeded | Failed | Interrupted
)
Ending: TypeAlias = Succeeded | Failed | Interrupted
