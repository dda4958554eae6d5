"""A workflow as data: nodes by id, each with its class, constants and links, read strictly from the API format."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

NODES_MAX: Final = 1_000_000
INPUTS_MAX: Final = 10_000_000
NAME_LENGTH_MAX: Final = 1_000
_VALUE: Final = "__value__"


class Link(NamedTuple):
    """An input that takes an output of another node."""

    node: str
    slot: int


class BadLink(NamedTuple):
    """A list in place of a link that is not one; it is kept for the error report."""

    value: list[object]


class Node(msgspec.Struct, frozen=True):
    """A node of a graph. An input is a Link, a BadLink or a constant."""

    id: str
    class_type: str | None
    inputs: Mapping[str, object]
    title: str | None = None


Graph: TypeAlias = Mapping[str, Node]


class BadGraphError(ValueError):
    """A document that is not a graph in the API format; the message says where and why."""


def read_graph(document: object) -> dict[str, Node]:
    """Read a whole graph, `{id: {class_type, inputs, _meta?}}`; other members of a node are ignored.

    BadGraphError when the document is of another shape, or larger than NODES_MAX and INPUTS_MAX allow.
    """
    if not isinstance(document, dict):
        raise BadGraphError("a workflow is an object of nodes by their ids")
    if len(document) > NODES_MAX:
        raise BadGraphError(f"a workflow has at most {NODES_MAX} nodes, and this one {len(document)}")
    graph = {id_: _read_node(id_, node) for id_, node in document.items()}
    if sum(len(node.inputs) for node in graph.values()) > INPUTS_MAX:
        raise BadGraphError(f"the nodes of a workflow have at most {INPUTS_MAX} inputs in all")
    return graph


def write_graph(graph: Graph) -> dict[str, Any]:
    """Write a graph in the API format: the document it was read from, with its constants as they are now."""
    return {
        node.id: {
            "inputs": {name: _write_value(value) for name, value in node.inputs.items()},
            "class_type": node.class_type,
            **({} if node.title is None else {"_meta": {"title": node.title}}),
        }
        for node in graph.values()
    }


def as_link(value: object) -> Link | None:
    """The link a list is, if it is one."""
    match value:
        case [str(node), int(slot)] if not isinstance(slot, bool):
            return Link(node, slot)
        case _:
            return None


def _read_node(id_: str, node: object) -> Node:
    if len(id_) > NAME_LENGTH_MAX:
        raise BadGraphError(f"the id of a node has at most {NAME_LENGTH_MAX} characters")
    if not isinstance(node, dict):
        raise BadGraphError(f"node {id_!r} is not an object")
    inputs, class_type, meta = node.get("inputs"), node.get("class_type"), node.get("_meta")
    if not isinstance(inputs, dict):
        raise BadGraphError(f"node {id_!r} has no object `inputs`")
    if class_type is not None and not (isinstance(class_type, str) and len(class_type) <= NAME_LENGTH_MAX):
        raise BadGraphError(f"the `class_type` of node {id_!r} is not a text")
    title = meta.get("title") if isinstance(meta, dict) else None
    read = {name: _read_value(value) for name, value in inputs.items()}
    return Node(id_, class_type, read, title if isinstance(title, str) else None)


def _read_value(value: object) -> object:
    """A list means a link; a list that is a constant, or any other value, may come in a wrapper."""
    if isinstance(value, list):
        return as_link(value) or BadLink(value)
    if isinstance(value, dict) and _VALUE in value:
        return value[_VALUE]
    return value


def _write_value(value: object) -> object:
    match value:
        case Link(node=node, slot=slot):
            return [node, slot]
        case BadLink(value=bad):
            return bad
        case list():
            return {_VALUE: value}
        case dict() if _VALUE in value:
            return {_VALUE: value}
        case _:
            return value
