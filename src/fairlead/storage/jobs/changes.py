"""Changes of jobs since they were read last, for servers whose callers watch jobs of other servers.

Jobs are found by their numbers and ids, never by a time: clocks of servers differ, and a transaction becomes visible
later than the times in it. All of it is bounded.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import Connection, bindparam, func, literal_column, select

from fairlead.domain.jobs.jobs import StoredEvent
from fairlead.domain.jobs.states import LIVE, JobState
from fairlead.storage.db.statements import PreparedLookup, PreparedQuery
from fairlead.storage.db.tables import job_events, jobs, workspaces
from fairlead.storage.work.table import in_state


class WorkspaceJobs(msgspec.Struct, frozen=True):
    """How many jobs of a workspace wait or are executed, and the number of its newest."""

    remaining: int
    last_number: int


class JobStand(msgspec.Struct, frozen=True):
    """The state of a job, which changes with every write to it, because its server writes at most once in a ms."""

    state: JobState
    attempt: int
    updated_at: int


class ChangedJob(msgspec.Struct, frozen=True):
    """A job as watchers need it. `failure` is JSON of the event that ended it, where it did not succeed.

    Callers use its `public_id`. `server_id` executes it, or did so last.
    """

    id: str
    workspace_id: str
    public_id: str
    number: int
    server_id: str | None
    stand: JobStand
    progress: str | None
    failure: bytes | None


class KnownJob(msgspec.Struct, frozen=True):
    """What was read of a job before: its state, None for none yet, and how many of its events."""

    stand: JobStand | None
    kept: int


class Known(msgspec.Struct, frozen=True):
    """What was read before of some workspaces, and how much more may be read.

    `places` are by workspace: the number behind which jobs are new, and how many of those are wanted. Events of jobs
    that are executed by the server `server_id` are not read.
    """

    places: Mapping[str, tuple[int, int]]
    jobs: Mapping[str, KnownJob]
    server_id: str
    most_jobs: int
    most_events: int


class Changes(msgspec.Struct):
    """The counts of workspaces, the jobs that have changed or are new, and their new events by the ids of jobs."""

    workspaces: Mapping[str, WorkspaceJobs]
    jobs: list[ChangedJob]
    events: dict[str, Sequence[StoredEvent]] = {}


class Beginning(msgspec.Struct, frozen=True):
    """The counts of a workspace, the oldest of its jobs that have not ended, and how many events are stored of each."""

    workspace: WorkspaceJobs | None
    live: Sequence[ChangedJob]
    kept: Mapping[str, int]


def find_beginning(connection: Connection, workspace_id: str, limit: int) -> Beginning:
    """Read the counts of a workspace, with at most so many jobs."""
    live = [_changed_job(row) for row in _OLDEST_LIVE.run(connection, (workspace_id, limit))]
    kept = {row[0]: row[1] for row in _KEPT.run(connection, sorted(job.id for job in live if job.stand.attempt))}
    return Beginning(_workspaces(connection, [workspace_id]).get(workspace_id), live, kept)


def find_changes(connection: Connection, known: Known) -> Changes:
    """Read what has changed."""
    workspaces_now = _workspaces(connection, known.places)
    changed = [id_ for id_, stand in _stands(connection, known.jobs).items() if known.jobs[id_].stand != stand]
    rows = _JOBS.run(connection, sorted(changed[: known.most_jobs]))
    found = sorted(map(_changed_job, rows), key=lambda job: (job.workspace_id, job.number))
    for workspace_id, stand in workspaces_now.items():
        after, wanted = known.places[workspace_id]
        room = min(wanted, known.most_jobs - len(found))
        if stand.last_number > after and room > 0:
            found += [_changed_job(row) for row in _BEHIND.run(connection, (workspace_id, after, room))]
    changes = Changes(workspaces_now, found)
    for job in found:
        if job.stand.attempt and job.server_id != known.server_id:
            kept = known.jobs[job.id].kept if job.id in known.jobs else 0
            events = _EVENTS.run(connection, (job.id, kept, known.most_events))
            changes.events[job.id] = [StoredEvent(*row) for row in events]
    return changes


def _workspaces(connection: Connection, workspace_ids: Collection[str]) -> dict[str, WorkspaceJobs]:
    rows = _WORKSPACES.run(connection, sorted(workspace_ids))
    return {row[0]: WorkspaceJobs(row[1] + row[2], row[3]) for row in rows}


def _stands(connection: Connection, job_ids: Collection[str]) -> dict[str, JobStand]:
    """The states of jobs; expired ones are left out."""
    rows = _STANDS.run(connection, sorted(job_ids))
    return {row[0]: JobStand(JobState(row[1]), row[2], row[3]) for row in rows}


def _changed_job(row: Sequence[object]) -> ChangedJob:
    id_, workspace_id, chosen_id, number, server_id, state, attempt, updated_at, progress, failure = row
    stand = JobStand(JobState(str(state)), attempt, updated_at)  # type: ignore[arg-type]  # as the columns are
    public_id = chosen_id or id_
    return ChangedJob(id_, workspace_id, public_id, number, server_id, stand, progress, failure)  # type: ignore[arg-type]


_COLUMNS: Final = (
    jobs.c.id, jobs.c.workspace_id, jobs.c.chosen_id, jobs.c.number, jobs.c.server_id, jobs.c.state, jobs.c.attempt,
    jobs.c.updated_at, jobs.c.progress, jobs.c.failure,
)  # fmt: skip
_WORKSPACES: Final = PreparedLookup(
    lambda one_of: select(
        workspaces.c.id, workspaces.c.jobs_active, workspaces.c.jobs_parked, workspaces.c.last_job
    ).where(one_of(workspaces.c.id))
)
_STANDS: Final = PreparedLookup(
    lambda one_of: select(jobs.c.id, jobs.c.state, jobs.c.attempt, jobs.c.updated_at).where(one_of(jobs.c.id))
)
_JOBS: Final = PreparedLookup(lambda one_of: select(*_COLUMNS).where(one_of(jobs.c.id)))
_OLDEST_LIVE: Final = PreparedQuery(
    select(*_COLUMNS)
    .where(jobs.c.workspace_id == bindparam("workspace"), in_state(jobs, LIVE))
    .order_by(jobs.c.number)
    .limit(bindparam("most"))
    .offset(literal_column("0")),  # otherwise the dialect of SQLite adds a parameter
    ("workspace", "most"),
)
_BEHIND: Final = PreparedQuery(
    select(*_COLUMNS)
    .where(jobs.c.workspace_id == bindparam("workspace"), jobs.c.number > bindparam("number"))
    .order_by(jobs.c.number)
    .limit(bindparam("most"))
    .offset(literal_column("0")),  # otherwise the dialect of SQLite adds a parameter
    ("workspace", "number", "most"),
)
_KEPT: Final = PreparedLookup(
    lambda one_of: (
        select(job_events.c.job_id, func.max(job_events.c.number))
        .where(one_of(job_events.c.job_id))
        .group_by(job_events.c.job_id)
    )
)
_EVENTS: Final = PreparedQuery(
    select(job_events.c.number, job_events.c.kind, job_events.c.data, job_events.c.at)
    .where(job_events.c.job_id == bindparam("job"), job_events.c.number > bindparam("number"))
    .order_by(job_events.c.number)
    .limit(bindparam("most"))
    .offset(literal_column("0")),  # otherwise the dialect of SQLite adds a parameter
    ("job", "number", "most"),
)
