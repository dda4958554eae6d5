"""Runs: whose they are, taking them over from servers that fell silent, and finding them again."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from fairlead.domain.runs.entries import LiveRun, Stray
from fairlead.domain.runs.states import WORKING, RunEvent, RunState, advance
from fairlead.storage.entry_statements import INSERT_EVENT, LIVE_RUN_COLUMNS, in_state, live_run
from fairlead.storage.tables import runs, servers, workspaces

_NOBODY = "nobody"
"""Owns the runs that a server has let go; never seen alive."""


def announce_server(connection: Connection, server_id: str, now: int, forget_before: int) -> None:
    """Say that a server is alive: its runs are its own until it falls silent. Forgets servers long silent."""
    if connection.execute(update(servers).where(servers.c.id == server_id).values(seen_at=now)).rowcount == 0:
        connection.execute(insert(servers).values(id=server_id, seen_at=now))
    owners = select(runs.c.server_id).where(in_state(WORKING))
    connection.execute(servers.delete().where(servers.c.seen_at < forget_before, servers.c.id.not_in(owners)))


def take_over_orphans(connection: Connection, server_id: str, silent_since: int, limit: int, now: int) -> list[LiveRun]:
    """Claim up to `limit` runs that a server worked on which has not been seen since, raising each run's attempt.

    The old owner's writes name the old attempt and so find nothing to change.
    """
    silent = _silent_owners(connection, server_id, silent_since)
    if not silent:
        return []
    orphans = connection.execute(
        select(*LIVE_RUN_COLUMNS, workspaces.c.name)
        .join(workspaces, workspaces.c.id == runs.c.workspace_id)
        .where(in_state(WORKING), runs.c.server_id.in_(silent))
        .limit(limit)
        .with_for_update(skip_locked=True, of=runs)
    ).all()
    found = sorted((live_run(row) for row in orphans), key=lambda run: run.run_id)
    return [_take_over(connection, run, server_id, now) for run in found]


def _silent_owners(connection: Connection, server_id: str, silent_since: int) -> list[str]:
    """The servers that runs belong to and that were not seen since, without the one that asks.

    Asked apart from their runs, because together SQLite would read every run there ever was.
    """
    owners = set(connection.execute(select(runs.c.server_id).where(in_state(WORKING)).distinct()).scalars())
    alive = connection.execute(select(servers.c.id).where(servers.c.seen_at > silent_since)).scalars()
    return sorted(owners - {server_id, *alive})


def _take_over(connection: Connection, found: LiveRun, server_id: str, now: int) -> LiveRun:
    state, attempt = advance(found.state, RunEvent.TAKE_OVER), found.attempt + 1
    connection.execute(
        update(runs)
        .where(runs.c.id == found.run_id, runs.c.attempt == found.attempt)
        .values(state=state, attempt=attempt, server_id=server_id)
    )
    detail = f"its server fell silent while the run was {found.state}"
    INSERT_EVENT.run(connection, [(found.run_id, "taken over", attempt, detail, now)])
    return replace(found, state=state, attempt=attempt)


def live_runs_of(connection: Connection, server_id: str, begun_before: int) -> list[Stray]:
    """The runs a server should work on, and was given before a time."""
    rows = connection.execute(
        select(
            runs.c.id,
            runs.c.workspace_id,
            runs.c.attempt,
            runs.c.rate_version,
            runs.c.idempotency_id,
            runs.c.place,
            runs.c.handle,
        ).where(
            in_state(WORKING),
            runs.c.server_id == server_id,
            func.coalesce(runs.c.claimed_at, runs.c.created_at) < begun_before,
        )
    )
    return [Stray(*row) for row in rows]


def let_go(connection: Connection, stray: Stray, server_id: str) -> None:
    """Make a run nobody's, so that the next takeover finds it."""
    connection.execute(
        update(runs)
        .where(runs.c.id == stray.run_id, runs.c.attempt == stray.attempt, runs.c.server_id == server_id)
        .where(in_state(WORKING))
        .values(server_id=_NOBODY)
    )


def operation_of_work(connection: Connection, workspace_id: str, handle: str) -> str | None:
    """What the run was billed as whose work a partner named so (R-16); None when this workspace has no such run."""
    found = connection.execute(
        select(runs.c.operation)
        .where(runs.c.workspace_id == workspace_id, runs.c.handle == handle, runs.c.operation.is_not(None))
        .order_by(runs.c.id.desc())
        .limit(1)
    ).scalar()
    return None if found is None else str(found)


def lost_runs(connection: Connection, limit: int) -> list[dict[str, Any]]:
    """The newest runs whose outcome could not be known: voided, and named here for an operator to look into."""
    rows = connection.execute(
        select(runs.c.id, runs.c.workspace_id, runs.c.model_id, runs.c.provider, runs.c.hold, runs.c.finished_at)
        .where(runs.c.state == RunState.LOST)
        .order_by(runs.c.finished_at.desc())
        .limit(limit)
    ).mappings()
    return [dict(row) for row in rows]
