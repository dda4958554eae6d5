"""How a batch of job entries becomes rows, all or nothing: jobs, their events, and the slots of their workspaces.

Workspaces are locked first, in the order of their ids, and a workspace's jobs change only under its lock. So a slot is
given by the transaction that frees it, and a number is given once.
"""

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from sqlalchemy import Connection, bindparam, func, insert, literal_column, select, update

from fairlead.domain.accounts.storage_limits import StorageUsage
from fairlead.domain.deployments import DeploymentFault, DeploymentNotFound, DeploymentState, refuse_job
from fairlead.domain.jobs.entries import (
    Claimed,
    JobCancel,
    JobEnding,
    JobEntry,
    JobProgress,
    JobTakeOver,
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
from fairlead.domain.work.entries import Claim, Release, Superseded
from fairlead.storage.assets.files import INSERT_NEEDED, extend_expiries
from fairlead.storage.db.statements import Prepared, PreparedInsert, PreparedLookup, PreparedQuery
from fairlead.storage.db.tables import deployments, job_events, jobs, workspaces
from fairlead.storage.jobs.documents import count_documents, document_columns, refuse_documents, usage_before
from fairlead.storage.jobs.ids import INSERT_KEY, find_known_as, used_keys
from fairlead.storage.jobs.labels import LabelIndex, add_to_index, index_job
from fairlead.storage.work.table import in_state

_Row: TypeAlias = tuple[Any, ...]
UNLIMITED: Final = -1
INACTIVE: Final = 0
_ENDINGS: Final = {
    JobState.SUCCEEDED: JobTransition.SUCCEED,
    JobState.FAILED: JobTransition.FAIL,
    JobState.CANCELED: JobTransition.STOP,
    JobState.EXPIRED: JobTransition.EXPIRE,
}
_CLAIMABLE: Final = frozenset(states_before(JobTransition.CLAIM))
_GIVEN_UP: Final = {
    JobTransition.CANCEL: frozenset(states_before(JobTransition.CANCEL)),
    JobTransition.EXPIRE: frozenset(states_before(JobTransition.EXPIRE)) & WAITING,
    JobTransition.ABANDON: frozenset(states_before(JobTransition.ABANDON)),
}
"""Of a job that is executed, only its server can say that it was for too long: with a JobEnding."""
_RELEASED_AT_ONCE: Final = 256


class WrittenJobs(msgspec.Struct, frozen=True):
    """What became of a batch: a verdict for each entry, jobs (of workspaces) that may now be claimed.

    `remaining` says of each workspace whose queue has changed how many jobs of it now wait or are executed. In the
    `unfinished` workspaces more may be released.
    """

    verdicts: Sequence[JobVerdict]
    released: Sequence[tuple[str, str]]
    remaining: Mapping[str, int]
    unfinished: Sequence[str]


class _Slots(msgspec.Struct):
    """The slots of a workspace as the entries leave them."""

    limit: int
    active: int
    parked: int
    last: int
    subscription: str

    @property
    def free(self) -> int:
        """How many jobs may take a slot. Of an inactive workspace all may: they are claimed to be told of it."""
        if self.limit in (UNLIMITED, INACTIVE):
            return _RELEASED_AT_ONCE
        return max(0, self.limit - self.active)

    @property
    def has_room(self) -> bool:
        """Whether a job that is submitted now need not wait behind others."""
        return self.parked == 0 and self.free > 0


class _LockedRow(msgspec.Struct):
    """How a job stands in the books, changed by each entry about it; locked until the batch is written."""

    workspace_id: str
    state: JobState
    attempt: int
    server_id: str | None
    public_id: str
    started_at: int | None = None
    handed_back: int = 0
    events: int = 0


class _Batch(msgspec.Struct):
    """What a batch of entries turns into, gathered before it is written."""

    slots: dict[str, _Slots]
    rows: dict[str, _LockedRow]
    used_keys: set[str]
    used_ids: set[tuple[str, str]]
    """Of the ids that callers chose, with their workspaces: those by which jobs are known."""
    deployments: Mapping[str, _Row]
    """The workspace, the state and its reason of each that jobs were sent to, and is there."""
    usage: dict[str, StorageUsage]
    """What those workspaces keep that submit jobs."""
    changed: set[str] = msgspec.field(default_factory=set)
    touched: set[str] = msgspec.field(default_factory=set)
    writes: list[tuple[Prepared, _Row]] = msgspec.field(default_factory=list)
    """In the order of the entries: a job may be changed by several of a batch."""
    events: list[_Row] = msgspec.field(default_factory=list)
    labels: LabelIndex = msgspec.field(default_factory=dict)
    keys: list[_Row] = msgspec.field(default_factory=list)
    files: list[_Row] = msgspec.field(default_factory=list)
    shown_again: list[tuple[str, str, str, int]] = msgspec.field(default_factory=list)

    def write(self, statement: Prepared, *values: object) -> None:
        """Have a statement executed, after those before."""
        self.writes.append((statement, values))


def write_job_entries(connection: Connection, entries: Sequence[JobEntry]) -> WrittenJobs:
    """Write a batch of entries in the transaction of a connection, and say what became of each."""
    batch = _looked_up(connection, entries)
    verdicts = [_apply(batch, entry) for entry in entries]
    for statement, writes in itertools.groupby(batch.writes, key=operator.itemgetter(0)):
        statement.run(connection, [row for _, row in writes])
    _INSERT_EVENT.run(connection, batch.events)
    add_to_index(connection, batch.labels)
    INSERT_KEY.run(connection, batch.keys)
    INSERT_NEEDED.run(connection, batch.files)
    extend_expiries(connection, batch.shown_again)
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
    return WrittenJobs(verdicts, released, remaining, unfinished)


def _looked_up(connection: Connection, entries: Sequence[JobEntry]) -> _Batch:
    owners = sorted({entry.workspace_id for entry in entries})
    slots = {row[0]: _Slots(*row[1:]) for row in _LOCK_WORKSPACES.run(connection, owners)}
    claimed = sorted({entry.id for entry in entries if isinstance(entry, Claim)})
    changed = {entry.job_id for entry in entries if not isinstance(entry, Claim | Release | Submission)}
    ids = sorted(changed.union(claimed))
    rows = {row[0]: _locked_row(row) for row in _LOCK_JOBS.run(connection, ids)}
    for job_id, number in _LAST_EVENTS.run(connection, claimed):
        if job_id in rows:
            rows[job_id].events = number
    new = [entry for entry in entries if isinstance(entry, Submission)]
    keys = {entry.idempotency_id for entry in new if entry.idempotency_id}
    chosen = [(entry.workspace_id, entry.chosen_id) for entry in new if entry.chosen_id]
    used_ids = {(found.workspace_id, found.public_id) for found in find_known_as(connection, chosen)}
    usage = usage_before(connection, new)
    return _Batch(slots, rows, used_keys(connection, keys), used_ids, _deployments(connection, new), usage)


def _locked_row(row: _Row) -> _LockedRow:
    job_id, workspace_id, state, attempt, server_id, chosen_id, started_at, handed_back = row
    return _LockedRow(workspace_id, JobState(state), attempt, server_id, chosen_id or job_id, started_at, handed_back)


def _deployments(connection: Connection, new: Sequence[Submission]) -> Mapping[str, _Row]:
    """Deployments that jobs are sent to; they cannot be deleted before this transaction has ended."""
    ids = {entry.placement.deployment_id for entry in new if entry.placement}
    return {row[0]: tuple(row[1:]) for row in _SHARE_DEPLOYMENTS.run(connection, sorted(ids))}


def _apply(batch: _Batch, entry: JobEntry) -> JobVerdict:
    match entry:
        case Submission():
            return _submit(batch, entry)
        case Release():
            batch.touched.add(entry.workspace_id)
            return None
        case _:
            row = batch.rows.get(entry.id if isinstance(entry, Claim) else entry.job_id)
            if row is None or row.workspace_id != entry.workspace_id:
                return Superseded()
            return _apply_to(batch, entry, row)


def _apply_to(
    batch: _Batch, entry: Claim | JobProgress | JobEnding | JobCancel | JobTakeOver, row: _LockedRow
) -> JobVerdict:
    match entry:
        case Claim():
            return _claim(batch, entry, row)
        case JobProgress():
            return _note(batch, entry, row)
        case JobEnding():
            return _end(batch, entry, row)
        case JobCancel():
            return _cancel(batch, entry, row)
        case JobTakeOver():
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
    public_id = entry.chosen_id or entry.job_id
    batch.rows[entry.job_id] = _LockedRow(entry.workspace_id, state, attempt, server_id, public_id)
    place = (
        (None, None) if entry.placement is None else (entry.placement.deployment_id, entry.placement.release_version)
    )
    batch.write(
        _INSERT, entry.job_id, entry.workspace_id, slots.last, entry.key_id, entry.partner_key_id, state.value, attempt,
        server_id, entry.workflow, entry.extra, entry.wanted, entry.nodes, labels, entry.created_at,
        entry.created_at, started_at, *place, entry.chosen_id, *document_columns(entry.documents),
    )  # fmt: skip
    batch.used_ids.add((entry.workspace_id, public_id))
    index_job(batch.labels, entry.workspace_id, slots.last, entry.labels, place[0])
    batch.files.extend((file_id, entry.job_id) for file_id in sorted(set(entry.files)))
    count_documents(batch.usage, entry)
    if entry.idempotency_id is not None:
        batch.used_keys.add(entry.idempotency_id)
        batch.keys.append((entry.idempotency_id, entry.job_id, entry.idempotency_until))
    return Submitted(slots.last, state)


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
    """Why the deployment a job was sent to does not take it any more; None where it does, or there is none."""
    if entry.placement is None:
        return None
    workspace_id, state, reason = batch.deployments.get(entry.placement.deployment_id, (None, None, None))
    if workspace_id != entry.workspace_id:
        return DeploymentNotFound(entry.placement.deployment_id)
    return refuse_job(DeploymentState(state), reason)


def _claim(batch: _Batch, entry: Claim, row: _LockedRow) -> JobVerdict:
    if row.state in _CLAIMABLE:
        row.state = advance(row.state, JobTransition.CLAIM)
        row.attempt += 1
        row.server_id, row.started_at = entry.server_id, entry.at
        batch.write(_CLAIM, row.state.value, row.attempt, entry.server_id, entry.at, entry.at, entry.id)
    elif row.state not in WORKING or (row.server_id, row.started_at) != (entry.server_id, entry.at):
        return Superseded()
    # Else it was written before, and the database went away before it could say so.
    is_inactive = batch.slots[entry.workspace_id].limit == INACTIVE
    return Claimed(row.attempt, row.events, is_inactive, row.attempt - 1 - row.handed_back)


def _note(batch: _Batch, entry: JobProgress, row: _LockedRow) -> JobVerdict:
    if row.state not in WORKING or row.attempt != entry.attempt:
        return Superseded()
    batch.write(_PROGRESS, entry.progress, entry.at, entry.job_id)
    _keep(batch, entry.job_id, entry.events)
    return None


def _end(batch: _Batch, entry: JobEnding, row: _LockedRow) -> JobVerdict:
    event = _ENDINGS[entry.state]
    possible = WORKING.intersection(states_before(event))
    if row.attempt == entry.attempt and row.state in {advance(before, event) for before in possible}:
        return Moved(row.state, row.public_id)  # written before; the database went away before it said so
    if row.attempt != entry.attempt or row.state not in possible:
        return Superseded()
    row.state = advance(row.state, event)
    batch.write(
        _END,
        row.state.value,
        entry.outputs,
        entry.failure,
        entry.progress,
        entry.at,
        entry.at,
        entry.expires_at,
        entry.job_id,
    )
    _keep(batch, entry.job_id, entry.events)
    batch.shown_again.extend((entry.workspace_id, *name, entry.expires_at) for name in entry.shown_again)
    _free(batch, entry.workspace_id)
    return Moved(row.state, row.public_id)


def _cancel(batch: _Batch, entry: JobCancel, row: _LockedRow) -> JobVerdict:
    if row.state not in _GIVEN_UP[entry.cause] or (entry.only is not None and row.state not in entry.only):
        return Superseded()
    before, row.state = row.state, advance(row.state, entry.cause)
    failure = None if row.state in WORKING else entry.failure
    return _move(batch, entry, row, before, failure=failure, cancelled_at=entry.at)


def _take_over(batch: _Batch, entry: JobTakeOver, row: _LockedRow) -> JobVerdict:
    if row.state not in WORKING or row.attempt != entry.attempt:
        return Superseded()
    before, row.state = row.state, advance(row.state, JobTransition.TAKE_OVER)
    row.server_id = None
    row.handed_back += entry.is_handed_back
    return _move(batch, entry, row, before)


def _move(
    batch: _Batch,
    entry: JobCancel | JobTakeOver,
    row: _LockedRow,
    before: JobState,
    *,
    failure: bytes | None = None,
    cancelled_at: int | None = None,
) -> Moved:
    """Gather where a job is now that no server has said it of, and the slot or the place in the queue that it frees."""
    has_ended = row.state not in LIVE
    finished, expires = (entry.at, entry.expires_at) if has_ended else (None, None)
    batch.write(
        _MOVE, row.state.value, row.server_id, failure, cancelled_at, entry.at, finished, expires, row.handed_back,
        entry.job_id,
    )  # fmt: skip
    if has_ended and before is JobState.PARKED:
        batch.slots[entry.workspace_id].parked -= 1
        batch.changed.add(entry.workspace_id)
    elif has_ended:
        _free(batch, entry.workspace_id)
    return Moved(row.state, row.public_id, row.server_id)


def _free(batch: _Batch, workspace_id: str) -> None:
    batch.slots[workspace_id].active -= 1
    batch.changed.add(workspace_id)


def _keep(batch: _Batch, job_id: str, events: Iterable[NewEvent]) -> None:
    batch.events.extend((job_id, event.number, event.kind, event.data, event.at) for event in events)


def _release(connection: Connection, batch: _Batch) -> tuple[list[tuple[str, str]], list[str]]:
    """Give free slots to the jobs that have waited longest, in every workspace this batch has touched."""
    released: list[tuple[str, str]] = [
        (id_, row.workspace_id)
        for id_, row in batch.rows.items()
        if row.state is JobState.RELEASED and row.workspace_id in batch.slots
    ]
    unfinished = []
    for workspace_id in sorted(batch.changed | batch.touched):
        slots = batch.slots[workspace_id]
        room = min(slots.free, slots.parked, _RELEASED_AT_ONCE)
        if room <= 0:
            continue
        found = [id_ for (id_,) in _OLDEST_PARKED.run(connection, (workspace_id, room))]
        _RELEASE.run(connection, [(JobState.RELEASED.value, id_) for id_ in found])
        slots.active += len(found)
        slots.parked -= len(found)
        released.extend((id_, workspace_id) for id_ in found)
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
_LOCK_JOBS: Final = PreparedLookup(
    lambda one_of: (
        select(
            jobs.c.id,
            jobs.c.workspace_id,
            jobs.c.state,
            jobs.c.attempt,
            jobs.c.server_id,
            jobs.c.chosen_id,
            jobs.c.started_at,
            jobs.c.handed_back,
        )
        .where(one_of(jobs.c.id))
        .order_by(jobs.c.id)
        .with_for_update()
    )
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
_OLDEST_PARKED: Final = PreparedQuery(
    select(jobs.c.id)
    .where(jobs.c.workspace_id == bindparam("workspace"), in_state(jobs, LIVE), in_state(jobs, {JobState.PARKED}))
    .order_by(jobs.c.number)
    .limit(bindparam("room"))
    .offset(literal_column("0")),  # or the dialect of SQLite adds a parameter of its own
    ("workspace", "room"),
)
_NEW_COLUMNS: Final = (
    "id", "workspace_id", "number", "key_id", "partner_key_id", "state", "attempt", "server_id", "workflow", "extra",
    "wanted", "nodes", "labels", "created_at", "updated_at", "started_at", "deployment_id", "release_version",
    "chosen_id", "documents_blob", "documents_size", "workflow_size",
)  # fmt: skip
_INSERT: Final = Prepared(insert(jobs), _NEW_COLUMNS)


def _update(*names: str) -> Prepared:
    """Set columns of the job whose id comes last. The names stand in the order of the table's columns."""
    statement = update(jobs).where(jobs.c.id == bindparam("job")).values({name: bindparam(name) for name in names})
    return Prepared(statement, [*names, "job"])


_CLAIM: Final = _update("state", "attempt", "server_id", "updated_at", "started_at")
_PROGRESS: Final = _update("progress", "updated_at")
_MOVE: Final = _update(
    "state", "server_id", "failure", "cancel_requested_at", "updated_at", "finished_at", "expires_at", "handed_back"
)
_END: Final = _update("state", "outputs", "failure", "progress", "updated_at", "finished_at", "expires_at")
_RELEASE: Final = _update("state")
_INSERT_EVENT: Final = PreparedInsert(job_events, ("job_id", "number", "kind", "data", "at"))
_SLOTS: Final = Prepared(
    update(workspaces)
    .where(workspaces.c.id == bindparam("workspace"))
    .values(jobs_active=bindparam("jobs_active"), jobs_parked=bindparam("jobs_parked"), last_job=bindparam("last_job")),
    ("jobs_active", "jobs_parked", "last_job", "workspace"),
)
