"""Reads the queue of runs (R-32 to R-35): the state of a run, and how many are ahead of it."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from sqlalchemy import BigInteger, Connection, and_, bindparam, exists, func, literal_column, select

from fairlead.domain.runs.states import WAITING, WORKING, RunState
from fairlead.storage.db.statements import PreparedLookup, PreparedQuery
from fairlead.storage.db.tables import runs, workspaces
from fairlead.storage.work.table import WorkTable, in_state

_ONE: Final = PreparedQuery(
    select(
        runs.c.model_id,
        runs.c.state,
        runs.c.place,
        runs.c.created_at,
        runs.c.claimed_at,
        runs.c.finished_at,
        runs.c.result_fault,
        runs.c.result_expires_at,
        runs.c.result_blob,
        runs.c.result_size,
        runs.c.provider,
        runs.c.not_before,
        runs.c.cancel_requested_at,
    ).where(
        runs.c.id == bindparam("run"),
        runs.c.workspace_id == bindparam("workspace"),
        runs.c.place.is_not(None),
    ),
    ("run", "workspace"),
)
_IS_DUE: Final = exists(
    select(literal_column("1")).where(
        runs.c.workspace_id == workspaces.c.id,
        in_state(runs, WAITING),
        runs.c.state == literal_column(f"'{RunState.PARKED.value}'"),
        runs.c.not_before <= bindparam("now", type_=BigInteger),
    )
)
"""A workspace has parked runs that need not wait any longer; the condition of states is that of their index."""
QUEUE: Final = WorkTable(
    runs,
    number=runs.c.place,
    begun_at=func.coalesce(runs.c.claimed_at, runs.c.created_at),
    is_waiting=in_state(runs, WAITING),
    is_queued=and_(runs.c.place.is_not(None), runs.c.finished_at.is_(None)),
    is_working=in_state(runs, WORKING),
    is_cancelled=and_(runs.c.cancel_requested_at.is_not(None), runs.c.finished_at.is_(None)),
    parked=workspaces.c.parked,
    has_room=((workspaces.c.in_flight_limit < 0) | (workspaces.c.in_flight < workspaces.c.in_flight_limit)) & _IS_DUE,
    backlog=workspaces.c.waiting,
    waiting=workspaces.c.waiting,
    goes_on=True,
)
"""The runs of all queues; those that are worked on include synchronous ones."""

_CLAIMS_MAX: Final = 20
_OLDEST_WAITING: Final = (
    select(runs.c.id)
    .where(runs.c.workspace_id == bindparam("workspace"), in_state(runs, WAITING))
    .order_by(runs.c.place)
    .limit(1)
    .scalar_subquery()
)
# Ids grow with time, so what was claimed last is found from the head of the queue backwards, however long that is.
_ADMITTED_BEFORE: Final = (
    select(runs.c.claimed_at)
    .where(runs.c.workspace_id == bindparam("workspace"), runs.c.id < _OLDEST_WAITING)
    .order_by(runs.c.id.desc())
    .limit(5 * _CLAIMS_MAX)
    .subquery()
)
_CLAIMS: Final = (
    select(_ADMITTED_BEFORE.c.claimed_at).where(_ADMITTED_BEFORE.c.claimed_at.is_not(None)).limit(_CLAIMS_MAX)
)


class QueuedRun(msgspec.Struct, frozen=True):
    """A queued run as its owner may see it. Times in ms since 1970; `position` is None once a worker has claimed it.

    `fault` is the failure that is kept of it; `kept_until` is None while it goes on, and when nothing is kept any more.
    One that was postponed waits for its `provider`, not to be released before `not_before`; 0 otherwise.
    `blob` and `size` (bytes) are those of a result that is kept outside of the database. `claims` are the times of the
    workspace's last claims by any server, the oldest first, while this one waits.
    """

    run_id: str
    model_id: str
    state: RunState
    position: int | None
    created_at: int
    claimed_at: int | None
    finished_at: int | None
    fault: bytes | None
    kept_until: int | None
    blob: str | None = None
    size: int | None = None
    claims: Sequence[int] = ()
    provider: str = ""
    not_before: int = 0
    cancel_requested_at: int | None = None


def queued_run(connection: Connection, workspace_id: str, run_id: str) -> QueuedRun | None:
    """A queued run of a workspace; None where it has none of this id."""
    rows = _ONE.run(connection, (run_id, workspace_id))
    if not rows:
        return None
    (
        model_id, name, place, created_at, claimed_at, finished_at, fault, kept_until, blob, size, provider, until,
        cancelled_at,
    ) = rows[0]  # fmt: skip
    state = RunState(name)
    position: int | None = None
    claims: Sequence[int] = ()
    if state in WAITING:
        position = QUEUE.count_ahead(connection, workspace_id, place)
        claims = sorted(connection.execute(_CLAIMS, {"workspace": workspace_id}).scalars())
    return QueuedRun(
        run_id, model_id, state, position, created_at, claimed_at, finished_at, fault, kept_until, blob, size, claims,
        provider, until if state is RunState.PARKED else 0, cancelled_at,
    )  # fmt: skip


class RunStand(msgspec.Struct, frozen=True):
    """A stamp of a run's state: when it changes, watchers must read the run again."""

    state: str
    attempt: int
    has_ended: bool


def stands_of(connection: Connection, run_ids: Collection[str]) -> dict[str, RunStand]:
    """The stamps of runs; unknown runs are left out."""
    return {row[0]: RunStand(row[1], row[2], row[3] is not None) for row in _STANDS.run(connection, sorted(run_ids))}


_STANDS: Final = PreparedLookup(
    lambda one_of: select(runs.c.id, runs.c.state, runs.c.attempt, runs.c.finished_at).where(one_of(runs.c.id))
)
