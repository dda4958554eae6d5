"""The account of a workspace for people: its entries in pages, and a month in sums, each at a bounded cost."""

import datetime
from typing import Final

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, Select, func, select

from fairlead.domain.days import start_of
from fairlead.storage.db.tables import api_keys, ledger_entries, runs, usage_days
from fairlead.storage.ledger.usage import NO_KEY

_SLACK_MS: Final = 3_600_000
"""How far apart the clocks of servers may be: entries are in the order of their ids, and nearly in that of time."""
_ENTRIES: Final = select(
    ledger_entries.c.id,
    ledger_entries.c.created_at,
    ledger_entries.c.kind,
    ledger_entries.c.balance_change,
    ledger_entries.c.held_change,
    ledger_entries.c.reason,
    ledger_entries.c.rate_version,
    ledger_entries.c.run_id,
    runs.c.model_id,
    runs.c.key_id,
    runs.c.labels,
).outerjoin(runs, runs.c.id == ledger_entries.c.run_id)
_NEAR: Final = 1_000
_CREDITS_MAX: Final = 1_000
_LINES_MAX: Final = 1_000


class AccountEntry(msgspec.Struct, frozen=True):
    """An entry with the model of its run. Times in ms since 1970, money in 10^-8 dollars."""

    id: int
    at: int
    kind: str
    balance_change: int
    held_change: int
    reason: str
    rate_version: str | None
    run_id: str | None
    model_id: str | None
    key_id: str | None
    labels: str | None = None
    """A JSON object of texts; None for none."""


class CreditLine(msgspec.Struct, frozen=True):
    """Money that was paid in, or corrected."""

    at: int
    amount: int
    reason: str


class SpendingLine(msgspec.Struct, frozen=True):
    """What the runs of a model cost that were called with one key; None stands for tokens."""

    model_id: str
    key_id: str | None
    key_label: str | None
    runs: int
    succeeded: int
    charge: int


class MonthStatement(msgspec.Struct, frozen=True):
    """A month of a workspace: the balance before and after it, what was paid in, and what was spent on each model.

    `credits` and `spending` have a thousand lines at most; `credited` is the sum of all that was paid in.
    """

    opening: int
    closing: int
    credited: int
    credits: list[CreditLine]
    spending: list[SpendingLine]


def list_entries(
    connection: Connection,
    workspace_id: str,
    since: int | None,
    until: int | None,
    before: int | None,
    limit: int,
) -> list[AccountEntry]:
    """Up to `limit` entries of a workspace booked from `since` and before `until` (ms), the newest first.

    Only those before the entry `before`; None bounds nothing.
    """
    entry = ledger_entries.c
    mine = _ENTRIES.where(*_bounds(connection, workspace_id, since, until)).order_by(entry.id.desc()).limit(limit)
    if before is not None:
        mine = mine.where(entry.id < before)
    return [_entry(row) for row in connection.execute(mine)]


def entries_after(
    connection: Connection, workspace_id: str, since: int | None, until: int | None, after: int, limit: int
) -> list[AccountEntry]:
    """Up to `limit` entries of a workspace after one of them, the oldest first; bounded as in `list_entries`."""
    entry = ledger_entries.c
    bounds = _bounds(connection, workspace_id, since, until)
    mine = _ENTRIES.where(*bounds, entry.id > after).order_by(entry.id).limit(limit)
    return [_entry(row) for row in connection.execute(mine)]


def newest_entry(connection: Connection, workspace_id: str) -> int:
    """The id of the newest entry of a workspace; 0 where it has none."""
    mine = select(func.max(ledger_entries.c.id)).where(ledger_entries.c.workspace_id == workspace_id)
    return int(connection.scalar(mine) or 0)


def month_statement(
    connection: Connection, workspace_id: str, first: datetime.date, after: datetime.date
) -> MonthStatement:
    """The days from `first` on and before `after`.

    Charges are those of the usage of days, which adds up to the entries (`fairlead audit`) and has a thousandth of
    their rows; what was paid in is found by an index of its own.
    """
    entry, used = ledger_entries.c, usage_days.c
    paid = select(entry.created_at, entry.balance_change, entry.reason).where(
        entry.workspace_id == workspace_id, entry.run_id.is_(None)
    )
    within = paid.where(entry.created_at >= start_of(first), entry.created_at < start_of(after))
    credited = [CreditLine(*row) for row in connection.execute(within.order_by(entry.id).limit(_CREDITS_MAX))]

    def total(amounts: Select[tuple[int]]) -> int:
        return int(connection.execute(select(func.coalesce(func.sum(amounts.subquery().c[0]), 0))).scalar_one())

    amounts = select(entry.balance_change).where(entry.workspace_id == workspace_id, entry.run_id.is_(None))
    charges = select(used.charge).where(used.workspace_id == workspace_id)
    opening = total(amounts.where(entry.created_at < start_of(first))) - total(
        charges.where(used.day < first.isoformat())
    )
    paid_in = total(amounts.where(entry.created_at >= start_of(first), entry.created_at < start_of(after)))
    charged = total(charges.where(used.day >= first.isoformat(), used.day < after.isoformat()))
    return MonthStatement(
        opening,
        opening + paid_in - charged,
        paid_in,
        credited,
        _spending(connection, workspace_id, first, after),
    )


def _spending(
    connection: Connection, workspace_id: str, first: datetime.date, after: datetime.date
) -> list[SpendingLine]:
    """What was spent by model and key, the most expensive first."""
    used = usage_days.c
    sums = [func.sum(column).label(column.name) for column in (used.runs, used.succeeded, used.charge)]
    spent = (
        select(used.model_id, used.key_id, api_keys.c.label, *sums)
        .outerjoin(api_keys, api_keys.c.id == used.key_id)
        .where(used.workspace_id == workspace_id, used.day >= first.isoformat(), used.day < after.isoformat())
        .group_by(used.model_id, used.key_id, api_keys.c.label)
        .order_by(func.sum(used.charge).desc(), used.model_id, used.key_id)
        .limit(_LINES_MAX)
    )
    return [
        SpendingLine(
            row.model_id,
            None if row.key_id == NO_KEY else row.key_id,
            row.label,
            int(row.runs),
            int(row.succeeded),
            int(row.charge),
        )
        for row in connection.execute(spent)
    ]


def _bounds(
    connection: Connection, workspace_id: str, since: int | None, until: int | None
) -> list[ColumnElement[bool]]:
    """The conditions of a workspace and of times; ids narrow the latter, as no index has times."""
    entry = ledger_entries.c
    bounds = [entry.workspace_id == workspace_id]
    if since is not None:
        first, _ = _around(connection, workspace_id, since - _SLACK_MS)
        bounds += [entry.created_at >= since, entry.id >= first]
    if until is not None:
        _, last = _around(connection, workspace_id, until + _SLACK_MS)
        bounds += [entry.created_at < until, entry.id < last]
    return bounds


def _around(connection: Connection, workspace_id: str, at: int) -> tuple[int, int]:
    """Two ids, near each other, between which a workspace's entries from a time (ms) on begin.

    They are found by halving: of a million entries some ten are read. To the last entry would take as many again, and
    reading a thousand entries more takes less.
    """
    entry = ledger_entries.c
    low, high = 0, newest_entry(connection, workspace_id) + 1
    nearest = select(entry.id, entry.created_at).where(entry.workspace_id == workspace_id).order_by(entry.id).limit(1)
    while high - low > _NEAR:
        middle = (low + high) // 2
        row = connection.execute(nearest.where(entry.id >= middle)).first()
        if row is None or row.created_at >= at:
            high = middle
        else:
            low = row.id + 1
    return low, high


def _entry(row: Row[*tuple[object, ...]]) -> AccountEntry:
    return AccountEntry(
        row.id,
        row.created_at,
        row.kind,
        row.balance_change,
        row.held_change,
        row.reason,
        row.rate_version,
        row.run_id,
        row.model_id,
        row.key_id,
        row.labels,
    )
