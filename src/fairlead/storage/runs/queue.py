"""The queue of runs as it is read (R-32 to R-35): where a run is, and how many are ahead of it."""

from typing import Final

import msgspec
from sqlalchemy import Connection, and_, bindparam, func, select

from fairlead.domain.runs.states import WAITING, WORKING, RunState
from fairlead.storage.db.tables import runs, workspaces
from fairlead.storage.work.table import WorkTable, in_state

_ONE: Final = select(
    runs.c.id,
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
).where(
    runs.c.id == bindparam("run"),
    runs.c.workspace_id == bindparam("workspace"),
    runs.c.place.is_not(None),
)
QUEUE: Final = WorkTable(
    runs,
    number=runs.c.place,
    begun_at=func.coalesce(runs.c.claimed_at, runs.c.created_at),
    is_waiting=in_state(runs, WAITING),
    is_queued=and_(runs.c.place.is_not(None), runs.c.finished_at.is_(None)),
    is_working=in_state(runs, WORKING),
    is_cancelled=and_(runs.c.cancel_requested_at.is_not(None), runs.c.finished_at.is_(None)),
    parked=workspaces.c.parked,
    has_room=(workspaces.c.in_flight_limit < 0) | (workspaces.c.in_flight < workspaces.c.in_flight_limit),
    waiting=workspaces.c.waiting,
)
"""The runs of all queues. Of those that are worked on, synchronous ones are found too."""


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
    position = QUEUE.count_ahead(connection, workspace_id, row.place) if state in WAITING else None
    return QueuedRun(
        row.id, row.model_id, state, position, row.created_at, row.claimed_at, row.finished_at,
        row.result_fault, row.result_expires_at, row.result_blob, row.result_size,
    )  # fmt: skip
