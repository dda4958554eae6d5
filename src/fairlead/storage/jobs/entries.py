"""How a batch of job entries becomes rows, all or nothing: jobs, their events, and the slots of their workspaces.

Workspaces are locked first, in the order of their ids, and a workspace's jobs change only under its lock. So a slot is
given by the transaction that frees it, and a number is given once.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from sqlalchemy import Connection, bindparam, func, insert, select, update

from fairlead.domain.accounts.rights import Actor
from fairlead.domain.accounts.storage_limits import StorageUsage
from fairlead.domain.deployments import DeploymentFault, DeploymentNotFound, DeploymentState, refuse_job
from fairlead.domain.jobs.entries import (
    Claimed,
    JobCancel,
    JobEnding,
    JobEntry,
    JobProgress,
    JobVerdict,
    Moved,
    NewEvent,
    Submission,
    Submitted,
)
from fairlead.domain.jobs.faults import (
    DuplicateJob,
    IdempotencyKeyUsed,
    JobFault,
    JobQueueFull,
    StorageFull,
    SubscriptionInactive,
)
from fairlead.domain.jobs.states import LIVE, WAITING, WORKING, JobState, JobTransition, advance, states_before
from fairlead.domain.work.entries import Claim, Release, Released, Superseded, TakeOver
from fairlead.domain.work.pools import DEFAULT_POOL
from fairlead.storage.accounts.audit_log import Act, record_acts
from fairlead.storage.assets.files import INSERT_NEEDED, FileExpiry, extend_expiries
from fairlead.storage.db.statements import Prepared, PreparedInsert, PreparedLookup
from fairlead.storage.db.tables import deployments, job_events, jobs, workspaces
from fairlead.storage.jobs.documents import count_documents, document_columns, refuse_documents, usage_before
from fairlead.storage.jobs.ids import INSERT_KEY, find_known_as, used_keys
from fairlead.storage.jobs.labels import LabelIndex, add_to_index, index_job
from fairlead.storage.work.changes import LockedWork, RowChanges, WorkRows
from fairlead.storage.work.journal import Journal, WrittenWork
from fairlead.storage.work.table import in_state

_Row: TypeAlias = tuple[Any, ...]
_OfAJob: TypeAlias = Claim | JobProgress | JobEnding | JobCancel | TakeOver
UNLIMITED: Final = -1
INACTIVE: Final = 0
_ENDINGS: Final = {
    JobState.SUCCEEDED: JobTransition.SUCCEED,
    JobState.FAILED: JobTransition.FAIL,
    JobState.CANCELED: JobTransition.STOP,
    JobState.EXPIRED: JobTransition.EXPIRE,
}
_GIVEN_UP: Final = {
    JobTransition.CANCEL: frozenset(states_before(JobTransition.CANCEL)),
    JobTransition.EXPIRE: frozenset(states_before(JobTransition.EXPIRE)) & WAITING,
    JobTransition.ABANDON: frozenset(states_before(JobTransition.ABANDON)),
}
"""Only the server that executes a job can end it for taking too long, with a JobEnding."""
_RELEASED_AT_ONCE: Final = 256


class WrittenJobs(WrittenWork[JobVerdict], frozen=True):
    """The outcome of a batch; and of each workspace whose queue it has changed, how many jobs wait or are executed."""

    remaining: Mapping[str, int] = {}


JobJournal: TypeAlias = Journal[JobEntry, WrittenJobs, JobVerdict]


class _Slots(msgspec.Struct):
    """The slots of a workspace as the entries leave them."""

    limit: int
    active: int
    parked: int
    last: int
    subscription: str

    @property
    def free(self) -> int:
        """How many jobs may take a slot. All may in an inactive workspace: they are claimed in order to be ended."""
        if self.limit in (UNLIMITED, INACTIVE):
            return _RELEASED_AT_ONCE
        return max(0, self.limit - self.active)

    @property
    def has_room(self) -> bool:
        """Whether a job that is submitted now need not wait behind others."""
        return self.parked == 0 and self.free > 0


class _LockedJob(LockedWork):
    """A job as it is found when an entry about it arrives, with its chosen id, if it has one."""

    chosen_id: str | None = None
    handed_back: int = 0
    pool: str = DEFAULT_POOL
    number: int = 0
    events: int = 0

    @property
    def public_id(self) -> str:
        """The id that callers use."""
        return self.chosen_id or self.id

    def current_state(self) -> Moved:
        """Its current state."""
        return Moved(JobState(self.state), self.public_id, self.server_id if self.state in WORKING else None)


class _Batch(msgspec.Struct):
    """The changes of a batch of entries, gathered before they are written."""

    slots: dict[str, _Slots]
    rows: dict[str, _LockedJob]
    used_keys: set[str]
    used_ids: set[tuple[str, str]]
    """The chosen ids in the batch, with their workspaces, that other jobs have already."""
    deployments: Mapping[str, _Row]
    """The workspace, the state and its reason of each that jobs were sent to, and is there."""
    usage: dict[str, StorageUsage]
    """The usage of the workspaces that submit jobs."""
    changed: set[str] = msgspec.field(default_factory=set)
    touched: set[str] = msgspec.field(default_factory=set)
    changes: RowChanges = msgspec.field(default_factory=RowChanges)
    events: list[_Row] = msgspec.field(default_factory=list)
    labels: LabelIndex = msgspec.field(default_factory=dict)
    keys: list[_Row] = msgspec.field(default_factory=list)
    files: list[_Row] = msgspec.field(default_factory=list)
    shown_again: list[FileExpiry] = msgspec.field(default_factory=list)
    acts: list[tuple[Actor, Act, int]] = msgspec.field(default_factory=list)


def write_job_entries(connection: Connection, entries: Sequence[JobEntry]) -> WrittenJobs:
    """Write a batch of entries in the transaction of a connection, and return the outcome of each."""
    batch = _look_up(connection, entries)
    verdicts = [_apply(batch, entry) for entry in entries]
    batch.changes.write(connection)
    # After the jobs, to which the other rows refer.
    _INSERT_EVENT.run(connection, batch.events)
    add_to_index(connection, batch.labels)
    INSERT_KEY.run(connection, batch.keys)
    INSERT_NEEDED.run(connection, batch.files)
    extend_expiries(connection, batch.shown_again)
    if batch.acts:
        record_acts(connection, batch.acts)
    released, unfinished = _release(connection, batch)
    _SLOTS.run(
        connection,
        [
            (slots.active, slots.parked, slots.last, id_)
            for id_, slots in batch.slots.items()
            if id_ in batch.changed or id_ in batch.touched
        ],
    )
    remaining = {id_: batch.slots[id_].active + batch.slots[id_].parked for id_ in batch.changed}
    return WrittenJobs(verdicts, released, unfinished, bool(remaining), remaining)


def _look_up(connection: Connection, entries: Sequence[JobEntry]) -> _Batch:
    owners = sorted({entry.workspace_id for entry in entries})
    slots = {row[0]: _Slots(*row[1:]) for row in _LOCK_WORKSPACES.run(connection, owners)}
    claimed = sorted({entry.id for entry in entries if isinstance(entry, Claim)})
    repeated = {entry.job_id for entry in entries if isinstance(entry, Submission) and entry.is_repeated}
    ids = sorted(repeated | {_id_of(entry) for entry in entries if not isinstance(entry, Release | Submission)})
    rows = {row[0]: _LockedJob(*row) for row in _ROWS.lock(connection, ids)}
    for job_id, number in _LAST_EVENTS.run(connection, claimed):
        if job_id in rows:
            rows[job_id].events = number
    new = [entry for entry in entries if isinstance(entry, Submission)]
    keys = {entry.idempotency_id for entry in new if entry.idempotency_id}
    chosen = [(entry.workspace_id, entry.chosen_id) for entry in new if entry.chosen_id]
    used_ids = {(found.workspace_id, found.public_id) for found in find_known_as(connection, chosen)}
    usage = usage_before(connection, new)
    return _Batch(slots, rows, used_keys(connection, keys), used_ids, _deployments(connection, new), usage)


def _id_of(entry: _OfAJob) -> str:
    return entry.id if isinstance(entry, Claim | TakeOver) else entry.job_id


def _deployments(connection: Connection, new: Sequence[Submission]) -> Mapping[str, _Row]:
    """Deployments that jobs are sent to; they cannot be deleted before this transaction has ended."""
    ids = {entry.placement.deployment_id for entry in new if entry.placement}
    return {row[0]: tuple(row[1:]) for row in _SHARE_DEPLOYMENTS.run(connection, sorted(ids))}


def _apply(batch: _Batch, entry: JobEntry) -> JobVerdict:
    match entry:
        case Submission() if entry.is_repeated and entry.job_id in batch.rows:
            return _submitted_before(entry, batch.rows[entry.job_id])
        case Submission():
            return _submit(batch, entry)
        case Release():
            batch.touched.add(entry.workspace_id)
            return None
        case _:
            row = batch.rows.get(_id_of(entry))
            if row is None or row.workspace_id != entry.workspace_id:
                return Superseded()
            return _apply_to(batch, entry, row)


def _apply_to(batch: _Batch, entry: _OfAJob, row: _LockedJob) -> JobVerdict:
    match entry:
        case Claim():
            return _claim(batch, entry, row)
        case JobProgress():
            return _note(batch, entry, row)
        case JobEnding():
            return _end(batch, entry, row)
        case JobCancel():
            return _cancel(batch, entry, row)
        case TakeOver():
            return _take_over(batch, entry, row)


def _submit(batch: _Batch, entry: Submission) -> JobVerdict:
    slots = batch.slots[entry.workspace_id]
    if (refusal := _refuse(batch, entry, slots)) is not None:
        return refusal
    has_slot = slots.has_room
    state, server_id, started_at = JobState.PARKED, None, None
    if has_slot:
        state = advance(state, JobTransition.RELEASE)
        slots.active += 1
        if entry.server_id is not None:
            state, server_id, started_at = advance(state, JobTransition.CLAIM), entry.server_id, entry.created_at
    else:
        slots.parked += 1
    slots.last += 1
    attempt = 0 if server_id is None else 1
    labels = msgspec.json.encode(entry.labels).decode() if entry.labels else None
    batch.changed.add(entry.workspace_id)
    owner = entry.job_id, entry.workspace_id
    row = batch.rows[entry.job_id] = _LockedJob(*owner, state.value, attempt, server_id, started_at, entry.chosen_id)
    row.pool = entry.pool
    place = (
        (None, None) if entry.placement is None else (entry.placement.deployment_id, entry.placement.release_version)
    )
    batch.changes.add(
        entry.job_id, _INSERT, *owner, slots.last, entry.key_id, entry.partner_key_id, row.state, attempt, server_id,
        entry.workflow, entry.extra, entry.wanted, entry.nodes, labels, entry.created_at, entry.created_at, started_at,
        *place, entry.chosen_id, *document_columns(entry.documents), entry.pool,
    )  # fmt: skip
    batch.used_ids.add((entry.workspace_id, row.public_id))
    index_job(batch.labels, entry.workspace_id, slots.last, entry.labels, place[0])
    batch.files.extend((file_id, entry.job_id) for file_id in sorted(set(entry.files)))
    count_documents(batch.usage, entry)
    if entry.idempotency_id is not None:
        batch.used_keys.add(entry.idempotency_id)
        batch.keys.append((entry.idempotency_id, entry.job_id, entry.idempotency_until))
    return Submitted(slots.last, state)


def _submitted_before(entry: Submission, row: _LockedJob) -> Submitted:
    """The verdict on a submission whose COMMIT broke off, and that was written.

    What another server has, or has ended, is no longer for the one that took the submission: as if it had to wait.
    """
    is_its_own = row.state == JobState.RUNNING and (row.server_id, row.attempt) == (entry.server_id, 1)
    return Submitted(
        row.number, JobState(row.state) if is_its_own or row.state == JobState.PARKED else JobState.RELEASED
    )


def _refuse(batch: _Batch, entry: Submission, slots: _Slots) -> JobFault | StorageFull | DeploymentFault | None:
    """Why a job cannot be submitted now; None where it can."""
    if (full := refuse_documents(batch.usage, entry)) is not None:
        return full
    if entry.chosen_id is not None and (entry.workspace_id, entry.chosen_id) in batch.used_ids:
        return DuplicateJob(entry.chosen_id)
    if entry.idempotency_id in batch.used_keys:
        return IdempotencyKeyUsed()
    if (refusal := _refuse_placement(batch, entry)) is not None:
        return refusal
    if slots.limit == INACTIVE:
        return SubscriptionInactive(slots.subscription)
    is_full = not slots.has_room and slots.parked >= entry.backlog
    return JobQueueFull(entry.backlog) if is_full else None


def _refuse_placement(batch: _Batch, entry: Submission) -> DeploymentFault | None:
    """Why the deployment of a job does not take it any more; None where it does, or there is none."""
    if entry.placement is None:
        return None
    workspace_id, state, reason = batch.deployments.get(entry.placement.deployment_id, (None, None, None))
    if workspace_id != entry.workspace_id:
        return DeploymentNotFound(entry.placement.deployment_id)
    return refuse_job(DeploymentState(state), reason)


def _claim(batch: _Batch, entry: Claim, row: _LockedJob) -> JobVerdict:
    if _ROWS.claim(batch.changes, entry, row) is None:
        return Superseded()
    is_inactive = batch.slots[entry.workspace_id].limit == INACTIVE
    # An attempt that its server has handed back was not ended by a crash.
    return Claimed(row.attempt, row.events, is_inactive, row.attempt - 1 - row.handed_back)


def _note(batch: _Batch, entry: JobProgress, row: _LockedJob) -> JobVerdict:
    if row.state not in WORKING or row.attempt != entry.attempt:
        return Superseded()
    batch.changes.add(row.id, _PROGRESS, entry.progress, entry.at, *row.found)
    _keep(batch, entry.job_id, entry.events)
    return None


def _end(batch: _Batch, entry: JobEnding, row: _LockedJob) -> JobVerdict:
    event = _ENDINGS[entry.state]
    possible = WORKING.intersection(states_before(event))
    if row.attempt == entry.attempt and row.state in {advance(before, event) for before in possible}:
        return row.current_state()  # written before, by a transaction whose outcome was lost
    if row.attempt != entry.attempt or row.state not in possible:
        return Superseded()
    state = advance(JobState(row.state), event).value
    batch.changes.add(
        row.id, _END, state, entry.outputs, entry.failure, entry.progress, entry.at, entry.at, entry.expires_at,
        *row.found,
    )  # fmt: skip
    row.state = state
    _keep(batch, entry.job_id, entry.events)
    batch.shown_again.extend(FileExpiry(entry.workspace_id, *name, entry.expires_at) for name in entry.shown_again)
    _free(batch, entry.workspace_id)
    return row.current_state()


def _cancel(batch: _Batch, entry: JobCancel, row: _LockedJob) -> JobVerdict:
    if row.state not in _GIVEN_UP[entry.cause] or (entry.only is not None and row.state not in entry.only):
        return Superseded()
    if entry.by is not None:
        batch.acts.append((entry.by, Act("job.cancelled", entry.workspace_id, row.public_id), entry.at))
    was_parked, after = row.state == JobState.PARKED, advance(JobState(row.state), entry.cause)
    if after in WORKING:
        _ROWS.note_cancel(batch.changes, row, after.value, entry.at)
        return row.current_state()
    ended = after.value, entry.failure, entry.at, entry.at, entry.at, entry.expires_at
    batch.changes.add(row.id, _END_WAITING, *ended, *row.found)
    row.state = after.value
    if was_parked:
        batch.slots[entry.workspace_id].parked -= 1
        batch.changed.add(entry.workspace_id)
    else:
        _free(batch, entry.workspace_id)
    return row.current_state()


def _take_over(batch: _Batch, entry: TakeOver, row: _LockedJob) -> JobVerdict:
    if not _ROWS.take_over(batch.changes, entry, row):
        return Superseded()
    if entry.is_handed_back:
        row.handed_back += 1
        batch.changes.add(row.id, _HAND_BACK, row.handed_back, *row.found)
    if row.state not in LIVE:
        batch.changes.add(row.id, _FORGET, entry.at, entry.expires_at, *row.found)
        _free(batch, entry.workspace_id)
    return row.current_state()


def _free(batch: _Batch, workspace_id: str) -> None:
    batch.slots[workspace_id].active -= 1
    batch.changed.add(workspace_id)


def _keep(batch: _Batch, job_id: str, events: Iterable[NewEvent]) -> None:
    batch.events.extend((job_id, event.number, event.kind, event.data, event.at) for event in events)


def _release(connection: Connection, batch: _Batch) -> tuple[list[Released], list[str]]:
    """Give free slots to the jobs that have waited longest, in every workspace this batch has touched."""
    released = [
        Released(id_, row.workspace_id, row.pool)
        for id_, row in batch.rows.items()
        if row.state == JobState.RELEASED and row.workspace_id in batch.slots
    ]
    unfinished = []
    for workspace_id in sorted(batch.changed | batch.touched):
        slots = batch.slots[workspace_id]
        room = min(slots.free, slots.parked, _RELEASED_AT_ONCE)
        if room <= 0:
            continue
        parked = _ROWS.oldest_parked(connection, workspace_id, room)
        found = [Released(id_, workspace_id, pool) for id_, _, pool in parked]
        _ROWS.release(connection, [one.id for one in found])
        slots.active += len(found)
        slots.parked -= len(found)
        released.extend(found)
        if found and slots.parked and slots.free:
            unfinished.append(workspace_id)
    return released, unfinished


_LOCK_WORKSPACES: Final = PreparedLookup(
    lambda one_of: (
        select(
            workspaces.c.id,
            workspaces.c.jobs_limit,
            workspaces.c.jobs_active,
            workspaces.c.jobs_parked,
            workspaces.c.last_job,
            workspaces.c.subscription,
        )
        .where(one_of(workspaces.c.id))
        .order_by(workspaces.c.id)
        .with_for_update()
    )
)
_ROWS: Final = WorkRows(
    jobs,
    number=jobs.c.number,
    begun_at=jobs.c.started_at,
    parked=in_state(jobs, LIVE),
    claimed=advance(JobState.RELEASED, JobTransition.CLAIM),
    taken_over={state: advance(state, JobTransition.TAKE_OVER) for state in states_before(JobTransition.TAKE_OVER)},
    more=(jobs.c.chosen_id, jobs.c.handed_back, jobs.c.pool, jobs.c.number),
    updated_at=jobs.c.updated_at,
)
_SHARE_DEPLOYMENTS: Final = PreparedLookup(
    lambda one_of: (
        select(deployments.c.id, deployments.c.workspace_id, deployments.c.state, deployments.c.reason)
        .where(one_of(deployments.c.id), deployments.c.deleted_at.is_(None))
        .order_by(deployments.c.id)
        .with_for_update(read=True)
    )
)
_LAST_EVENTS: Final = PreparedLookup(
    lambda one_of: (
        select(job_events.c.job_id, func.max(job_events.c.number))
        .where(one_of(job_events.c.job_id))
        .group_by(job_events.c.job_id)
    )
)
_NEW_COLUMNS: Final = (
    "id", "workspace_id", "number", "key_id", "partner_key_id", "state", "attempt", "server_id", "workflow", "extra",
    "wanted", "nodes", "labels", "created_at", "updated_at", "started_at", "deployment_id", "release_version",
    "chosen_id", "documents_blob", "documents_size", "workflow_size", "pool",
)  # fmt: skip
_INSERT: Final = Prepared(insert(jobs), _NEW_COLUMNS)


_PROGRESS: Final = _ROWS.update("progress", "updated_at")
_END: Final = _ROWS.update("state", "outputs", "failure", "progress", "updated_at", "finished_at", "expires_at")
_END_WAITING: Final = _ROWS.update("state", "failure", "cancel_requested_at", "updated_at", "finished_at", "expires_at")
_HAND_BACK: Final = _ROWS.update("handed_back")
_FORGET: Final = _ROWS.update("finished_at", "expires_at")
_INSERT_EVENT: Final = PreparedInsert(job_events, ("job_id", "number", "kind", "data", "at"))
_SLOTS: Final = Prepared(
    update(workspaces)
    .where(workspaces.c.id == bindparam("workspace"))
    .values(jobs_active=bindparam("jobs_active"), jobs_parked=bindparam("jobs_parked"), last_job=bindparam("last_job")),
    ("jobs_active", "jobs_parked", "last_job", "workspace"),
)
