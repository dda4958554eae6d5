"""What runs with labels have cost by day and label, added up in the transaction that ends them.

A name has a row of a day for all of its values together, and one for each value. Both are bounded, because labels come
from callers: LABEL_NAMES_MAX names, LABEL_VALUES_MAX values of each. A value beyond that has no row, and counts only
for its name; a name beyond that is not counted. So a row that exists has every run of its day. A value that has a
budget is counted whatever the bounds, from the beginning of the budget's period on.
"""

import functools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Select,
    Subquery,
    TableValuedAlias,
    Text,
    and_,
    case,
    cast,
    column,
    func,
    insert,
    literal,
    or_,
    select,
    union,
    union_all,
)

from fairlead.domain.days import DAY_MS, read_date, start_of
from fairlead.domain.ledger.budgets import BudgetScope, target_of
from fairlead.domain.ledger.usage import LABEL_NAMES_MAX, LABEL_VALUES_MAX, labels_in
from fairlead.domain.runs.states import LIVE, RunState
from fairlead.storage.db.archive_tables import archives
from fairlead.storage.db.budget_tables import budgets, label_days
from fairlead.storage.db.statements import Prepared, insert_in, is_sqlite
from fairlead.storage.db.tables import runs, workspaces
from fairlead.storage.ledger.usage import UsageSums, day_text, text_of_day

EVERY: Final = ""
"""Stands for all values of a name: what a row says of a value begins with `=`."""
_KEY: Final = (label_days.c.workspace_id, label_days.c.day, label_days.c.name, label_days.c.value)
_SUMS: Final = (label_days.c.runs, label_days.c.succeeded, label_days.c.charge)
_NONE: Final = UsageSums()


class LabelKey(NamedTuple):
    """What usage of labels is added up by; `value` is `=` and the value, or EVERY."""

    workspace_id: str
    day: str
    name: str
    value: str


class LabelBook(msgspec.Struct):
    """What the runs of a batch add to the labels of their day; runs without labels add nothing."""

    sums: dict[LabelKey, UsageSums] = {}

    def note(self, workspace_id: str, labels: str | None, finished_at: int, more: UsageSums) -> None:
        """A run has ended, or its charge has changed; `labels` is its JSON, `finished_at` in ms since 1970."""
        if labels is None:
            return
        day = text_of_day(finished_at // DAY_MS)
        for name, value in labels_in(labels).items():
            for counted in (EVERY, f"={value}"):
                key = LabelKey(workspace_id, day, name, counted)
                self.sums[key] = UsageSums(*(a + b for a, b in zip(self.sums.get(key, _NONE), more, strict=True)))

    def addition(
        self, connection: Connection, *, is_correction: bool = False
    ) -> tuple[Prepared, Sequence[tuple[object, ...]]]:
        """The statement that adds them, with its rows; the workspaces are locked. A correction makes no new row."""
        kept = _existing(connection, self.sums)
        if not is_correction:
            kept |= _admitted(connection, kept, self.sums.keys() - kept)
        return _addition(connection.dialect.name), sorted((*key, *self.sums[key]) for key in kept)


@functools.cache
def _addition(dialect: str) -> Prepared:
    statement = insert_in(dialect, label_days)
    more = {one.name: one + statement.excluded[one.name] for one in _SUMS}
    upsert = statement.on_conflict_do_update(index_elements=list(_KEY), set_=more)
    return Prepared(upsert, [one.name for one in (*_KEY, *_SUMS)])


def _by_day(keys: Iterable[LabelKey]) -> Mapping[tuple[str, str], list[LabelKey]]:
    days: dict[tuple[str, str], list[LabelKey]] = defaultdict(list)
    for key in keys:
        days[key[:2]].append(key)
    return days


def _existing(connection: Connection, keys: Iterable[LabelKey]) -> set[LabelKey]:
    """The rows that exist of some."""
    found: set[LabelKey] = set()
    for (workspace_id, day), wanted in _by_day(keys).items():
        names, values = {one.name for one in wanted}, {one.value for one in wanted}
        rows = select(*_KEY).where(*_of_day(workspace_id, day))
        rows = rows.where(label_days.c.name.in_(names), label_days.c.value.in_(values))
        found |= {LabelKey(*row) for row in connection.execute(rows)}.intersection(wanted)
    return found


def _of_day(workspace_id: str, day: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return label_days.c.workspace_id == workspace_id, label_days.c.day == day


def _admitted(connection: Connection, kept: Collection[LabelKey], missing: Iterable[LabelKey]) -> set[LabelKey]:
    """Those of the missing rows that may be made: within the bounds, or for a budget."""
    admitted: set[LabelKey] = set()
    for (workspace_id, day), keys in _by_day(missing).items():
        of_name = {key: LabelKey(workspace_id, day, key.name, EVERY) for key in keys}
        counts = _counts(
            connection, workspace_id, day, {key.name for key in keys if key.value and of_name[key] in kept}
        )
        if any(key.value == EVERY for key in keys):
            counts[EVERY] = _names(connection, workspace_id, day)
        refused = []
        for key in sorted(keys):  # the row of a name comes before those of its values
            counted, most = (key.name, LABEL_VALUES_MAX) if key.value else (EVERY, LABEL_NAMES_MAX)
            if counts[counted] < most and (not key.value or of_name[key] in kept or of_name[key] in admitted):
                counts[counted] += 1
                admitted.add(key)
            else:
                refused.append(key)
        admitted |= _budgeted(connection, refused)
    return admitted


def _counts(connection: Connection, workspace_id: str, day: str, names: Collection[str]) -> dict[str, int]:
    """How many values some names have on a day."""
    counts: dict[str, int] = defaultdict(int)
    if names:
        is_value = label_days.c.name.in_(names), label_days.c.value != EVERY
        values = select(label_days.c.name, func.count()).where(*_of_day(workspace_id, day), *is_value)
        counts |= {row[0]: row[1] for row in connection.execute(values.group_by(label_days.c.name))}
    return counts


def _names(connection: Connection, workspace_id: str, day: str) -> int:
    """How many names have rows on a day, each found behind the one before, as a name may have a thousand rows."""
    least = select(func.min(label_days.c.name).label("name")).where(*_of_day(workspace_id, day))
    names = least.cte("names", recursive=True)
    following = least.where(label_days.c.name > names.c.name).correlate(names).scalar_subquery()
    names = names.union_all(select(following).where(names.c.name.is_not(None)))
    return connection.scalar(select(func.count(names.c.name))) or 0


def _budgeted(connection: Connection, keys: Iterable[LabelKey]) -> set[LabelKey]:
    """Those of some rows whose label has a budget."""
    targets = {target_of(BudgetScope.LABEL, key.workspace_id, key.name + key.value): key for key in keys if key.value}
    if not targets:
        return set()
    found = connection.execute(select(budgets.c.target).where(budgets.c.target.in_(targets)))
    return {targets[target] for target in found.scalars()}


def complete_days(connection: Connection, workspace_id: str, subject: str, since: str) -> None:
    """Make the rows that a label (`name=value`) lacks on days from one on because of the bounds, from its runs.

    Days whose runs were archived stay as they are.
    """
    name, _, value = subject.partition("=")
    full = _full_days(connection, workspace_id, name, since)
    if not full:
        return
    day = day_text(connection, runs.c.finished_at)
    mine = select(label_days.c.day).where(
        label_days.c.workspace_id == workspace_id, label_days.c.name == name, label_days.c.value == f"={value}"
    )
    found = (
        select(
            literal(workspace_id),
            day,
            literal(name),
            literal(f"={value}"),
            func.count(),
            func.sum(case((runs.c.state == RunState.SUCCEEDED, 1), else_=0)),
            func.sum(runs.c.charge),
        )
        .where(runs.c.workspace_id == workspace_id, runs.c.finished_at >= start_of(read_date("since", min(full))))
        .where(has_label(connection, subject), day.in_(full), day.not_in(mine))
        .group_by(day)
    )
    connection.execute(insert(label_days).from_select([*_KEY, *_SUMS], found))


def _full_days(connection: Connection, workspace_id: str, name: str, since: str) -> list[str]:
    """The days from one on whose runs are here and on which a name, or the names, have come to their bounds."""
    of_days = label_days.c.day >= since, label_days.c.day >= first_unarchived(connection)
    days = select(label_days.c.day).where(label_days.c.workspace_id == workspace_id, *of_days)
    values = days.where(label_days.c.name == name, label_days.c.value != EVERY)
    names = days.where(label_days.c.value == EVERY)
    full = union(
        values.group_by(label_days.c.day).having(func.count() >= LABEL_VALUES_MAX),
        names.group_by(label_days.c.day).having(func.count() >= LABEL_NAMES_MAX),
    )
    return list(connection.execute(full).scalars())


def has_label(connection: Connection, subject: str | ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a run has a label, given as `name=value`: a name has no `=`."""
    pair = _pairs(connection)
    is_this = pair.c.key.concat("=").concat(pair.c.value) == subject
    found = select(literal(1)).select_from(pair).where(is_this).correlate_except(pair)
    return and_(runs.c.labels.is_not(None), found.exists())


def wrong_labels(connection: Connection) -> Select[*tuple[object, ...]]:
    """The rows that differ from the runs that ended on their day, and those that are missing within the bounds.

    Of days whose runs were archived nothing is proven.
    """
    counted = union_all(
        select(*_KEY, *_SUMS, literal(1).label("rows")),
        _ended_runs(connection, is_of_name=True),
        _ended_runs(connection, is_of_name=False),
    ).subquery()
    names = [counted.c[one.name] for one in _KEY]
    totals = [func.sum(counted.c[one.name]).label(f"{one.name}_too_many") for one in _SUMS]
    sums = (
        select(*names, *totals, func.sum(counted.c.rows).label("rows"))
        .where(counted.c.day >= first_unarchived(connection))
        .group_by(*names)
        .having(or_(*(total != 0 for total in totals)))
        .subquery()
    )
    told = [one for one in sums.c if one.name not in ("rows", "workspace_id")]
    return (
        select(workspaces.c.name.label("workspace"), *told)
        .join(workspaces, workspaces.c.id == sums.c.workspace_id)
        .where((sums.c.rows > 0) | _is_due(sums))
    )


def _is_due(sums: Subquery) -> ColumnElement[bool]:
    """Whether a row that is missing should be there, by how many others there are."""
    day = label_days.c.workspace_id == sums.c.workspace_id, label_days.c.day == sums.c.day
    of_name = label_days.c.name == sums.c.name

    def count(*conditions: ColumnElement[bool]) -> ColumnElement[int]:
        return select(func.count()).select_from(label_days).where(*day, *conditions).correlate(sums).scalar_subquery()

    has_name = count(of_name, label_days.c.value == EVERY) > 0
    return or_(
        (sums.c.value == EVERY) & (count(label_days.c.value == EVERY) < LABEL_NAMES_MAX),
        (sums.c.value != EVERY) & has_name & (count(of_name, label_days.c.value != EVERY) < LABEL_VALUES_MAX),
    )


def _ended_runs(connection: Connection, *, is_of_name: bool) -> Select[*tuple[object, ...]]:
    """Each label of each run that has ended, in the columns of `label_days`, as negative figures."""
    pair = _pairs(connection)
    value: ColumnElement[str] = literal(EVERY) if is_of_name else literal("=").concat(pair.c.value)
    return (
        select(
            runs.c.workspace_id,
            day_text(connection, runs.c.finished_at).label("day"),
            pair.c.key.label("name"),
            value.label("value"),
            literal(-1).label("runs"),
            case((runs.c.state == RunState.SUCCEEDED, -1), else_=0).label("succeeded"),
            (-runs.c.charge).label("charge"),
            literal(0).label("rows"),
        )
        .select_from(runs, pair)
        .where(runs.c.labels.is_not(None), runs.c.state.not_in(sorted(LIVE)))
    )


def first_unarchived(connection: Connection) -> ColumnElement[str]:
    """The first day of which no run was archived; before every day where there is no archive."""
    before = select(day_text(connection, func.max(archives.c.before))).scalar_subquery()
    return func.coalesce(before, "")


def _pairs(connection: Connection) -> TableValuedAlias:
    """The labels of a run as rows of a key and a value."""
    columns = column("key", Text), column("value", Text)
    labels = runs.c.labels
    found = func.json_each(labels) if is_sqlite(connection) else func.json_each_text(cast(labels, JSON))
    return found.table_valued(*columns, joins_implicitly=True)
