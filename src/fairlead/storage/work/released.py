"""Finds released runs and jobs for workers: some of every workspace, however many one has (S-03).

A search walks over the partial index of released work of a pool, from one workspace to the next. It reads as many
entries of the index as it returns rows, whether ten are released or a million. So does the search for pools with
released work, and for how much of it.
"""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    FromClause,
    Select,
    String,
    Table,
    TextClause,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    select,
    text,
    true,
    tuple_,
)

from fairlead.domain.work.entries import Released

_BEHIND_ALL: Final = cast(literal_column(str(2**62)), BigInteger)
"""No number of a run or a job is as large."""
_DIALECTS: Final = ("sqlite", "postgresql")


class ReleasedLookup:
    """Finds the released rows of a table. `number` is the column by which those of a workspace are in order.

    The table has an index of its released rows by pool, workspace and number, `ix_<table>_released_pool`.
    """

    def __init__(self, table: Table, number: Column[int]) -> None:
        self._statements: Final = {dialect: _walk(table, number.name, dialect) for dialect in _DIALECTS}
        self._pools: Final = {dialect: _pools(table, dialect) for dialect in _DIALECTS}
        self._counts: Final = {dialect: _count(table, dialect) for dialect in _DIALECTS}

    def find(self, connection: Connection, pool: str, behind: str, limit: int) -> Sequence[Released]:
        """Up to `limit` released rows of a pool: as many of each workspace as there is room for.

        Workspaces whose ids come after `behind` are first, then the others. Where there are more workspaces than
        `limit`, one of each is found, and the last one's workspace is where the next look is to begin.
        """
        # One row of each workspace first: only then is it known how many of them share the limit.
        first = self._round(connection, pool, behind, limit, each=1)
        if not first or len(first) == limit:
            return first
        return self._round(connection, pool, behind, limit, each=limit // len(first))

    def pools(self, connection: Connection, limit: int) -> Sequence[str]:
        """Up to `limit` pools in which there are released rows, in the order of their names."""
        return list(connection.execute(self._pools[connection.dialect.name], {"most": limit}).scalars())

    def count(self, connection: Connection, pool: str, limit: int) -> int:
        """How many released rows a pool has, at most `limit`."""
        statement = self._counts[connection.dialect.name]
        return int(connection.execute(statement, {"pool": pool, "most": limit}).scalar_one())

    def _round(self, connection: Connection, pool: str, behind: str, limit: int, each: int) -> list[Released]:
        """At most `each` rows of each workspace, from one to the next, and once around."""
        found = self._stretch(connection, pool, behind, limit, each)
        if behind and len(found) < limit:
            before = self._stretch(connection, pool, "", limit - len(found), each)
            found += [one for one in before if one.workspace_id <= behind]
        return found

    def _stretch(self, connection: Connection, pool: str, behind: str, limit: int, each: int) -> list[Released]:
        values = {"pool": pool, "behind": behind, "each": each, "most": limit}
        statement = self._statements[connection.dialect.name]
        return [Released(row[0], row[1], pool) for row in connection.execute(statement, values)]


def _walk(table: Table, number: str, dialect: str) -> Select[*tuple[str, str]]:
    """Go from one released row to the next: of the same workspace until there are enough, then of the next one."""
    walk = select(
        cast(null(), String(36)).label("id"),
        cast(bindparam("behind"), String(36)).label("workspace_id"),
        _BEHIND_ALL.label("number"),
        cast(literal_column("0"), BigInteger).label("rank"),
    ).cte("walk", recursive=True)
    reached = case((walk.c.rank < bindparam("each"), walk.c.number), else_=_BEHIND_ALL)
    id_, pool, workspace_id, place = (_other(name) for name in ("id", "pool", "workspace_id", number))
    wanted = bindparam("pool", type_=String)
    following = (
        select(id_.label("id"), workspace_id.label("workspace_id"), place.label("number"))
        .select_from(_rows(table, dialect))
        .where(
            _IS_RELEASED,
            tuple_(pool, workspace_id, place) > tuple_(wanted, walk.c.workspace_id, reached),
            pool <= wanted,  # with an equality, PostgreSQL may take the index without pools
        )
        .order_by(pool, workspace_id, place)
        .limit(1)
        .correlate(walk)
    )
    if dialect == "sqlite":  # it has no lateral joins
        row: FromClause = table.alias("row")
        joined = walk.join(row, row.c.id == following.with_only_columns(id_).scalar_subquery())
        found = row.c.id, row.c.workspace_id, row.c[number]
    else:
        row = following.lateral("row")
        joined = walk.join(row, true())
        found = row.c.id, row.c.workspace_id, row.c.number
    rank = case((row.c.workspace_id == walk.c.workspace_id, walk.c.rank + 1), else_=literal_column("1"))
    walk = walk.union_all(select(*found, rank).select_from(joined))
    return select(walk.c.id, walk.c.workspace_id).where(walk.c.id.is_not(None)).limit(bindparam("most"))


def _pools(table: Table, dialect: str) -> Select[*tuple[str]]:
    """Go from the name of one pool with released rows to the next."""
    # By itself neither database skips from one value of an index to the next, and DISTINCT would read every row.
    walk = select(cast(literal_column("''"), String(32)).label("pool")).cte("pools", recursive=True)
    pool: ColumnElement[str] = _other("pool")
    following = select(pool).select_from(_rows(table, dialect)).where(_IS_RELEASED, pool > walk.c.pool)
    after = following.order_by(pool).limit(1).correlate(walk).scalar_subquery()
    walk = walk.union_all(select(after).select_from(walk).where(walk.c.pool.is_not(None)))
    return select(walk.c.pool).where(walk.c.pool != literal_column("''")).limit(bindparam("most"))


def _count(table: Table, dialect: str) -> Select[*tuple[int]]:
    """Count the released rows of a pool."""
    pool, wanted = _other("pool"), bindparam("pool", type_=String)
    # Two bounds instead of an equality, for the reason that `_walk` gives.
    rows = select(pool).select_from(_rows(table, dialect)).where(_IS_RELEASED, pool >= wanted, pool <= wanted)
    return select(func.count()).select_from(rows.limit(bindparam("most")).subquery())


def _rows(table: Table, dialect: str) -> TextClause:
    """The rows of a table as `other`, by the index of released ones, which SQLite would not choose by itself."""
    told = f" INDEXED BY ix_{table.name}_released_pool" if dialect == "sqlite" else ""
    return text(f"{table.name} AS other{told}")


def _other(name: str) -> ColumnElement[Any]:
    """A column of the table that is walked over, under the name it has there."""
    return literal_column(f"other.{name}")


_IS_RELEASED: Final = _other("state") == literal_column("'released'")
