"""Finds runs by their owner or their work, and releases them."""

from sqlalchemy import Connection, select, update

from fairlead.domain.runs.entries import Stray
from fairlead.domain.runs.states import WORKING, RunState
from fairlead.storage.db.tables import runs
from fairlead.storage.work.table import in_state

_NOBODY = "nobody"
"""The owner of the runs that a server has released; it is never alive."""


def find_stray(connection: Connection, run_id: str) -> Stray | None:
    """A run that a server works on, for voiding it; None where it has ended."""
    row = connection.execute(
        select(
            runs.c.id,
            runs.c.workspace_id,
            runs.c.attempt,
            runs.c.rate_version,
            runs.c.idempotency_id,
            runs.c.place,
            runs.c.handle,
            runs.c.postponed,
        ).where(runs.c.id == run_id, in_state(runs, WORKING))
    ).first()
    return None if row is None else Stray(*row)


def let_go(connection: Connection, stray: Stray, server_id: str) -> None:
    """Release a run, so that the next takeover finds it."""
    connection.execute(
        update(runs)
        .where(runs.c.id == stray.run_id, runs.c.attempt == stray.attempt, runs.c.server_id == server_id)
        .where(in_state(runs, WORKING))
        .values(server_id=_NOBODY)
    )


def operation_of_work(connection: Connection, workspace_id: str, handle: str) -> str | None:
    """Billing operation of the run that owns this partner handle (R-16); None when this workspace has no such run."""
    found = connection.execute(
        select(runs.c.operation)
        .where(runs.c.workspace_id == workspace_id, runs.c.handle == handle, runs.c.operation.is_not(None))
        .order_by(runs.c.id.desc())
        .limit(1)
    ).scalar()
    return None if found is None else str(found)


def lost_runs(connection: Connection, limit: int) -> list[dict[str, object]]:
    """The newest runs whose outcome could not be found out: voided, and listed for an operator to look into."""
    rows = connection.execute(
        select(runs.c.id, runs.c.workspace_id, runs.c.model_id, runs.c.provider, runs.c.hold, runs.c.finished_at)
        .where(runs.c.state == RunState.LOST)
        .order_by(runs.c.finished_at.desc())
        .limit(limit)
    ).mappings()
    return [dict(row) for row in rows]
