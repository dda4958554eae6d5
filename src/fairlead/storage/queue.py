"""The queue as it is read (R-32 to R-35): where a run stands, who is ahead of it, what waits for a worker."""

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import Connection, bindparam, func, select

from fairlead.domain.runs.states import WAITING, RunState
from fairlead.storage.entry_statements import in_state
from fairlead.storage.released import ReleasedLookup
from fairlead.storage.tables import run_results, runs, workspaces

_ONE: Final = (
    select(
        runs.c.id,
        runs.c.model_id,
        runs.c.state,
        runs.c.place,
        runs.c.created_at,
        runs.c.claimed_at,
        runs.c.finished_at,
        run_results.c.fault,
        run_results.c.expires_at,
        run_results.c.blob,
        run_results.c.size,
    )
    .outerjoin(run_results, run_results.c.run_id == runs.c.id)
    .where(
        runs.c.id == bindparam("run"),
        runs.c.workspace_id == bindparam("workspace"),
        runs.c.place.is_not(None),
    )
)
_AHEAD: Final = (
    select(func.count())
    .select_from(runs)
    .where(runs.c.workspace_id == bindparam("workspace"), in_state(WAITING), runs.c.place < bindparam("before"))
)

_RELEASED: Final = ReleasedLookup(runs, runs.c.place)


class QueuedRun(msgspec.Struct, frozen=True):
    """A queued run as its owner may see it. Times in ms since 1970; `position` is None once a worker has claimed it.

    `fault` is the failure that is kept of it; `kept_until` is None while it goes on, and when nothing is kept any more.
    `blob` and `size` (bytes) are those of a result that is kept outside of the database.
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


def queued_run(connection: Connection, workspace_id: str, run_id: str) -> QueuedRun | None:
    """A queued run of a workspace; None where it has none of this id."""
    row = connection.execute(_ONE, {"run": run_id, "workspace": workspace_id}).first()
    if row is None:
        return None
    state = RunState(row.state)
    position = _ahead(connection, workspace_id, row.place) if state in WAITING else None
    return QueuedRun(
        row.id, row.model_id, state, position, row.created_at, row.claimed_at, row.finished_at, row.fault,
        row.expires_at, row.blob, row.size,
    )  # fmt: skip


def _ahead(connection: Connection, workspace_id: str, place: int) -> int:
    """How many runs of the workspace wait that were queued before."""
    return int(connection.execute(_AHEAD, {"workspace": workspace_id, "before": place}).scalar_one())


def released_runs(connection: Connection, behind: str, limit: int) -> Sequence[tuple[str, str]]:
    """Runs that wait for a worker, some of each workspace, as `ReleasedLookup.find` says."""
    return _RELEASED.find(connection, behind, limit)


def waiting_since(connection: Connection, before: int, limit: int) -> Sequence[tuple[str, str]]:
    """Runs that have waited since before a time (ms), the oldest first: their ids and those of their workspaces."""
    found = connection.execute(
        select(runs.c.id, runs.c.workspace_id)
        .where(runs.c.place.is_not(None), runs.c.finished_at.is_(None), runs.c.created_at < before, in_state(WAITING))
        .order_by(runs.c.created_at)
        .limit(limit)
    )
    return [(row[0], row[1]) for row in found]


def unwanted_runs(connection: Connection, server_id: str) -> Sequence[str]:
    """The runs a server works on that were cancelled."""
    found = connection.execute(
        select(runs.c.id).where(
            runs.c.server_id == server_id, runs.c.cancel_requested_at.is_not(None), runs.c.finished_at.is_(None)
        )
    )
    return [row[0] for row in found]


def workspaces_with_room(connection: Connection, limit: int) -> Sequence[str]:
    """Workspaces in which runs are parked though a slot is free: their limits were raised."""
    unlimited = workspaces.c.in_flight_limit < 0
    found = connection.execute(
        select(workspaces.c.id)
        .where(workspaces.c.parked > 0, unlimited | (workspaces.c.in_flight < workspaces.c.in_flight_limit))
        .order_by(func.random())  # where some are held back by another cap, the same must not stand first every time
        .limit(limit)
    )
    return [row[0] for row in found]


def depth(connection: Connection) -> tuple[int, int]:
    """How many runs wait in all queues: for a worker or a slot, and of them those that wait for a slot."""
    row = connection.execute(
        select(func.coalesce(func.sum(workspaces.c.waiting), 0), func.coalesce(func.sum(workspaces.c.parked), 0))
    ).one()
    return int(row[0]), int(row[1])
