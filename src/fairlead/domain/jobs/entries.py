"""The entries that are written about jobs, each with everything it needs. Times are in ms since 1970."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from fairlead.domain.accounts.rights import Actor
from fairlead.domain.accounts.storage_limits import UNLIMITED, StorageLimits
from fairlead.domain.deployments import DeploymentFault, Placement
from fairlead.domain.faults import Fault
from fairlead.domain.jobs.faults import JobFault, StorageFull
from fairlead.domain.jobs.jobs import JobDocuments
from fairlead.domain.jobs.states import JobState, JobTransition
from fairlead.domain.work.entries import Claim, Release, Superseded, TakeOver
from fairlead.domain.work.pools import DEFAULT_POOL


class NewEvent(msgspec.Struct, frozen=True):
    """An event to be stored: `number` counts those of its job from 1."""

    number: int
    kind: str
    data: bytes
    at: int


class Submission(msgspec.Struct, frozen=True):
    """A job to be submitted: it takes a slot of its workspace, waits for one, or is refused.

    With a `server_id` it is claimed by that server at once where a slot is free. `wanted` is a JSON array of output
    nodes, `backlog` how many jobs of the workspace may wait. An `idempotency_id` is used by at most one job until
    `idempotency_until`. `files` are the ids of those that must not be deleted while the job lives. With a `placement`
    the job was sent to a deployment, which must still take jobs. `job_id` is new; no job of the workspace may be known
    by the `chosen_id`. A workspace that has no room left below its `storage` limits submits none. `workflow` and
    `extra` are deflated; where they are large, both are empty objects, and `documents` is the blob that holds them. The
    servers of its `pool` execute it. One that `is_repeated` may have been written before, which then stands.
    """

    job_id: str
    workspace_id: str
    workflow: bytes
    extra: bytes
    wanted: str
    nodes: int
    created_at: int
    backlog: int
    key_id: str | None = None
    partner_key_id: str | None = None
    server_id: str | None = None
    labels: Mapping[str, str] = {}
    idempotency_id: str | None = None
    idempotency_until: int = 0
    files: Sequence[str] = ()
    placement: Placement | None = None
    chosen_id: str | None = None
    storage: StorageLimits = UNLIMITED
    documents: JobDocuments | None = None
    pool: str = DEFAULT_POOL
    is_repeated: bool = False


class JobProgress(msgspec.Struct, frozen=True):
    """The progress of a job that is executed, and its events since the last entry."""

    job_id: str
    workspace_id: str
    attempt: int
    progress: str
    events: Sequence[NewEvent]
    at: int


class JobEnding(msgspec.Struct, frozen=True):
    """The end of a job: the state it ends in, the outputs of its nodes, why it failed, its last events.

    It is forgotten at `expires_at`; the files of earlier jobs that it has `shown_again`, by kind and name, not before
    that. A job that was cancelled while it succeeded has succeeded; one that was cancelled and went on for too long has
    failed.
    """

    job_id: str
    workspace_id: str
    attempt: int
    state: JobState
    outputs: bytes | None
    failure: bytes | None
    progress: str
    events: Sequence[NewEvent]
    at: int
    expires_at: int
    shown_again: Sequence[tuple[str, str]] = ()


class JobCancel(msgspec.Struct, frozen=True):
    """A job is to be cancelled: one that waits ends at once, for one that is executed the request is recorded.

    `only` names the states it may be found in. The `cause` is the caller's `cancel`, or `expire`, or `abandon` with its
    `failure` as JSON. The audit log says that it was done `by` somebody who administers; None for its submitter, and
    for what no person does.
    """

    job_id: str
    workspace_id: str
    at: int
    expires_at: int
    only: frozenset[JobState] | None = None
    cause: JobTransition = JobTransition.CANCEL
    failure: bytes | None = None
    by: Actor | None = None


JobEntry: TypeAlias = Submission | Claim | JobProgress | JobEnding | JobCancel | TakeOver | Release


class Submitted(msgspec.Struct, frozen=True):
    """The job is durable: its number and its state."""

    number: int
    state: JobState


class Claimed(msgspec.Struct, frozen=True):
    """The job belongs to the claiming server, for this attempt; `events` were stored by earlier ones.

    Where the subscription `is_inactive` by now, the job is not to be executed. `crashes` is how many earlier attempts
    ended because their server fell silent.
    """

    attempt: int
    events: int
    is_inactive: bool = False
    crashes: int = 0


class Moved(msgspec.Struct, frozen=True):
    """The job is in this state now; callers know it by its `public_id`, and `server_id` has it executed."""

    state: JobState
    public_id: str
    server_id: str | None = None


JobVerdict: TypeAlias = (
    Submitted | Claimed | Moved | Superseded | Fault | JobFault | StorageFull | DeploymentFault | None
)
