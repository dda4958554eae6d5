"""The accounts of runs: of one in full, and of the newest of a workspace."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, select

from fairlead.storage.db.tables import (
    api_keys,
    ledger_entries,
    run_events,
    runs,
    webhook_deliveries,
    webhook_tries,
    workspaces,
)

_LINES_MAX: Final = 1000
"""The most entries, events and attempts that are shown of one run; a run has a handful of each."""
_TOLD: Final = (
    runs.c.id,
    workspaces.c.name.label("workspace"),
    runs.c.model_id,
    runs.c.provider,
    runs.c.key_id,
    api_keys.c.label.label("key_label"),
    api_keys.c.hint.label("key_hint"),
    runs.c.state,
    runs.c.attempt,
    runs.c.place,
    runs.c.operation,
    runs.c.strict,
    runs.c.byok,
    runs.c.redirected,
    runs.c.handle,
    runs.c.credential,
    runs.c.least,
    runs.c.hold,
    runs.c.charge,
    runs.c.rate_version,
    runs.c.reason,
    runs.c.upstream_status,
    runs.c.caller_left,
    runs.c.dropped,
    runs.c.labels,
    runs.c.created_at,
    runs.c.claimed_at,
    runs.c.cancel_requested_at,
    runs.c.finished_at,
)
"""Neither the body nor the result: an account is no place for them."""
_RUNS: Final = (
    select(*_TOLD, runs.c.result_expires_at.label("result_kept_until"))
    .join(workspaces, workspaces.c.id == runs.c.workspace_id)
    .outerjoin(api_keys, api_keys.c.id == runs.c.key_id)
)
_ONE: Final = _RUNS.add_columns(runs.c.most).where(runs.c.id == bindparam("run"))
_WEBHOOK: Final = select(webhook_deliveries).where(webhook_deliveries.c.run_id == bindparam("run"))


class RunRows(NamedTuple):
    """All rows of one run: itself, its entries, its events, its webhook, and the attempts to deliver that.

    Each oldest first; `webhook` is None where there is none.
    """

    run: dict[str, object]
    entries: list[dict[str, object]]
    events: list[dict[str, object]]
    webhook: dict[str, Any] | None
    tries: list[dict[str, object]]


def rows_of_run(connection: Connection, run_id: str) -> RunRows | None:
    """All rows of a run; None where there is none of this id."""
    run = _first(connection, _ONE, run_id)
    if run is None:
        return None
    booked, happened, tried = ledger_entries.c, run_events.c, webhook_tries.c
    return RunRows(
        run=run,
        entries=_of_run(
            connection,
            ledger_entries,
            (
                booked.created_at,
                booked.kind,
                booked.balance_change,
                booked.held_change,
                booked.reason,
                booked.rate_version,
            ),
            run_id,
        ),
        events=_of_run(connection, run_events, (happened.at, happened.kind, happened.attempt, happened.detail), run_id),
        webhook=_first(connection, _WEBHOOK, run_id),
        tries=_of_run(
            connection,
            webhook_tries,
            (tried.at, tried.number, tried.status, tried.milliseconds, tried.error),
            run_id,
        ),
    )


def newest_runs(connection: Connection, workspace_id: str, state: str | None, limit: int) -> list[dict[str, object]]:
    """The newest runs of a workspace, in one state or in any, oldest first."""
    # A run's id begins with the time it was made.
    newest = _RUNS.where(runs.c.workspace_id == workspace_id).order_by(runs.c.id.desc()).limit(limit)
    if state is not None:
        newest = newest.where(runs.c.state == state)
    return [dict(row) for row in reversed(connection.execute(newest).mappings().all())]


def shown_url(url: str) -> str:
    """An address without its query, which may be a secret."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _first(connection: Connection, query: Select[*tuple[object, ...]], run_id: str) -> dict[str, object] | None:
    row = connection.execute(query, {"run": run_id}).mappings().first()
    return None if row is None else dict(row)


def _of_run(
    connection: Connection, table: Table, columns: Sequence[ColumnElement[object]], run_id: str
) -> list[dict[str, object]]:
    found = select(*columns).where(table.c.run_id == run_id).order_by(table.c.id).limit(_LINES_MAX)
    return [dict(row) for row in connection.execute(found).mappings()]
