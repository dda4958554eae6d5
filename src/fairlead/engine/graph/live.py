"""A graph while it is executed: what was submitted, and the graphs by which nodes were replaced since."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

import msgspec

from fairlead.domain.jobs.events import Place
from fairlead.engine.graph.cycles import sort_topologically
from fairlead.engine.graph.graph import NODES_MAX, Graph, Link, Node, as_link
from fairlead.engine.nodes.interface import Expected, Interface
from fairlead.engine.nodes.registry import Registry

_DEPTH_MAX: Final = 1_000
_NO_LINKS: Final[Mapping[str, Link]] = MappingProxyType({})


class ExpansionError(Exception):
    """A node returned a graph that cannot replace it; the message says why."""


class LiveNode(msgspec.Struct, frozen=True):
    """A node, with its inputs by how they are handled.

    `links` are computed first, `lazy` ones (names of links) only when asked for; `raw` ones are passed as they are.
    """

    place: Place
    interface: Interface
    expected: Mapping[str, Expected]
    constants: Mapping[str, object]
    links: Mapping[str, Link]
    raw: Mapping[str, Link]
    lazy: frozenset[str]
    sources: tuple[str, ...]
    """Every node it links to, once each."""
    depth: int

    @property
    def id(self) -> str:
        """The node's id in the live graph."""
        return self.place.node


class LiveGraph:
    """Nodes by id; those of the submitted graph are prepared when something first reaches them."""

    def __init__(self, graph: Graph, registry: Registry) -> None:
        self._graph = graph
        self._registry = registry
        self._nodes: dict[str, LiveNode] = {}
        self._made = 0

    def __contains__(self, node: object) -> bool:
        return node in self._nodes or node in self._graph

    def __getitem__(self, node: str) -> LiveNode:
        found = self._nodes.get(node)
        if found is None:
            found = self._nodes[node] = self._prepare(self._graph[node], Place(node, node), 0)
        return found

    def __iter__(self) -> Iterator[str]:
        """The ids of the submitted nodes, and of those that were added since."""
        yield from self._graph
        yield from (id_ for id_ in self._nodes if id_ not in self._graph)

    @property
    def submitted(self) -> Graph:
        """The graph as it was submitted."""
        return self._graph

    def reach(self, roots: Iterable[str], beyond: Collection[str]) -> list[LiveNode]:
        """Everything that some nodes need, lazily or not, themselves included, each after what it needs.

        The walk ends at nodes in `beyond`, which are not among what it finds.
        """

        def sources(node: str) -> Sequence[str]:
            return [source for source in self[node].sources if source not in beyond] if beyond else self[node].sources

        order, _ = sort_topologically((root for root in roots if root not in beyond), sources)
        return [self[node] for node in order]

    def expand(self, parent: LiveNode, call: int, document: Mapping[str, object]) -> dict[str, str]:
        """Add a graph that a call of a node returned; returns the new ids by those it used.

        An id that begins with `<node>.<call>.` stays as it is, for node packs may number their graphs themselves.
        ExpansionError when it is not a graph, or too many nodes were added.
        """
        self._made += len(document)
        if len(self._graph) + self._made > NODES_MAX or parent.depth >= _DEPTH_MAX:
            raise ExpansionError(f"a workflow grows to at most {NODES_MAX} nodes, {_DEPTH_MAX} graphs deep")
        own = f"{parent.id}.{call}."
        ids = {id_: id_ if id_.startswith(own) else f"{own}0.{id_}" for id_ in document}
        for id_, node in document.items():
            self._nodes[ids[id_]] = self._make_node(parent, ids, id_, node)
        self._refuse_loose_links(ids.values())
        return ids

    def read_link(self, value: object, ids: Mapping[str, str]) -> object:
        """A value of a node that returned a graph: a link, if it leads to an existing node, or the value unchanged."""
        link = _link(value, ids)
        return link if isinstance(link, Link) and link.node in self else value

    def _make_node(self, parent: LiveNode, ids: Mapping[str, str], id_: str, node: Any) -> LiveNode:
        if ids[id_] in self:
            raise ExpansionError(f"there is a node {ids[id_]} already")
        match node:
            case {"class_type": str(class_type), "inputs": dict(inputs)} if class_type in self._registry:
                values = {name: _link(value, ids) for name, value in inputs.items()}
            case _:
                raise ExpansionError(f"node {ids[id_]} is of no class there is")
        display = str(node.get("override_display_id") or parent.place.display)
        place = Place(ids[id_], display, parent.id, parent.place.real_node)
        return self._prepare(Node(ids[id_], class_type, values), place, parent.depth + 1)

    def _refuse_loose_links(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            for source in self._nodes[id_].sources:
                if source not in self:
                    raise ExpansionError(f"node {id_} links to {source}, which is not there")

    def _prepare(self, node: Node, place: Place, depth: int) -> LiveNode:
        interface = self._registry[cast("str", node.class_type)]
        expected, takes_unknown = interface.expect(node.inputs), interface.definition.takes_unknown
        links: dict[str, Link] = {}
        raw: dict[str, Link] = {}
        for path, value in node.inputs.items():
            if isinstance(value, Link) and (interface.takes_unknown_links or path in expected):
                (raw if path in expected and expected[path].is_raw else links)[path] = value
        constants = {
            path: value
            for path, value in node.inputs.items()
            if not isinstance(value, Link) and (takes_unknown or path in expected)
        }
        can_ask = interface.definition.needed is not None
        lazy = frozenset(path for path in links if can_ask and path in expected and expected[path].is_lazy)
        sources = tuple(dict.fromkeys(link.node for some in (links, raw) for link in some.values()))
        return LiveNode(place, interface, expected, constants, links, raw or _NO_LINKS, lazy, sources, depth)


def _link(value: object, ids: Mapping[str, str]) -> object:
    """An input in a node's graph: a link with the new id of its source, or the value unchanged."""
    link = value if isinstance(value, Link) else as_link(value)
    return value if link is None else Link(ids.get(link.node, link.node), link.slot)
