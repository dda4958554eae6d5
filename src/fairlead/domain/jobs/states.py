"""The states of a job, as a table (drawn in docs/states.md).

The five values of the cloud API and the seven of the jobs API are views of them.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class JobState(enum.StrEnum):
    """Where a job is."""

    PARKED = "parked"
    """Submitted; waits for one of the parallel jobs of its workspace's subscription to end."""
    RELEASED = "released"
    """Has a slot of its workspace; waits for an engine host."""
    RUNNING = "running"
    """A server has it executed."""
    CANCELING = "canceling"
    """It is executed and not wanted any more."""
    SUCCEEDED = "succeeded"
    """Everything that could be made was."""
    FAILED = "failed"
    """A node could not be executed, its engine host died, or its deployment was deleted before it was executed."""
    CANCELED = "canceled"
    """It was not wanted any more, and is not executed any more, or never was."""
    EXPIRED = "expired"
    """It has waited for too long, and never was executed; or it was executed for too long."""


class JobEvent(enum.StrEnum):
    """What can happen to a job."""

    RELEASE = "release"
    CLAIM = "claim"
    CANCEL = "cancel"
    SUCCEED = "succeed"
    FAIL = "fail"
    STOP = "stop"
    EXPIRE = "expire"
    ABANDON = "abandon"
    TAKE_OVER = "take_over"


WAITING: Final = frozenset({JobState.PARKED, JobState.RELEASED})
"""Submitted, and claimed by no server."""
WORKING: Final = frozenset({JobState.RUNNING, JobState.CANCELING})
"""Somebody's: a server has it executed, or it is taken over."""
LIVE: Final = WAITING | WORKING
"""Not ended. All but the parked occupy a slot of their workspace."""

TRANSITIONS: Final[Mapping[tuple[JobState, JobEvent], JobState]] = MappingProxyType(
    {
        (JobState.PARKED, JobEvent.RELEASE): JobState.RELEASED,
        (JobState.PARKED, JobEvent.CANCEL): JobState.CANCELED,
        (JobState.PARKED, JobEvent.EXPIRE): JobState.EXPIRED,
        (JobState.PARKED, JobEvent.ABANDON): JobState.FAILED,
        (JobState.RELEASED, JobEvent.CLAIM): JobState.RUNNING,
        (JobState.RELEASED, JobEvent.CANCEL): JobState.CANCELED,
        (JobState.RELEASED, JobEvent.EXPIRE): JobState.EXPIRED,
        (JobState.RELEASED, JobEvent.ABANDON): JobState.FAILED,
        (JobState.RUNNING, JobEvent.CANCEL): JobState.CANCELING,
        (JobState.RUNNING, JobEvent.SUCCEED): JobState.SUCCEEDED,
        (JobState.RUNNING, JobEvent.FAIL): JobState.FAILED,
        (JobState.RUNNING, JobEvent.EXPIRE): JobState.EXPIRED,
        (JobState.RUNNING, JobEvent.ABANDON): JobState.CANCELING,
        (JobState.RUNNING, JobEvent.TAKE_OVER): JobState.RELEASED,
        (JobState.CANCELING, JobEvent.STOP): JobState.CANCELED,
        (JobState.CANCELING, JobEvent.SUCCEED): JobState.SUCCEEDED,
        (JobState.CANCELING, JobEvent.FAIL): JobState.FAILED,
        (JobState.CANCELING, JobEvent.EXPIRE): JobState.FAILED,
        (JobState.CANCELING, JobEvent.TAKE_OVER): JobState.CANCELED,
    }
)


class IllegalJobMoveError(Exception):
    """An event arrived in a state that has no place for it: a programmer's error, never the caller's."""


def advance(state: JobState, event: JobEvent) -> JobState:
    """Follow the table; IllegalJobMoveError where it has no row."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalJobMoveError(f"a job that is {state} cannot {event}") from None


def states_before(event: JobEvent) -> tuple[JobState, ...]:
    """The states an event may find a job in: what storage repeats in its WHERE."""
    return tuple(state for state, possible in TRANSITIONS if possible is event)
