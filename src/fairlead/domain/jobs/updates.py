"""Updates for watchers of one job, its progress and its log (J-13)."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from fairlead.domain.jobs.events import (
    Cached,
    Event,
    Executed,
    Executing,
    Failed,
    Finished,
    Interrupted,
    Place,
    Preview,
    Progress,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.domain.jobs.jobs import Job
from fairlead.domain.jobs.outputs import JobOutput

_RUNNING_MAX: Final = 8
"""How many executing nodes are stored with the progress of their job."""
Level: TypeAlias = Literal["info", "warning", "error"]


class ProgressReport(msgspec.Struct, frozen=True):
    """The progress of a job: nodes that are done, of how many, and the node that is executed, with its own steps."""

    nodes_done: int
    nodes_total: int
    current_node: str | None = None
    step: float | None = None
    steps: float | None = None


class StoredProgress(ProgressReport, frozen=True):
    """The progress of a job as it is stored, with the newest of the executing nodes, which other servers show."""

    running: Sequence[Place] = ()


class ProgressCount:
    """Counts a job's progress. Nodes that replace others are not counted, because their number is not known before."""

    def __init__(self, nodes_total: int) -> None:
        self._total = nodes_total
        self._done: set[str] = set()
        self._running: dict[str, Place] = {}
        self._current: str | None = None
        self._step: tuple[float, float] | None = None

    def note(self, event: Event) -> None:
        """Take note of an event."""
        match event:
            case Cached(nodes=nodes):
                self._done.update(nodes)
            case Executing(place=place):
                self._current, self._step = place.node, None
                self._running.pop(place.node, None)
                self._running[place.node] = place
            case Progress(place=place, value=value, most=most):
                self._current, self._step = place.node, (value, most)
            case Finished(place=place):
                self._running.pop(place.node, None)
                if place.parent is None:
                    self._done.add(place.node)
                if self._current == place.node:
                    self._current, self._step = None, None
            case _:
                pass

    def report(self) -> StoredProgress:
        """The progress of the job now."""
        step, steps = self._step or (None, None)
        done, running = min(len(self._done), self._total), list(self._running.values())
        return StoredProgress(done, self._total, self._current, step, steps, running[-_RUNNING_MAX:])


class LogLine(msgspec.Struct, frozen=True):
    """A line of the log of a job; the time is in ms since 1970."""

    level: Level
    message: str
    at: int


class StatusUpdate(msgspec.Struct, frozen=True):
    """The state of the job now, and how many wait before it; None for a job that no longer waits."""

    job: Job
    ahead: int | None


class ProgressUpdate(msgspec.Struct, frozen=True):
    """The progress of the job now; `message` is the last text of its nodes about their progress."""

    progress: ProgressReport
    message: str | None = None


class OutputUpdate(msgspec.Struct, frozen=True):
    """An output of the job."""

    output: JobOutput


Update: TypeAlias = StatusUpdate | ProgressUpdate | OutputUpdate | LogLine | Preview


def log_line(event: Event, at: int) -> LogLine | None:  # noqa: PLR0911 -- one table, a row an event
    """The log's line for an event; None for an event without one."""
    match event:
        case Started():
            return LogLine("info", "The execution has begun.", at)
        case Cached(nodes=nodes) if nodes:
            return LogLine("info", f"The results of {_nodes(nodes)} are known already.", at)
        case Executed(place=place):
            return LogLine("info", f"Node {place.node} has something to show.", at)
        case Stopped(place=place, node_type=node_type, message=message):
            return LogLine("warning", f"Node {place.node} ({node_type}) was not executed: {message}", at)
        case Succeeded():
            return LogLine("info", "The execution has succeeded.", at)
        case Failed(failure=failure):
            where = f"Node {failure.place.node} ({failure.node_type})" if failure.place.node else "The execution"
            return LogLine("error", f"{where} has failed: {failure.exception_type}: {failure.message}", at)
        case Interrupted():
            return LogLine("warning", "The execution was canceled.", at)
        case _:
            return None


def _nodes(nodes: Sequence[str]) -> str:
    return f"node {nodes[0]}" if len(nodes) == 1 else f"{len(nodes)} nodes"
