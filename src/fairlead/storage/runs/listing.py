"""Lists runs, the newest first, by properties and times, in pages of bounded cost.

A page reads a bounded number of runs, whatever its size. One that stopped before it was full says where to go on, so
that a filter with few matches is slow in sum but never in a single call.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, func, select

from fairlead.domain.days import first_id
from fairlead.domain.ledger.usage import labels_in
from fairlead.domain.runs.states import RunState
from fairlead.storage.db.statements import is_sqlite
from fairlead.storage.db.tables import api_keys, runs, workspaces

LOOKED_AT: Final = 5_000
"""How many runs of a workspace a page reads."""
_LISTED: Final = (
    runs.c.id,
    workspaces.c.name,
    runs.c.model_id,
    runs.c.provider,
    runs.c.state,
    runs.c.reason,
    runs.c.key_id,
    api_keys.c.label,
    api_keys.c.hint,
    runs.c.hold,
    runs.c.charge,
    runs.c.place,
    runs.c.created_at,
    runs.c.finished_at,
    runs.c.labels,
)


class RunFilter(msgspec.Struct, frozen=True):
    """A filter of runs; None does not filter. `since` and `until` bound their times (ms, the second excluded).

    `workspace_ids` are those that may be seen, None all; with an `own_key_id` only that key's runs may be.
    """

    workspace_ids: Sequence[str] | None = None
    own_key_id: str | None = None
    state: RunState | None = None
    model_id: str | None = None
    provider: str | None = None
    key_id: str | None = None
    labels: Sequence[tuple[str, str]] = ()
    """Names with their values, all of which a run must have."""
    since: int | None = None
    until: int | None = None
    before: str | None = None


class ListedKey(msgspec.Struct, frozen=True):
    """The API key that a run was called with."""

    id: str
    label: str
    hint: str


class ListedRun(msgspec.Struct, frozen=True):
    """A run as a list has it. Times in ms since 1970, money in 10^-8 dollars."""

    id: str
    workspace: str
    model_id: str
    provider: str
    state: str
    reason: str | None
    key: ListedKey | None
    hold: int
    charge: int | None
    is_queued: bool
    created_at: int
    finished_at: int | None
    labels: Mapping[str, str]


class RunPage(msgspec.Struct, frozen=True):
    """Runs, the newest first, and the id after which the next page begins; None on the last one."""

    runs: list[ListedRun]
    before: str | None


class RunOwner(msgspec.Struct, frozen=True):
    """The owner and the model of a run; `is_queued` where it came through the queue."""

    workspace_id: str
    key_id: str | None
    model_id: str
    is_queued: bool


def list_runs(connection: Connection, wanted: RunFilter, limit: int) -> RunPage:
    """Up to `limit` runs that pass a filter, the newest first."""
    found: list[ListedRun] = []
    stopped_at = ""
    for workspace_id in [None] if wanted.workspace_ids is None else wanted.workspace_ids:
        rows, looked_until = _of_workspace(connection, workspace_id, wanted, limit + 1)
        found += rows
        # Runs of other workspaces beyond the place where this search stopped belong to the next page.
        stopped_at = max(stopped_at, looked_until or "")
    found = sorted((one for one in found if one.id >= stopped_at), key=lambda one: one.id, reverse=True)
    if len(found) > limit:
        return RunPage(found[:limit], found[limit - 1].id)
    return RunPage(found, stopped_at or None)


def owner_of_run(connection: Connection, run_id: str) -> RunOwner | None:
    """The owner of a run; None where there is none of this id."""
    row = connection.execute(
        select(runs.c.workspace_id, runs.c.key_id, runs.c.model_id, runs.c.place).where(runs.c.id == run_id)
    ).first()
    return None if row is None else RunOwner(row.workspace_id, row.key_id, row.model_id, row.place is not None)


def kept_result(connection: Connection, run_id: str, now: int) -> tuple[str | None, bytes | None]:
    """The content type and the small result of a run, while it is stored; None otherwise."""
    row = connection.execute(
        select(runs.c.result_content_type, runs.c.result_content).where(
            runs.c.id == run_id, runs.c.result_expires_at > now
        )
    ).first()
    return (None, None) if row is None else (row.result_content_type, row.result_content)


def _of_workspace(
    connection: Connection, workspace_id: str | None, wanted: RunFilter, limit: int
) -> tuple[list[ListedRun], str | None]:
    """The runs that pass the filter in one workspace, or in all; and where the search stopped, None at the end."""
    passes = _conditions(connection, wanted)
    looked_at = LOOKED_AT if passes else limit
    window = select(runs.c.id).order_by(runs.c.id.desc()).limit(looked_at)
    for condition in _bounds(workspace_id, wanted):
        window = window.where(condition)
    seen = window.subquery()
    passing = (
        select(*_LISTED)
        .select_from(seen)
        .join(runs, runs.c.id == seen.c.id)
        .join(workspaces, workspaces.c.id == runs.c.workspace_id)
        .outerjoin(api_keys, api_keys.c.id == runs.c.key_id)
        .where(*passes)
        .order_by(seen.c.id.desc())
        .limit(limit)
    )
    found = [_listed_run(row) for row in connection.execute(passing)]
    if len(found) == limit:
        return found, found[-1].id
    last = connection.execute(window.offset(looked_at - 1).limit(1)).scalar()
    return found, None if last is None else str(last)


def _conditions(connection: Connection, wanted: RunFilter) -> list[ColumnElement[bool]]:
    """The conditions without an index, which are therefore checked on a bounded number of runs."""
    asked = (
        (runs.c.state, None if wanted.state is None else wanted.state.value),
        (runs.c.model_id, wanted.model_id),
        (runs.c.provider, wanted.provider),
        (runs.c.key_id, wanted.key_id),
        (runs.c.key_id, wanted.own_key_id),
    )
    found = [column == value for column, value in asked if value is not None]
    # A quotation mark in a text is escaped, so that this is found only as a pair of the object.
    pairs = (msgspec.json.encode({name: value}).decode()[1:-1] for name, value in wanted.labels)
    return [*found, *(_has(connection, pair) for pair in pairs)]


def _has(connection: Connection, pair: str) -> ColumnElement[bool]:
    """Whether the labels of a run have a pair; `LIKE` would not tell capitals apart."""
    find = func.instr if is_sqlite(connection) else func.strpos
    return find(runs.c.labels, pair) > 0


def _bounds(workspace_id: str | None, wanted: RunFilter) -> list[ColumnElement[bool]]:
    """The conditions with an index: an id begins with the time at which it was made."""
    bounds: list[ColumnElement[bool]] = []
    if workspace_id is not None:
        bounds.append(runs.c.workspace_id == workspace_id)
    if wanted.before is not None:
        bounds.append(runs.c.id < wanted.before)
    if wanted.since is not None:
        bounds.append(runs.c.id >= first_id(wanted.since))
    if wanted.until is not None:
        bounds.append(runs.c.id < first_id(wanted.until))
    return bounds


def _listed_run(row: Row[*tuple[object, ...]]) -> ListedRun:
    key = None if row.key_id is None else ListedKey(row.key_id, row.label or "", row.hint or "")
    return ListedRun(
        row.id,
        row.name,
        row.model_id,
        row.provider,
        row.state,
        row.reason,
        key,
        row.hold,
        row.charge,
        row.place is not None,
        row.created_at,
        row.finished_at,
        labels_in(row.labels),
    )
