"""Why a request about jobs fails, as data; each API puts these into its own envelope.

Faults that jobs share with everything else (no credential, the database is away) are those of `domain/faults.py`.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec


class InvalidWorkflow(msgspec.Struct, frozen=True):
    """The workflow cannot be executed: `type`, `message`, `details` and `extra_info` of `error`, and faults by node.

    `missing` are the names of files in it that do not exist.
    """

    error: Mapping[str, object]
    node_errors: Mapping[str, object] = msgspec.field(default_factory=dict)
    missing: frozenset[str] = frozenset()


class BadSubmission(msgspec.Struct, frozen=True):
    """A part of a submission other than the workflow cannot be used: which part, and why."""

    type: str
    message: str


class DuplicateJob(msgspec.Struct, frozen=True):
    """The caller chose an id for the job that another one of the workspace has."""

    public_id: str


class SubscriptionInactive(msgspec.Struct, frozen=True):
    """The workspace's subscription allows no job at all (C-13)."""

    subscription: str


class JobQueueFull(msgspec.Struct, frozen=True):
    """Too many jobs of the workspace wait already."""

    limit: int
    retry_after: int = 10


class JobNotFound(msgspec.Struct, frozen=True):
    """The workspace has no such job; one of another workspace looks like one that never existed."""

    job_id: str


class FileNotFound(msgspec.Struct, frozen=True):
    """The workspace has no such file."""

    name: str


class FileExists(msgspec.Struct, frozen=True):
    """A file exists already, and was not to be replaced."""

    name: str


class BadFile(msgspec.Struct, frozen=True):
    """A file that was sent cannot be used: what is wrong with it."""

    detail: str


class FileTooLarge(msgspec.Struct, frozen=True):
    """More bytes were sent than a file may have."""

    limit: int


class TooManyUploads(msgspec.Struct, frozen=True):
    """The workspace already sends as many files as its share allows, and none was complete in time."""

    retry_after: int = 10


class StorageFull(msgspec.Struct, frozen=True):
    """The workspace keeps as many bytes, or files, as it may (S-09)."""

    what: Literal["bytes", "files"]
    limit: int


class EngineUnavailable(msgspec.Struct, frozen=True):
    """No engine host answers right now."""

    retry_after: int = 5


class SubmissionRefused(msgspec.Struct, frozen=True):
    """The workflow cannot become a job: the code for callers, and what is wrong, node by node (J-08)."""

    code: Literal["invalid_workflow", "missing_asset"]
    message: str
    details: Mapping[str, Any] = msgspec.field(default_factory=dict)


class BadLabels(msgspec.Struct, frozen=True):
    """The labels of a submission break a rule; `key` is that of the label that does, None where there are too many."""

    detail: str
    key: str | None = None


class IdempotencyKeyUsed(msgspec.Struct, frozen=True):
    """A job was submitted with this key before; the key is kept for a while, and names no other job (J-12)."""


class BadFilter(msgspec.Struct, frozen=True):
    """A list was asked for by labels that no job can have, or by too many (J-04)."""

    detail: str


class BadCursor(msgspec.Struct, frozen=True):
    """A list was asked for with a bad cursor (J-03)."""


class TooManyStreams(msgspec.Struct, frozen=True):
    """The account watches as many jobs at this server as it may."""

    limit: int
    retry_after: int = 5


FileFault: TypeAlias = FileNotFound | FileExists | BadFile | FileTooLarge | TooManyUploads | StorageFull
JobFault: TypeAlias = (
    InvalidWorkflow
    | SubmissionRefused
    | BadLabels
    | IdempotencyKeyUsed
    | BadFilter
    | BadCursor
    | TooManyStreams
    | BadSubmission
    | DuplicateJob
    | SubscriptionInactive
    | JobQueueFull
    | JobNotFound
    | FileFault
    | EngineUnavailable
)


class JobFaultError(Exception):
    """Carries a fault to the API that answers it."""

    def __init__(self, fault: JobFault) -> None:
        super().__init__(type(fault).__name__)
        self.fault = fault
