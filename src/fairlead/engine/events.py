"""What is told of an execution while it goes on. There are a few events for each node, never one with all nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Place:
    """A node as those who watch know it: by its own id, where to show it, what made it, and where that stands."""

    node: str
    display: str
    parent: str | None = None
    real: str | None = None

    @property
    def real_node(self) -> str:
        """The node of the submitted graph that this one is, or was made by."""
        return self.real or self.node


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a node could not be executed. Inputs are shortened; `executed` are the nodes that were before."""

    place: Place
    node_type: str
    exception_type: str
    message: str
    traceback: Sequence[str]
    current_inputs: Mapping[str, Sequence[Any]]
    executed: Sequence[str]


@dataclass(frozen=True, slots=True)
class Started:
    """The execution has begun."""


@dataclass(frozen=True, slots=True)
class Cached:
    """The nodes whose results are there already."""

    nodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Executing:
    """A node begins, or begins anew after it has asked for more inputs."""

    place: Place


@dataclass(frozen=True, slots=True)
class Progress:
    """A node is this far."""

    place: Place
    value: float
    most: float


@dataclass(frozen=True, slots=True)
class Executed:
    """A node has something to show."""

    place: Place
    ui: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finished:
    """A node that was executing is through."""

    place: Place


@dataclass(frozen=True, slots=True)
class Stopped:
    """A node was not executed, because a value blocks it; the execution goes on without what depends on it."""

    place: Place
    node_type: str
    message: str


@dataclass(frozen=True, slots=True)
class Succeeded:
    """Everything that could be made was."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A node could not be executed, and the execution is over."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The execution was not wanted any more; `place` is the node that was executing, if one was."""

    place: Place | None
    node_type: str | None
    executed: Sequence[str]


Event: TypeAlias = (
    Started | Cached | Executing | Progress | Executed | Finished | Stopped | Succeeded | Failed | Interrupted
)
Ending: TypeAlias = Succeeded | Failed | Interrupted
