"""The states of a job, as a table (drawn in docs/states.md).

The five statuses of the cloud API and the seven of the jobs API are derived from them.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from fairlead.domain.work.states import StateMachine


class JobState(enum.StrEnum):
    """The state of a job."""

    PARKED = "parked"
    """Submitted; waits for one of the parallel jobs of its workspace's subscription to end."""
    RELEASED = "released"
    """Has a slot of its workspace; waits for an engine host."""
    RUNNING = "running"
    """A server executes it."""
    CANCELING = "canceling"
    """It is executed, and its cancellation was requested."""
    SUCCEEDED = "succeeded"
    """Every output that could be made was made."""
    FAILED = "failed"
    """A node could not be executed, its engine host died, or its deployment was deleted before it was executed."""
    CANCELED = "canceled"
    """It was cancelled, before or while it was executed."""
    EXPIRED = "expired"
    """It has waited for too long and was never executed, or it was executed for too long."""


class JobTransition(enum.StrEnum):
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
"""Claimed: a server executes it, or it is taken over."""
LIVE: Final = WAITING | WORKING
"""Not ended. All but the parked occupy a slot of their workspace."""

TRANSITIONS: Final[Mapping[tuple[JobState, JobTransition], JobState]] = MappingProxyType(
    {
        (JobState.PARKED, JobTransition.RELEASE): JobState.RELEASED,
        (JobState.PARKED, JobTransition.CANCEL): JobState.CANCELED,
        (JobState.PARKED, JobTransition.EXPIRE): JobState.EXPIRED,
        (JobState.PARKED, JobTransition.ABANDON): JobState.FAILED,
        (JobState.RELEASED, JobTransition.CLAIM): JobState.RUNNING,
        (JobState.RELEASED, JobTransition.CANCEL): JobState.CANCELED,
        (JobState.RELEASED, JobTransition.EXPIRE): JobState.EXPIRED,
        (JobState.RELEASED, JobTransition.ABANDON): JobState.FAILED,
        (JobState.RUNNING, JobTransition.CANCEL): JobState.CANCELING,
        (JobState.RUNNING, JobTransition.SUCCEED): JobState.SUCCEEDED,
        (JobState.RUNNING, JobTransition.FAIL): JobState.FAILED,
        (JobState.RUNNING, JobTransition.EXPIRE): JobState.EXPIRED,
        (JobState.RUNNING, JobTransition.ABANDON): JobState.CANCELING,
        (JobState.RUNNING, JobTransition.TAKE_OVER): JobState.RELEASED,
        (JobState.CANCELING, JobTransition.STOP): JobState.CANCELED,
        (JobState.CANCELING, JobTransition.SUCCEED): JobState.SUCCEEDED,
        (JobState.CANCELING, JobTransition.FAIL): JobState.FAILED,
        (JobState.CANCELING, JobTransition.EXPIRE): JobState.FAILED,
        (JobState.CANCELING, JobTransition.TAKE_OVER): JobState.CANCELED,
    }
)


_MACHINE: Final = StateMachine("job", TRANSITIONS)
advance: Final = _MACHINE.advance
states_before: Final = _MACHINE.states_before


JobStatus: TypeAlias = Literal["queued", "running", "succeeded", "canceling", "canceled", "failed", "expired"]

STATUSES: Final[Mapping[JobState, JobStatus]] = MappingProxyType(
    {
        JobState.PARKED: "queued",
        JobState.RELEASED: "queued",
        JobState.RUNNING: "running",
        JobState.CANCELING: "canceling",
        JobState.SUCCEEDED: "succeeded",
        JobState.FAILED: "failed",
        JobState.CANCELED: "canceled",
        JobState.EXPIRED: "expired",
    }
)
