"""What was used by label, read from the sums of `label_books` and from those of all runs."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec
from sqlalchemy import Column, ColumnElement, Connection, Select, Table, func, literal, select

from fairlead.domain.ledger.usage import Grouping, Usage, UsageQuery, UsedLabel
from fairlead.storage.db.budget_tables import label_days
from fairlead.storage.db.statements import Rows
from fairlead.storage.db.tables import usage_days, workspaces
from fairlead.storage.ledger.label_books import EVERY
from fairlead.storage.ledger.usage import UsageSums

_Group: TypeAlias = tuple[str, ...]
"""The day and the name of the workspace, of those that usage is grouped by."""
_LISTED, _OTHERS, _WITHOUT = range(3)
"""The order of rows in a group."""
_NONE: Final = UsageSums()


def usage_of_labels(
    connection: Connection,
    workspace_ids: Sequence[str] | None,
    query: UsageQuery,
    limit: int,
    *,
    by_workspace: bool,
) -> list[tuple[str | None, Usage]]:
    """Add up what some workspaces have used, None for all, by the values of a label, or of one value.

    Each row comes with its workspace's name, None where usage is not grouped by workspace. In each group, values that
    are not counted apart come together after the others, and runs without the label last, so that the rows are all
    usage. Of more than `limit` values not all are read.
    """
    reader = _Reader(connection, workspace_ids, query, by_workspace)
    if query.label is not None:
        name, value = query.label
        mine = label_days.c.name == name, label_days.c.value == f"={value}"
        return [reader.row(group, sums) for group, sums in sorted(reader.sums(label_days, *mine).items())]
    name = query.label_name or ""
    of_name = label_days.c.name == name
    values = reader.values(of_name, limit)
    others = reader.sums(label_days, of_name, label_days.c.value == EVERY)
    without = {group: _less(sums, others.get(group, _NONE)) for group, sums in reader.sums(usage_days).items()}
    for (group, _), sums in values.items():
        others[group] = _less(others.get(group, _NONE), sums)
    rows = [(group, _LISTED, UsedLabel(name, value[1:]), sums) for (group, value), sums in values.items()]
    rows += [(group, _OTHERS, UsedLabel(name, None), sums) for group, sums in others.items() if sums.runs]
    shown = [(group, rank, label.value or "", reader.row(group, sums, label)) for group, rank, label, sums in rows]
    shown += [(group, _WITHOUT, "", reader.row(group, sums)) for group, sums in without.items() if sums.runs]
    return [row for *_, row in sorted(shown, key=lambda one: one[:3])]


class _Reader(msgspec.Struct, frozen=True):
    """Reads sums in the groups of a query; PostgreSQL adds up integers to decimals."""

    connection: Connection
    workspace_ids: Sequence[str] | None
    query: UsageQuery
    by_workspace: bool

    def sums(self, table: Table, *conditions: ColumnElement[bool]) -> dict[_Group, UsageSums]:
        """The sums of each group."""
        found: Rows = self.connection.execute(self._select(table, [], conditions)).all()
        return {tuple(row[:-3]): UsageSums(*map(int, row[-3:])) for row in found}

    def values(self, of_name: ColumnElement[bool], limit: int) -> dict[tuple[_Group, str], UsageSums]:
        """The sums of each group and value of a name, up to a limit."""
        value = label_days.c.value
        # A value that has a budget is counted on days on which its name is not.
        name = label_days.alias()
        keys = [name.c[key] == label_days.c[key] for key in ("workspace_id", "day", "name")]
        has_name = select(literal(1)).where(*keys, name.c.value == EVERY).correlate(label_days).exists()
        wanted = self._select(label_days, [value], (of_name, value != EVERY, has_name)).limit(limit)
        found: Rows = self.connection.execute(wanted).all()
        return {(tuple(row[:-4]), row[-4]): UsageSums(*map(int, row[-3:])) for row in found}

    def row(self, group: _Group, sums: UsageSums, label: UsedLabel | None = None) -> tuple[str | None, Usage]:
        """A row of usage, with the name of its workspace."""
        day = group[0] if Grouping.DAY in self.query.by else None
        return group[-1] if self.by_workspace else None, Usage(*sums, day=day, label=label)

    def _select(
        self, table: Table, more: Sequence[Column[str]], conditions: Sequence[ColumnElement[bool]]
    ) -> Select[*tuple[object, ...]]:
        days = [table.c.day] if Grouping.DAY in self.query.by else []
        grouped = [*days, *([workspaces.c.name] if self.by_workspace else []), *more]
        first, last = self.query.first.isoformat(), self.query.last.isoformat()
        found = (
            select(*grouped, *(func.coalesce(func.sum(table.c[name]), 0) for name in UsageSums._fields))
            .select_from(table.join(workspaces, workspaces.c.id == table.c.workspace_id))
            .where(table.c.day.between(first, last), *conditions)
            .group_by(*grouped)
            .having(func.count() > 0)
        )
        return found if self.workspace_ids is None else found.where(table.c.workspace_id.in_(self.workspace_ids))


def _less(more: UsageSums, sums: UsageSums) -> UsageSums:
    return UsageSums(*(a - b for a, b in zip(more, sums, strict=True)))
