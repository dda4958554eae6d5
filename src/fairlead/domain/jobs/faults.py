"""Why something that was asked about jobs cannot be done, as data; each surface words them in its own envelope.

Faults that jobs share with everything else (no credential, the database is away) are those of `domain/faults.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class InvalidWorkflow:
    """The workflow cannot be executed: `type`, `message`, `details` and `extra_info` of `error`, and faults by node."""

    error: Mapping[str, Any]
    node_errors: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadSubmission:
    """What was submitted around the workflow cannot be used: which part of it, and why."""

    type: str
    message: str


@dataclass(frozen=True, slots=True)
class DuplicateJob:
    """The caller chose an id for the job that is in use."""

    job_id: str


@dataclass(frozen=True, slots=True)
class SubscriptionInactive:
    """The workspace's subscription allows no job at all (C-13)."""

    subscription: str


@dataclass(frozen=True, slots=True)
class JobQueueFull:
    """Too many jobs of the workspace wait already."""

    limit: int
    retry_after: int = 10


@dataclass(frozen=True, slots=True)
class JobNotFound:
    """The workspace has no such job; one of another workspace cannot be told from one there never was."""

    job_id: str


@dataclass(frozen=True, slots=True)
class FileNotFound:
    """The workspace has no such file."""

    name: str


@dataclass(frozen=True, slots=True)
class FileExists:
    """A file that was not to be replaced is there already."""

    name: str


@dataclass(frozen=True, slots=True)
class BadFile:
    """A file that was sent cannot be used: what is wrong with it."""

    detail: str


@dataclass(frozen=True, slots=True)
class FileTooLarge:
    """More bytes were sent than a file may have."""

    limit: int


@dataclass(frozen=True, slots=True)
class EngineUnavailable:
    """No engine host answers right now."""

    retry_after: int = 5


JobFault: TypeAlias = (
    InvalidWorkflow
    | BadSubmission
    | DuplicateJob
    | SubscriptionInactive
    | JobQueueFull
    | JobNotFound
    | FileNotFound
    | FileExists
    | BadFile
    | FileTooLarge
    | EngineUnavailable
)


class JobFaultError(Exception):
    """Carries a fault to the surface that answers."""

    def __init__(self, fault: JobFault) -> None:
        super().__init__(type(fault).__name__)
        self.fault = fault
