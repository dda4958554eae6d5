"""Why something that was asked about jobs cannot be done, as data; each API words them in its own envelope.

Faults that jobs share with everything else (no credential, the database is away) are those of `domain/faults.py`.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec


class InvalidWorkflow(msgspec.Struct, frozen=True):
    """The workflow cannot be executed: `type`, `message`, `details` and `extra_info` of `error`, and faults by node.

    `missing` are the names it has of files that there are not.
    """

    error: Mapping[str, object]
    node_errors: Mapping[str, object] = msgspec.field(default_factory=dict)
    missing: frozenset[str] = frozenset()


class BadSubmission(msgspec.Struct, frozen=True):
    """What was submitted around the workflow cannot be used: which part of it, and why."""

    type: str
    message: str


class DuplicateJob(msgspec.Struct, frozen=True):
    """The caller chose an id for the job by which another one of the workspace is known."""

    public_id: str


class SubscriptionInactive(msgspec.Struct, frozen=True):
    """The workspace's subscription allows no job at all (C-13)."""

    subscription: str


class JobQueueFull(msgspec.Struct, frozen=True):
    """Too many jobs of the workspace wait already."""

    limit: int
    retry_after: int = 10


class JobNotFound(msgspec.Struct, frozen=True):
    """The workspace has no such job; one of another workspace cannot be told from one there never was."""

    job_id: str


class FileNotFound(msgspec.Struct, frozen=True):
    """The workspace has no such file."""

    name: str


class FileExists(msgspec.Struct, frozen=True):
    """A file that was not to be replaced is there already."""

    name: str


class BadFile(msgspec.Struct, frozen=True):
    """A file that was sent cannot be used: what is wrong with it."""

    detail: str


class FileTooLarge(msgspec.Struct, frozen=True):
    """More bytes were sent than a file may have."""

    limit: int


class TooManyUploads(msgspec.Struct, frozen=True):
    """As many files as the workspace's share are being received already, and none was done in time."""

    retry_after: int = 10


class StorageFull(msgspec.Struct, frozen=True):
    """The workspace keeps as many bytes, or files, as it may (S-09)."""

    what: Literal["bytes", "files"]
    limit: int


class EngineUnavailable(msgspec.Struct, frozen=True):
    """No engine host answers right now."""

    retry_after: int = 5


class SubmissionRefused(msgspec.Struct, frozen=True):
    """The workflow cannot be made a job: the code callers know it by, and what is wrong, node by node (J-08)."""

    code: Literal["invalid_workflow", "missing_asset"]
    message: str
    details: Mapping[str, Any] = msgspec.field(default_factory=dict)


class BadLabels(msgspec.Struct, frozen=True):
    """The labels of a submission break a rule; `key` is that of the one that does, None where it is their number."""

    detail: str
    key: str | None = None


class IdempotencyKeyUsed(msgspec.Struct, frozen=True):
    """A job was submitted with this key before; the key is kept for a while, and names no other job (J-12)."""


class BadFilter(msgspec.Struct, frozen=True):
    """A list was asked for by labels that no job can have, or by too many (J-04)."""

    detail: str


class BadCursor(msgspec.Struct, frozen=True):
    """A list was asked to go on at what is no position (J-03)."""


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
