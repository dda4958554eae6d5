"""Jobs as they are read: one, those of a workspace, their queue."""

import asyncio
import operator
import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import ARRAY, BigInteger, ColumnElement, Connection, and_, any_, bindparam, case, delete, func, select

from fairlead.domain.deployments import PackSet
from fairlead.domain.jobs.jobs import Job, JobQuery, StoredEvent
from fairlead.domain.jobs.listing import JobPage, ListedJob, ListQuery
from fairlead.domain.jobs.states import LIVE, WAITING, WORKING, JobState
from fairlead.storage.accounts.storage_usage import lock_usage
from fairlead.storage.assets.files import delete_needed
from fairlead.storage.db.statements import PreparedQuery, is_sqlite
from fairlead.storage.db.tables import job_events, jobs, workspaces
from fairlead.storage.deployments import packs_of_release
from fairlead.storage.jobs.documents import DOCUMENT_COLUMNS, documents_in
from fairlead.storage.jobs.ids import JobByPublicId
from fairlead.storage.jobs.labels import LabelIndex, find_labelled, index_job, remove_from_index
from fairlead.storage.work.table import WorkTable, in_state

_WINDOW_MIN: Final = 9
_LARGE_BYTES: Final = 64 * 1024
_STORED_MAX: Final = 512
_LOOKED_AT: Final = 5_000
"""How many jobs a page reads whose filter has no index."""
_STORED_HEAD: Final = b"\x78\x01\x01"
"""The head of a zlib stream with one block, which is the last and not compressed."""
_BRIEF: Final = (
    jobs.c.id,
    jobs.c.workspace_id,
    jobs.c.number,
    jobs.c.state,
    jobs.c.attempt,
    jobs.c.wanted,
    jobs.c.nodes,
    jobs.c.created_at,
    jobs.c.updated_at,
    jobs.c.started_at,
    jobs.c.finished_at,
    jobs.c.outputs,
    jobs.c.failure,
    jobs.c.progress,
    jobs.c.key_id,
    jobs.c.partner_key_id,
    jobs.c.labels,
    jobs.c.expires_at,
    jobs.c.deployment_id,
    jobs.c.release_version,
    jobs.c.chosen_id,
)
_WHOLE: Final = (*_BRIEF, jobs.c.workflow, jobs.c.extra, *DOCUMENT_COLUMNS)
_LISTED: Final = tuple(jobs.c[field] for field in ListedJob.__struct_fields__)
EVENTS_MAX: Final = 10_000
"""How many events of a job are read."""


class ForgottenJobs(msgspec.Struct, frozen=True):
    """How many jobs were deleted, and the blobs of large documents that nobody needs any more."""

    count: int
    blobs: Sequence[str]


def deflate(document: bytes) -> bytes:
    """The stored form of a JSON document.

    A small one is not compressed, but in the form of zlib (RFC 1950) with one stored block (RFC 1951, 3.2.4): setting
    up the compressor takes longer than writing some hundred bytes more. For larger ones a smaller window is used,
    because clearing one of the usual size would take most of the time.
    """
    if len(document) <= _STORED_MAX:
        size = struct.pack("<HH", len(document), len(document) ^ 0xFFFF)
        return b"".join((_STORED_HEAD, size, document, struct.pack(">I", zlib.adler32(document))))
    window = min(max(len(document).bit_length(), _WINDOW_MIN), zlib.MAX_WBITS)
    return zlib.compress(document, 1, window)


async def deflate_in_thread(document: bytes) -> bytes:
    """The same by a thread, without the interpreter lock, where that would take a millisecond or more."""
    return deflate(document) if len(document) < _LARGE_BYTES else await asyncio.to_thread(deflate, document)


def inflate(kept: bytes) -> bytes:
    """A JSON document as it was."""
    return zlib.decompress(kept)


def workspace_of(connection: Connection, job_id: str) -> str | None:
    """The workspace of a job by its own id."""
    found: str | None = connection.scalar(select(jobs.c.workspace_id).where(jobs.c.id == job_id))
    return found


def find_job(connection: Connection, workspace_id: str, public_id: str, *, whole: bool) -> Job | None:
    """A job of a workspace by its public id; None where it has none of this id. A `whole` one has its documents."""
    row = (_FIND_WHOLE if whole else _FIND).run(connection, workspace_id, public_id)
    return None if row is None else _job(row)


def find_with_position(connection: Connection, workspace_id: str, public_id: str) -> tuple[Job | None, int | None]:
    """A job of a workspace by its public id, and how many wait before it; None where it no longer waits."""
    job = find_job(connection, workspace_id, public_id, whole=False)
    if job is None or job.state not in WAITING:
        return job, None
    return job, QUEUE.count_ahead(connection, workspace_id, job.number)


def find_claimed(connection: Connection, workspace_id: str, job_id: str) -> tuple[Job | None, PackSet]:
    """A job by its own id, with its workflow, and the node packs with which it is to be executed."""
    mine = select(*_WHOLE).where(jobs.c.id == job_id, jobs.c.workspace_id == workspace_id)
    row = connection.execute(mine).mappings().first()
    job = None if row is None else _job(row)
    if job is None or job.deployment_id is None or job.release_version is None:
        return job, None
    return job, packs_of_release(connection, job.deployment_id, job.release_version)


def live_jobs(connection: Connection, workspace_id: str, limit: int, *, whole: bool) -> Sequence[Job]:
    """The jobs of a workspace that have not ended, in the order of their numbers."""
    rows = connection.execute(
        select(*(_WHOLE if whole else _BRIEF))
        .where(jobs.c.workspace_id == workspace_id, in_state(jobs, LIVE))
        .order_by(jobs.c.number)
        .limit(limit)
    ).mappings()
    return [_job(row) for row in rows]


def find_jobs(connection: Connection, workspace_id: str, query: JobQuery) -> Sequence[Job]:
    """The jobs of a workspace that a query asks for."""
    statement = select(*(_WHOLE if query.is_whole else _BRIEF)).where(jobs.c.workspace_id == workspace_id)
    if query.states is not None:
        statement = statement.where(jobs.c.state.in_(sorted(query.states)))
    if query.after is not None:
        beyond = jobs.c.number < query.after if query.is_newest_first else jobs.c.number > query.after
        statement = statement.where(beyond)
    order = jobs.c.number.desc() if query.is_newest_first else jobs.c.number
    rows = connection.execute(statement.order_by(order).limit(query.limit).offset(query.offset)).mappings()
    return [_job(row) for row in rows]


def list_jobs(connection: Connection, workspace_id: str, query: ListQuery) -> JobPage:
    """A page of the jobs of a workspace, or of one deployment of it, the newest first.

    A number is given under the lock of its workspace and seen with its transaction, so none appears behind a page that
    was read.
    """
    if query.labels:
        return _list_labelled(connection, workspace_id, query)
    bounds = [jobs.c.workspace_id == workspace_id]
    if query.deployment_id is not None:
        bounds.append(jobs.c.deployment_id == query.deployment_id)
    if query.before is not None:
        bounds.append(jobs.c.number < query.before)
    if query.state is not None:
        return _list_in_state(connection, workspace_id, query, bounds)
    statement = select(*_LISTED).where(*bounds).order_by(jobs.c.number.desc())
    page = [_listed_job(row) for row in connection.execute(statement.limit(query.limit + 1))]
    has_more = len(page) > query.limit
    return JobPage(page[: query.limit], page[query.limit - 1].number if has_more else None)


def _list_in_state(
    connection: Connection, workspace_id: str, query: ListQuery, bounds: Sequence[ColumnElement[bool]]
) -> JobPage:
    """The jobs in a state among the next ones within `bounds`, so that a rare state is not expensive."""
    window = select(jobs.c.number).where(*bounds).order_by(jobs.c.number.desc()).limit(_LOOKED_AT)
    seen = window.subquery()
    passing = (
        select(*_LISTED)
        .join(seen, seen.c.number == jobs.c.number)
        .where(jobs.c.workspace_id == workspace_id, jobs.c.state == query.state)
        .order_by(jobs.c.number.desc())
    )
    page = [_listed_job(row) for row in connection.execute(passing.limit(query.limit + 1))]
    if len(page) > query.limit:
        return JobPage(page[: query.limit], page[query.limit - 1].number)
    return JobPage(page, connection.scalar(window.offset(_LOOKED_AT - 1).limit(1)))


def _list_labelled(connection: Connection, workspace_id: str, query: ListQuery) -> JobPage:
    found, before = find_labelled(connection, workspace_id, query, query.limit + 1)
    numbers = found[: query.limit]
    if is_sqlite(connection):
        rows = _BY_NUMBER_IN_SQLITE.run(connection, (workspace_id, msgspec.json.encode(numbers).decode()))
    else:
        rows = _BY_NUMBER_IN_POSTGRESQL.run(connection, (workspace_id, numbers))
    page = sorted((_listed_job(row) for row in rows), key=operator.attrgetter("number"), reverse=True)
    if query.state is not None:
        page = [one for one in page if one.state == query.state]
    return JobPage(page, numbers[-1] if len(found) > query.limit else before)


def count_jobs(connection: Connection, workspace_id: str, states: frozenset[JobState] | None) -> int:
    """How many jobs of a workspace are in some states."""
    statement = select(func.count()).select_from(jobs).where(jobs.c.workspace_id == workspace_id)
    if states is not None:
        statement = statement.where(jobs.c.state.in_(sorted(states)))
    return int(connection.execute(statement).scalar_one())


def remaining_jobs(connection: Connection, workspace_id: str) -> int:
    """How many jobs of a workspace wait or are executed."""
    figures = select(workspaces.c.jobs_active + workspaces.c.jobs_parked).where(workspaces.c.id == workspace_id)
    return int(connection.execute(figures).scalar_one())


def events_of(
    connection: Connection, workspace_id: str, job_id: str, kinds: Collection[str] | None = None
) -> Sequence[StoredEvent]:
    """The events of a job of a workspace, which is named by its own id, in order; at most EVENTS_MAX, of some kinds."""
    found = (
        select(job_events.c.number, job_events.c.kind, job_events.c.data, job_events.c.at)
        .join(jobs, jobs.c.id == job_events.c.job_id)
        .where(jobs.c.id == job_id, jobs.c.workspace_id == workspace_id)
    )
    if kinds is not None:
        found = found.where(job_events.c.kind.in_(kinds))
    rows = connection.execute(found.order_by(job_events.c.number).limit(EVENTS_MAX))
    return [StoredEvent(*row) for row in rows]


def delete_expired_jobs(connection: Connection, now: int, limit: int) -> ForgottenJobs:
    """Delete expired jobs, with their events and labels."""
    columns = (
        jobs.c.id, jobs.c.workspace_id, jobs.c.number, jobs.c.labels, jobs.c.deployment_id, jobs.c.documents_blob,
    )  # fmt: skip
    expired = select(*columns).where(jobs.c.expires_at <= now).order_by(jobs.c.expires_at).limit(limit)
    found = connection.execute(expired.with_for_update(skip_locked=True)).all()  # as entries lock: jobs first
    ids = [row[0] for row in found]
    index: LabelIndex = {}
    blobs = [row.documents_blob for row in found if row.documents_blob is not None]
    for _, workspace_id, number, labels, deployment_id, _ in found:
        if labels is not None:
            pairs = msgspec.json.decode(labels, type=dict[str, str])
            index_job(index, workspace_id, number, pairs, deployment_id)
    if ids:
        remove_from_index(connection, index)
        connection.execute(delete(job_events).where(job_events.c.job_id.in_(ids)))
        delete_needed(connection, ids)
        if blobs:
            lock_usage(connection, [row.workspace_id for row in found])
        connection.execute(delete(jobs).where(jobs.c.id.in_(ids)))
    return ForgottenJobs(len(ids), blobs)


def _listed_job(row: Sequence[Any]) -> ListedJob:
    id_, number, state, *more = row
    return ListedJob(id_, number, JobState(state), *more)


def _job(row: Mapping[Any, Any]) -> Job:
    values = {
        **row,
        "state": JobState(row["state"]),
        "wanted": msgspec.json.decode(row["wanted"], type=tuple[str, ...]),
    }
    if "workflow" in values:
        values["documents"] = documents = documents_in(values)
        for column in DOCUMENT_COLUMNS:
            del values[column.name]
        if documents is not None:
            values["workflow"] = values["extra"] = None
    for name in ("workflow", "extra", "outputs"):
        if values.get(name) is not None:
            values[name] = inflate(values[name])
    return Job(**values)


def _by_number(condition: ColumnElement[bool]) -> PreparedQuery:
    """Jobs of a page by a condition that takes the numbers of all, in the words of a dialect."""
    statement = select(*_LISTED).where(jobs.c.workspace_id == bindparam("workspace"), condition)
    return PreparedQuery(statement, ("workspace", "numbers"))


_RELEASED: Final = (
    select(func.count())
    .select_from(jobs)
    .where(jobs.c.workspace_id == workspaces.c.id, in_state(jobs, {JobState.RELEASED}))
    .scalar_subquery()
)
QUEUE: Final = WorkTable(
    jobs,
    number=jobs.c.number,
    begun_at=jobs.c.updated_at,
    is_waiting=and_(in_state(jobs, LIVE), in_state(jobs, WAITING)),
    is_queued=in_state(jobs, LIVE),
    is_working=in_state(jobs, WORKING),
    is_cancelled=and_(in_state(jobs, WORKING), in_state(jobs, {JobState.CANCELING})),
    parked=workspaces.c.jobs_parked,
    has_room=(workspaces.c.jobs_limit <= 0) | (workspaces.c.jobs_active < workspaces.c.jobs_limit),
    backlog=workspaces.c.jobs_parked + case((workspaces.c.jobs_active > 0, _RELEASED), else_=0),
)
_FIND: Final = JobByPublicId(_BRIEF)
_FIND_WHOLE: Final = JobByPublicId(_WHOLE)
_BY_NUMBER_IN_SQLITE: Final = _by_number(
    jobs.c.number.in_(select(func.json_each(bindparam("numbers")).table_valued("value").c.value))
)
_BY_NUMBER_IN_POSTGRESQL: Final = _by_number(jobs.c.number == any_(bindparam("numbers", type_=ARRAY(BigInteger))))
