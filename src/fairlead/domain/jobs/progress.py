"""How far a job is: counted from its events, and kept so that it can be asked for at any time (J-13)."""

import msgspec

from fairlead.domain.jobs.events import Cached, Event, Executing, Finished, Progress


class ProgressReport(msgspec.Struct, frozen=True):
    """How far a job is: nodes that are done of those there are, and the node that is executed, with its own steps."""

    nodes_done: int
    nodes_total: int
    current_node: str | None = None
    step: float | None = None
    steps: float | None = None


class ProgressCount:
    """Counts a job's progress. Nodes that others put in their places are not counted: nobody knows how many come."""

    def __init__(self, nodes_total: int) -> None:
        self._total = nodes_total
        self._done: set[str] = set()
        self._current: str | None = None
        self._step: tuple[float, float] | None = None

    def note(self, event: Event) -> None:
        """Take note of an event."""
        match event:
            case Cached(nodes=nodes):
                self._done.update(nodes)
            case Executing(place=place):
                self._current, self._step = place.node, None
            case Progress(place=place, value=value, most=most):
                self._current, self._step = place.node, (value, most)
            case Finished(place=place):
                if place.parent is None:
                    self._done.add(place.node)
                if self._current == place.node:
                    self._current, self._step = None, None
            case _:
                pass

    def report(self) -> ProgressReport:
        """How far the job is now."""
        step, steps = self._step or (None, None)
        return ProgressReport(min(len(self._done), self._total), self._total, self._current, step, steps)
