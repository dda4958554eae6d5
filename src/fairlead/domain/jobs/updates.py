"""What who watches one job is told, piece by piece, and its log (J-13)."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from fairlead.domain.jobs.events import (
    Cached,
    Event,
    Executed,
    Failed,
    Interrupted,
    Preview,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.domain.jobs.jobs import Job
from fairlead.domain.jobs.outputs import JobOutput
from fairlead.domain.jobs.progress import ProgressReport

Level: TypeAlias = Literal["info", "warning", "error"]


class LogLine(msgspec.Struct, frozen=True):
    """A line of the log of a job; the time is in ms since 1970."""

    level: Level
    message: str
    at: int


class StatusUpdate(msgspec.Struct, frozen=True):
    """How the job stands now, and how many wait before it; None for a job that waits no more."""

    job: Job
    ahead: int | None


class ProgressUpdate(msgspec.Struct, frozen=True):
    """How far the job is now; `message` is the last word of its nodes."""

    progress: ProgressReport
    message: str | None = None


class OutputUpdate(msgspec.Struct, frozen=True):
    """Something that the job has made."""

    output: JobOutput


Update: TypeAlias = StatusUpdate | ProgressUpdate | OutputUpdate | LogLine | Preview


def log_line(event: Event, at: int) -> LogLine | None:  # noqa: PLR0911 -- one table, a row an event
    """What the log says of an event; None where it says nothing."""
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
