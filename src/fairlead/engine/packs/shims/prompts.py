"""The graph that is being executed, as packs look at it: the hidden input DYNPROMPT."""

from weakref import WeakKeyDictionary, proxy

from fairlead.engine.graph.graph import write_graph
from fairlead.engine.graph.live import LiveGraph, LiveNode


class DynamicPrompt:
    """A view of a live graph by the names packs call. The graph cannot be changed through it."""

    def __init__(self, live: LiveGraph) -> None:
        self._live = live
        self._told: dict[str, dict[str, object]] = {}

    def get_node(self, node_id: str) -> dict[str, object]:
        """A node in the API format, the same dict each time: packs leave words for each other in it.

        KeyError for a node there is not.
        """
        if node_id not in self._told:
            node = self._node(node_id)
            links = {path: [link.node, link.slot] for some in (node.links, node.raw) for path, link in some.items()}
            self._told[node_id] = {
                "class_type": node.interface.definition.name,
                "inputs": {**node.constants, **links},
            }
        return self._told[node_id]

    def has_node(self, node_id: str) -> bool:
        """Whether there is such a node, submitted or made."""
        return node_id in self._live

    def all_node_ids(self) -> set[str]:
        """The ids of all nodes, submitted or made."""
        return set(self._live)

    def get_original_prompt(self) -> dict[str, object]:
        """The graph as it was submitted."""
        return write_graph(self._live.submitted)

    def get_real_node_id(self, node_id: str) -> str:
        """The submitted node that a node is, or was made by."""
        return self._node(node_id).place.real_node

    def get_parent_node_id(self, node_id: str) -> str | None:
        """The node that made a node; None for a submitted one."""
        return self._node(node_id).place.parent

    def get_display_node_id(self, node_id: str) -> str:
        """Where editors show a node."""
        return self._node(node_id).place.display

    def _node(self, node_id: str) -> LiveNode:
        if node_id not in self._live:
            raise KeyError(node_id)
        return self._live[node_id]


_views: WeakKeyDictionary[LiveGraph, DynamicPrompt] = WeakKeyDictionary()


def view_of(live: LiveGraph) -> DynamicPrompt:
    """The view that all nodes of an execution share."""
    view = _views.get(live)
    if view is None:
        # The view must not keep alive what tells when it can go.
        view = _views[live] = DynamicPrompt(proxy(live))
    return view
