"""The seven statuses of the jobs API, which are views of the states (J-06)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from fairlead.domain.jobs.states import JobState

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
