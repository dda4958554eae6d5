"""Decides which node is next, from ids and dependencies alone.

A node that was taken ends, or waits again for further dependencies. Of the ready nodes those come first that show
something early and free memory soon: output nodes and concurrent ones, then what feeds an output, then what feeds that,
and otherwise the one that was added first.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

_FAR: Final = 3
"""The distance from an output at which it no longer matters."""


class DependencyCycleError(Exception):
    """Nodes that depend on each other; each of its `nodes` needs the next, and the last needs the first."""

    def __init__(self, nodes: Sequence[str]) -> None:
        super().__init__("Nodes need each other: " + " -> ".join([*nodes[:20], nodes[0]]))
        self.nodes: Final = tuple(nodes)


class _Entry(msgspec.Struct):
    number: int
    is_concurrent: bool
    needs: set[str]
    is_ready: bool = False


class Schedule:
    """Nodes that are to be executed, each once and after what it needs."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._consumers: dict[str, list[str]] = {}
        self._distances: dict[str, int] = {}
        self._ready: dict[bool, list[tuple[int, int, str]]] = {False: [], True: []}
        self._added = 0

    def __contains__(self, node: object) -> bool:
        """Whether a node was added and is not done yet."""
        return node in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, node: str, needs: Iterable[str], *, is_output: bool = False, is_concurrent: bool = False) -> None:
        """Add a node with what it needs; what it needs may be added later, but must be."""
        entry = self._entries[node] = _Entry(self._added, is_concurrent, set())
        self._added += 1
        if is_output:
            self._distances[node] = 0
        self._wait(node, entry, needs)

    def wait(self, node: str, needs: Iterable[str]) -> None:
        """Let a node that was taken wait for more; without any, it is ready again."""
        self._wait(node, self._entries[node], needs)

    def take(self, *, is_concurrent: bool) -> str | None:
        """The next ready node of the concurrent ones, or of the others; None when there is none now."""
        heap = self._ready[is_concurrent]
        while heap:
            # What comes off the heap may be out of date: the node was taken from a better place, or has finished.
            _, _, node = heapq.heappop(heap)
            entry = self._entries.get(node)
            if entry is not None and entry.is_ready:
                entry.is_ready = False
                return node
        return None

    def finish(self, node: str) -> None:
        """Note that a node that was taken has finished."""
        del self._entries[node]
        self._distances.pop(node, None)
        for consumer in self._consumers.pop(node, ()):
            entry = self._entries[consumer]
            entry.needs.discard(node)
            if not entry.needs:
                self._offer(consumer, entry)

    def cycle(self) -> DependencyCycleError:
        """Find the cycle among the nodes that wait. Only to be called when none is ready or taken."""
        node = next(iter(self._entries))
        seen: dict[str, int] = {}
        while node not in seen:
            seen[node] = len(seen)
            # In the order of addition, so that a graph always names the same cycle.
            node = min(self._entries[node].needs, key=lambda need: self._entries[need].number)
        return DependencyCycleError([*seen][seen[node] :])

    def _wait(self, node: str, entry: _Entry, needs: Iterable[str]) -> None:
        for need in needs:
            if need not in entry.needs:
                entry.needs.add(need)
                self._consumers.setdefault(need, []).append(node)
        self._draw_near(entry.needs, self._distances.get(node, _FAR) + 1)
        if not entry.needs:
            self._offer(node, entry)

    def _draw_near(self, nodes: Iterable[str], distance: int) -> None:
        """Note the distance of nodes from an output; what they need is one step further away."""
        waiting = [(node, distance) for node in nodes] if distance < _FAR else []
        while waiting:
            node, distance = waiting.pop()
            if distance >= self._distances.get(node, _FAR):
                continue
            self._distances[node] = distance
            entry = self._entries.get(node)
            if entry is None:
                continue
            if entry.is_ready:
                self._offer(node, entry)
            waiting.extend((need, distance + 1) for need in entry.needs)

    def _offer(self, node: str, entry: _Entry) -> None:
        """A node whose distance shrank is queued twice; its better place is used, and the other skipped."""
        entry.is_ready = True
        rank = 0 if entry.is_concurrent else self._distances.get(node, _FAR)
        heapq.heappush(self._ready[entry.is_concurrent], (rank, entry.number, node))
