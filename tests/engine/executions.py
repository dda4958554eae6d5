"""Graphs that are executed in tests, and what is seen of it."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from engine import sample_nodes
from fairlead.domain.jobs.events import Cached, Event, Executing
from fairlead.engine.graph.cache import ResultCache
from fairlead.engine.graph.executor import Executor, Outcome, Work
from fairlead.engine.graph.graph import read_graph
from fairlead.engine.graph.validation import validate
from fairlead.engine.nodes.files import Folders
from fairlead.engine.nodes.node_context import Stop
from fairlead.engine.nodes.registry import Registry

E = TypeVar("E")


@dataclass(frozen=True)
class Seen:
    """An execution: its outcome and its events."""

    outcome: Outcome
    events: Sequence[Event]

    @property
    def executed(self) -> list[str]:
        """The nodes that were executed, in order; once more for each time they started again."""
        return [event.place.node for event in self.of(Executing)]

    @property
    def cached(self) -> set[str]:
        """The nodes whose results were there."""
        return {node for event in self.of(Cached) for node in event.nodes}

    def of(self, kind: type[E]) -> list[E]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def output_of(self, node: str, key: str = "values") -> Any:
        """What a node has shown."""
        return self.outcome.ui[node][key]


class Bench:
    """An executor of the sample nodes with a cache of its own."""

    def __init__(self, folder: Path | None = None, cache_bytes: int = 1 << 20, *, is_spare: bool = False) -> None:
        self.registry = Registry(sample_nodes.NODES)
        self.executor = Executor(self.registry, ResultCache(cache_bytes), is_spare=is_spare)
        root = folder or Path(tempfile.gettempdir())
        self.files = Folders(root / "input", root / "output", root / "temp")

    async def run(
        self,
        document: Mapping[str, Any],
        targets: Iterable[str] | None = None,
        stop: Stop | None = None,
        hidden: Mapping[str, Any] | None = None,
    ) -> Seen:
        """Validate a graph and execute it."""
        validated = await validate(read_graph(document), self.registry, targets)
        events: list[Event] = []
        work = Work(validated.graph, validated.outputs, self.files, hidden or {})
        outcome = await self.executor.run(work, events.append, stop)
        assert events[-1] == outcome.ending
        return Seen(outcome, events)


def n(class_type: str, **inputs: Any) -> dict[str, Any]:
    """A node of a graph; two underscores stand for a dot."""
    return {"class_type": class_type, "inputs": {name.replace("__", "."): value for name, value in inputs.items()}}


def chain(length: int) -> dict[str, Any]:
    """A number, so many additions of one, and a node that shows the sum: `show`."""
    graph = {"0": n("Number", value=0)}
    graph |= {str(index): n("Add", a=[str(index - 1), 0], b=1) for index in range(1, length + 1)}
    return graph | {"show": n("Show", value=[str(length), 0])}
