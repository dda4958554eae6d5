"""The order in which nodes depend on each other, and the cycles in it. Linear time, without recursion."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

Sources = Callable[[str], Collection[str]]
"""The nodes that a node needs."""


def sort_topologically(roots: Iterable[str], sources: Sources) -> tuple[list[str], list[list[str]]]:
    """Everything the roots need, themselves included, each after what it needs; and the knots.

    A knot is a maximal group of nodes that all need each other, or one node that needs itself; its first node is the
    one that was reached first. (Tarjan's strongly connected components.)
    """
    walk = _Walk(sources)
    for root in roots:
        walk.visit(root)
    return walk.order, walk.knots


def way_round(knot: Sequence[str], sources: Sources) -> list[str]:
    """The shortest way from the first node of a knot back to it, each node needing the next and the last the first."""
    first, members = knot[0], frozenset(knot)
    came_from: dict[str, str] = {}
    waiting = deque([first])
    while waiting:
        node = waiting.popleft()
        for source in sources(node):
            if source == first:
                return _way_back(node, first, came_from)
            if source in members and source not in came_from:
                came_from[source] = node
                waiting.append(source)
    raise AssertionError("a knot holds a way round")


def _way_back(node: str, first: str, came_from: dict[str, str]) -> list[str]:
    way = [node]
    while way[-1] != first:
        way.append(came_from[way[-1]])
    return way[::-1]


class _Walk:
    """A depth-first walk; `low` is the earliest node on the path that can be reached again."""

    def __init__(self, sources: Sources) -> None:
        self.order: list[str] = []
        self.knots: list[list[str]] = []
        self._sources = sources
        self._number: dict[str, int] = {}
        self._low: dict[str, int] = {}
        self._open: dict[str, None] = {}
        self._path: list[tuple[str, Iterator[str]]] = []

    def visit(self, root: str) -> None:
        """Walk from a root over all nodes that were not visited before."""
        if root not in self._number:
            self._enter(root)
        while self._path:
            node, rest = self._path[-1]
            following = next((source for source in rest if self._is_new(node, source)), None)
            if following is None:
                self._leave()
            else:
                self._enter(following)

    def _enter(self, node: str) -> None:
        self._number[node] = self._low[node] = len(self._number)
        self._open[node] = None
        self._path.append((node, iter(self._sources(node))))

    def _is_new(self, node: str, source: str) -> bool:
        if source not in self._number:
            return True
        if source in self._open:
            self._low[node] = min(self._low[node], self._number[source])
        return False

    def _leave(self) -> None:
        node, _ = self._path.pop()
        if self._path:
            above = self._path[-1][0]
            self._low[above] = min(self._low[above], self._low[node])
        if self._low[node] == self._number[node]:
            self._close(node)

    def _close(self, node: str) -> None:
        """All nodes opened since this one, itself included, are one group."""
        group: list[str] = []
        while not group or group[-1] != node:
            last, _ = self._open.popitem()
            group.append(last)
        group.reverse()
        self.order.extend(group)
        if len(group) > 1 or node in self._sources(node):
            self.knots.append(group)
