"""A job as it is submitted, kept and read. Times are in ms since 1970; JSON is kept as bytes until it is needed."""

from collections.abc import Mapping, Sequence

import msgspec

from fairlead.domain.accounts.key_terms import Address
from fairlead.domain.deployments import PackSet, Placement
from fairlead.domain.jobs.states import JobState
from fairlead.domain.work.entries import DocumentBlob


class NewJob(msgspec.Struct, frozen=True):
    """A workflow as a caller submits it to any of the APIs.

    `workflow` is the graph and `extra` the data sent with it, without keys; both are JSON objects. `partner_key` is the
    key that pays for partner nodes, as it was sent from `partner_address`. `chosen_id` is the public id the caller
    chose, `targets` are the wanted output nodes, None for all. One that `is_strict` is refused if any output cannot be
    made. `labels` are stored unchanged. With an `idempotency_key`, no other job can be submitted for a while. `files`
    are the ids of those it names by id. With a `placement` it was sent to a deployment.
    """

    workflow: bytes
    extra: bytes = b"{}"
    partner_key: str | None = None
    partner_address: Address | None = None
    chosen_id: str | None = None
    targets: Sequence[str] | None = None
    is_strict: bool = False
    labels: Mapping[str, str] = {}
    idempotency_key: str | None = None
    files: Sequence[str] = ()
    placement: Placement | None = None


class SubmittedJob(msgspec.Struct, frozen=True):
    """A durable job: its public id, its number in its workspace, and what is wrong with outputs that were left out.

    `node_errors` is a JSON object of faults by node (engine-wire, 2.1).
    """

    public_id: str
    number: int
    node_errors: bytes = b"{}"


class JobDocuments(msgspec.Struct, frozen=True):
    """The blob that holds a job's workflow and then its `extra`, where they are large together."""

    blob: DocumentBlob
    workflow_size: int


class Job(msgspec.Struct, frozen=True):
    """A stored job. `id` is its own; callers know it by its public one, and never see the other.

    `workflow` and `extra` are None where they were not asked for, or are still in the blob of `documents`. `outputs` is
    a JSON object of the outputs of nodes, `{node: {"ui": {...}, "place": Place}}`; `failure` is JSON of a `Failure`, or
    of an `Interrupted`. `labels` is JSON of an object of texts, None for none.
    """

    id: str
    workspace_id: str
    number: int
    state: JobState
    attempt: int
    wanted: Sequence[str]
    nodes: int
    created_at: int
    updated_at: int
    started_at: int | None = None
    finished_at: int | None = None
    workflow: bytes | None = None
    extra: bytes | None = None
    outputs: bytes | None = None
    failure: bytes | None = None
    progress: str | None = None
    key_id: str | None = None
    partner_key_id: str | None = None
    labels: str | None = None
    expires_at: int | None = None
    deployment_id: str | None = None
    release_version: int | None = None
    chosen_id: str | None = None
    documents: JobDocuments | None = None

    @property
    def public_id(self) -> str:
        """The id that callers use: the one its submitter chose, or else its own. Unique within its workspace (C-04)."""
        return self.chosen_id or self.id


class JobLifetime(msgspec.Struct, frozen=True):
    """How long a job may wait, how long it may be executed, and for how long an ended one is kept, in ms."""

    waits: int
    runs: int
    kept: int

    def end_of(self, job: Job) -> int:
        """When a job expires; for one that has not ended, the latest time at which it can."""
        return job.created_at + self.waits + self.runs + self.kept if job.expires_at is None else job.expires_at


class StoredEvent(msgspec.Struct, frozen=True):
    """An event of a job as it is stored: its kind, the event as JSON, and its time."""

    number: int
    kind: str
    data: bytes
    at: int


class JobQuery(msgspec.Struct, frozen=True):
    """A query for jobs of a workspace.

    `after` is the number of the job after which it continues. If it `is_whole`, jobs are read with their documents.
    """

    states: frozenset[JobState] | None = None
    limit: int = 100
    offset: int = 0
    is_newest_first: bool = True
    after: int | None = None
    is_whole: bool = False


class LiveJob(msgspec.Struct, frozen=True):
    """A job that a server has claimed: what its execution needs. `events` were stored by earlier attempts.

    The server uses its own `id` for everything; watchers get the public one. A job with a `start_blocker`, a kind of
    error (domain/jobs/errors.py), is ended with it instead of being executed. `packs` are the node packs with which it
    is executed. `run_labels` are those of the runs that its nodes begin, as JSON; None for none.
    """

    id: str
    public_id: str
    workspace_id: str
    attempt: int
    workflow: bytes
    extra: bytes
    wanted: Sequence[str]
    nodes: int
    created_at: int
    started_at: int
    partner_key_id: str | None = None
    events: int = 0
    start_blocker: str | None = None
    packs: PackSet = None
    run_labels: str | None = None
