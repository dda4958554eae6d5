"""Graphs that nodes put in their places, built by the names packs call."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fairlead.engine.graph.graph import as_link

_numbers: ContextVar[Iterator[int] | None] = ContextVar("graph_numbers", default=None)


@contextmanager
def numbered_graphs() -> Iterator[None]:
    """Number the graphs built meanwhile from 0: two of them in one call must not share ids.

    The first needs no number of its own, for the executor puts the node, the call and a 0 before every id.
    """
    token = _numbers.set(itertools.count())
    try:
        yield
    finally:
        _numbers.reset(token)


class GraphNode:
    """A node of a graph that is being built."""

    def __init__(self, id_: str, class_type: str, inputs: Mapping[str, object]) -> None:
        self.id = id_
        self.class_type = class_type
        self.inputs: dict[str, object] = dict(inputs)
        self.override_display_id: str | None = None

    def out(self, index: int) -> list[object]:
        """A link to an output."""
        return [self.id, index]

    def set_input(self, key: str, value: object) -> None:
        """Set an input; None takes it away."""
        if value is None:
            self.inputs.pop(key, None)
        else:
            self.inputs[key] = value

    def get_input(self, key: str) -> object:
        """The value of an input, or None."""
        return self.inputs.get(key)

    def set_override_display_id(self, override_display_id: str) -> None:
        """Have editors show the node as another."""
        self.override_display_id = override_display_id

    def serialize(self) -> dict[str, object]:
        """The node in the API format."""
        told = {} if self.override_display_id is None else {"override_display_id": self.override_display_id}
        return {"class_type": self.class_type, "inputs": self.inputs, **told}


class GraphBuilder:
    """A graph that is being built; its ids begin with a prefix."""

    def __init__(self, prefix: str | None = None) -> None:
        self.prefix = self.alloc_prefix() if prefix is None else prefix
        self.nodes: dict[str, GraphNode] = {}
        self._made = itertools.count(1)

    @classmethod
    def alloc_prefix(
        cls, root: str | None = None, call_index: int | None = None, graph_index: int | None = None
    ) -> str:
        """A prefix for ids that no other graph of this call uses."""
        if root is not None and call_index is not None and graph_index is not None:
            return f"{root}.{call_index}.{graph_index}."
        numbers = _numbers.get()
        number = 0 if numbers is None else next(numbers)
        return "" if number == 0 else f"{number}."

    @classmethod
    def set_default_prefix(cls, prefix_root: str, call_index: int, graph_index: int = 0) -> None:
        """Prefixes are given out by the executor; packs that set them themselves change nothing."""

    def node(self, class_type: str, id: str | None = None, **kwargs: object) -> GraphNode:  # noqa: A002 -- packs call it so
        """Add a node, or return the one with this id; without an id it gets a number."""
        name = f"{self.prefix}{next(self._made) if id is None else id}"
        if name not in self.nodes:
            self.nodes[name] = GraphNode(name, class_type, kwargs)
        return self.nodes[name]

    def lookup_node(self, id: str) -> GraphNode | None:  # noqa: A002 -- packs call it so
        """The node with an id, or None."""
        return self.nodes.get(f"{self.prefix}{id}")

    def finalize(self) -> dict[str, object]:
        """The graph in the API format."""
        return {id_: node.serialize() for id_, node in self.nodes.items()}

    def replace_node_output(self, node_id: str, index: int, new_value: object) -> None:
        """Put something else wherever an output is linked to; None takes those inputs away."""
        replaced = as_link([f"{self.prefix}{node_id}", index])
        for node in self.nodes.values():
            for key in [key for key, value in node.inputs.items() if is_link(value) and as_link(value) == replaced]:
                node.set_input(key, new_value)

    def remove_node(self, id: str) -> None:  # noqa: A002 -- packs call it so
        """Take a node away. KeyError when there is none."""
        del self.nodes[f"{self.prefix}{id}"]


def is_link(obj: object) -> bool:
    """Whether a value is a link to an output: the id of a node, and a number."""
    return isinstance(obj, list) and as_link(obj) is not None


def add_graph_prefix(
    graph: Mapping[str, Mapping[str, Any]], outputs: Sequence[object], prefix: str
) -> tuple[dict[str, Any], tuple[object, ...]]:
    """A graph and the links into it with a prefix before all ids."""

    def prefix_link(value: Any) -> object:
        return [f"{prefix}{value[0]}", value[1]] if is_link(value) and value[0] in graph else value

    made = {
        f"{prefix}{id_}": {**node, "inputs": {name: prefix_link(value) for name, value in node["inputs"].items()}}
        for id_, node in graph.items()
    }
    return made, tuple(prefix_link(value) for value in outputs)
