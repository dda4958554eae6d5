"""What runs have cost, added up by day, key and model, in the transaction that ends a run."""

import functools
from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, RowMapping, func, select

from fairlead.domain.days import DAY_MS, day_of
from fairlead.domain.ledger.usage import Grouping, Usage, UsageQuery, UsedKey
from fairlead.storage.db.statements import Prepared, insert_in, is_sqlite
from fairlead.storage.db.tables import api_keys, usage_days, workspaces

NO_KEY: Final = ""
"""Stands for the key of runs that were called with a token."""
_KEY: Final = (usage_days.c.workspace_id, usage_days.c.day, usage_days.c.key_id, usage_days.c.model_id)
_SUMS: Final = (usage_days.c.runs, usage_days.c.succeeded, usage_days.c.charge)


class UsageKey(NamedTuple):
    """What usage is added up by."""

    workspace_id: str
    day: str
    key_id: str
    """Of the API key; NO_KEY for a token."""
    model_id: str


class UsageSums(NamedTuple):
    """How many runs ended, how many of them succeeded, and what was charged (10^-8 dollars)."""

    runs: int = 0
    succeeded: int = 0
    charge: int = 0


@functools.cache
def usage_addition(dialect: str) -> Prepared:
    """The statement whose rows are those of `UsageBook.rows`, in a dialect's SQL."""
    columns = (*_KEY, *_SUMS)
    statement = insert_in(dialect, usage_days)
    more = {column.name: column + statement.excluded[column.name] for column in _SUMS}
    upsert = statement.on_conflict_do_update(index_elements=list(_KEY), set_=more)
    return Prepared(upsert, [column.name for column in columns])


@functools.lru_cache(maxsize=16)
def text_of_day(number: int) -> str:
    """The date of a day counted from 1970; runs end today or yesterday, so a few are remembered."""
    return day_of(number * DAY_MS).isoformat()


def day_text(connection: Connection, time: ColumnElement[int | None]) -> ColumnElement[str]:
    """The UTC date of a time, in a dialect's SQL, as `UsageBook` writes it."""
    seconds = time // 1000
    if is_sqlite(connection):
        return func.date(seconds, "unixepoch")
    return func.to_char(func.timezone("UTC", func.to_timestamp(seconds)), "YYYY-MM-DD")


def usage_of(connection: Connection, workspace_id: str, query: UsageQuery, limit: int) -> list[Usage]:
    """Add up what a workspace has used; at most `limit` rows, in the order of their groups."""
    columns = {Grouping.DAY: usage_days.c.day, Grouping.MODEL: usage_days.c.model_id, Grouping.KEY: usage_days.c.key_id}
    grouped = [columns[one] for one in query.by]
    sums = (
        select(*grouped, *(func.sum(column).label(column.name) for column in _SUMS))
        .where(
            usage_days.c.workspace_id == workspace_id,
            usage_days.c.day.between(query.first.isoformat(), query.last.isoformat()),
        )
        .group_by(*grouped)
        .order_by(*grouped)
        .limit(limit)
        .subquery()
    )
    told = select(sums)
    if Grouping.KEY in query.by:
        told = select(sums, api_keys.c.label, api_keys.c.hint).outerjoin(api_keys, api_keys.c.id == sums.c.key_id)
    # Databases sort texts differently, and a join may change the order.
    rows = sorted(connection.execute(told).mappings(), key=lambda row: [row[column.name] for column in grouped])
    return [_usage(row) for row in rows]


def usage_of_many(
    connection: Connection,
    workspace_ids: Sequence[str] | None,
    key_id: str | None,
    query: UsageQuery,
    limit: int,
    *,
    by_workspace: bool,
) -> list[tuple[str | None, Usage]]:
    """Add up what some workspaces have used, None for all, or one key of them; each row with its workspace's name.

    The name is None where usage is not grouped by workspace. At most `limit` rows, the most expensive first.
    """
    columns = {Grouping.DAY: usage_days.c.day, Grouping.MODEL: usage_days.c.model_id, Grouping.KEY: usage_days.c.key_id}
    grouped = [columns[one] for one in query.by] + ([workspaces.c.name] if by_workspace else [])
    days = usage_days.c.day.between(query.first.isoformat(), query.last.isoformat())
    sums = (
        select(*grouped, *(func.sum(column).label(column.name) for column in _SUMS))
        .select_from(usage_days.join(workspaces, workspaces.c.id == usage_days.c.workspace_id))
        .where(days)
        .group_by(*grouped)
        .order_by(func.sum(usage_days.c.charge).desc(), *grouped)
        .limit(limit)
    )
    if workspace_ids is not None:
        sums = sums.where(usage_days.c.workspace_id.in_(workspace_ids))
    if key_id is not None:
        sums = sums.where(usage_days.c.key_id == key_id)
    found = sums.subquery()
    told = select(found)
    if Grouping.KEY in query.by:
        told = select(found, api_keys.c.label, api_keys.c.hint).outerjoin(api_keys, api_keys.c.id == found.c.key_id)
    rows = connection.execute(told).mappings()
    listed = [(row["name"] if by_workspace else None, _usage(row)) for row in rows]
    return sorted(listed, key=lambda one: (-one[1].charge, one[1].day or "", one[1].model_id or "", one[0] or ""))


def _usage(row: RowMapping) -> Usage:
    """A row of sums; PostgreSQL adds up integers to decimals."""
    key_id = row.get("key_id")
    return Usage(
        runs=int(row["runs"]),
        succeeded=int(row["succeeded"]),
        charge=int(row["charge"]),
        day=row.get("day"),
        model_id=row.get("model_id"),
        key=UsedKey(key_id, row["label"] or "", row["hint"] or "") if key_id else None,
    )
