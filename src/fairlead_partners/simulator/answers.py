"""What many vendors' answers have in common: a status for each kind of problem, times, and how a task ended."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

from .tasks import Task
from .vendor import Problem, ProblemKind, Reply, json_reply

Rejection = Literal["refused", "refused-output", "failed"]

_USUAL: Mapping[ProblemKind, int] = {
    "unauthorized": 401,
    "invalid": 400,
    "not_found": 404,
    "rate_limited": 429,
    "refused": 400,
    "refused_output": 400,
}


def error_reply(problem: Problem, body: object, statuses: Mapping[ProblemKind, int] | None = None) -> Reply:
    """Make an error answer: the problem's own status, else the vendor's, else the usual one, else 500."""
    return json_reply(status_of(problem, statuses), body, *retry_headers(problem))


def status_of(problem: Problem, statuses: Mapping[ProblemKind, int] | None = None) -> int:
    """Return the status a problem is answered with."""
    return problem.status or {**_USUAL, **(statuses or {})}.get(problem.kind, 500)


def retry_headers(problem: Problem) -> tuple[tuple[str, str], ...]:
    """Return `Retry-After` when the problem says when to come back."""
    return (("retry-after", problem.retry_after),) if problem.retry_after else ()


def words_of(problem: Problem, words: Mapping[ProblemKind, str]) -> str:
    """Return the vendor's words for the kind of problem, or else those of the problem."""
    return words.get(problem.kind) or problem.message or "Something went wrong."


def rejection(task: Task) -> Rejection | None:
    """Tell how a task went wrong, or None when it went well or did not end yet."""
    if task.stage == "ended":
        names: tuple[Rejection, ...] = ("refused", "refused-output", "failed")
        for name in names:
            if task.has(name):
                return name
    return None


def identifier() -> str:
    """Return a new UUID."""
    return str(uuid.uuid4())


def stamp(seconds: float) -> str:
    """Write a wall clock's time as vendors do: ISO 8601 in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
