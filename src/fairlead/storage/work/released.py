"""Released runs and jobs as workers look for them: some of every workspace, however many one has (S-03).

A look walks over the partial index of what is released, from one workspace to the next. It reads as many entries of
the index as it returns rows, whether ten are released or a million.
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
    bindparam,
    case,
    cast,
    literal_column,
    null,
    select,
    text,
    true,
    tuple_,
)

_BEHIND_ALL: Final = cast(literal_column(str(2**62)), BigInteger)
"""No number of a run or a job is as large."""


class ReleasedLookup:
    """Finds the released rows of a table. `number` is the column by which those of a workspace are in order.

    The table has an index of its released rows by workspace and number, `ix_<table>_released`.
    """

    def __init__(self, table: Table, number: Column[int]) -> None:
        self._statements: Final = {dialect: _walk(table, number.name, dialect) for dialect in ("sqlite", "postgresql")}

    def find(self, connection: Connection, behind: str, limit: int) -> Sequence[tuple[str, str]]:
        """Up to `limit` rows that are released, with their workspaces: as many of each workspace as there is room for.

        Those of workspaces whose ids are behind `behind` come first, then the others. Where there are more workspaces
        than `limit`, one of each is found, and the last one's workspace is where the next look is to begin.
        """
        first = self._round(connection, behind, limit, each=1)
        if not first or len(first) == limit:
            return first
        return self._round(connection, behind, limit, each=limit // len(first))

    def _round(self, connection: Connection, behind: str, limit: int, each: int) -> list[tuple[str, str]]:
        """At most `each` rows of each workspace, from one to the next, and once around."""
        found = self._stretch(connection, behind, limit, each)
        if behind and len(found) < limit:
            before = self._stretch(connection, "", limit - len(found), each)
            found += [(id_, workspace_id) for id_, workspace_id in before if workspace_id <= behind]
        return found

    def _stretch(self, connection: Connection, behind: str, limit: int, each: int) -> list[tuple[str, str]]:
        values = {"behind": behind, "each": each, "most": limit}
        statement = self._statements[connection.dialect.name]
        return [(row[0], row[1]) for row in connection.execute(statement, values)]


def _walk(table: Table, number: str, dialect: str) -> Select[Any]:
    """Go from one released row to the next: of the same workspace until there are enough, then of the next one."""
    walk = select(
        cast(null(), String(36)).label("id"),
        cast(bindparam("behind"), String(36)).label("workspace_id"),
        _BEHIND_ALL.label("number"),
        cast(literal_column("0"), BigInteger).label("rank"),
    ).cte("walk", recursive=True)
    reached = case((walk.c.rank < bindparam("each"), walk.c.number), else_=_BEHIND_ALL)
    # SQLite takes another index with the same first columns unless it is told which.
    told = f" INDEXED BY ix_{table.name}_released" if dialect == "sqlite" else ""
    id_, workspace_id, place = (_other(name) for name in ("id", "workspace_id", number))
    following = (
        select(id_.label("id"), workspace_id.label("workspace_id"), place.label("number"))
        .select_from(text(f"{table.name} AS other{told}"))
        .where(
            _other("state") == literal_column("'released'"),
            tuple_(workspace_id, place) > tuple_(walk.c.workspace_id, reached),
        )
        .order_by(workspace_id, place)
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


def _other(name: str) -> ColumnElement[object]:
    """A column of the table that is walked over, under the name it has there."""
    return literal_column(f"other.{name}")
