"""What is spent and held of budgets, by the runs and the usage that count against them."""

from collections.abc import Collection

from sqlalchemy import Column, ColumnElement, Connection, ScalarSelect, Table, and_, func, or_, select, true

from fairlead.domain.days import DAY_MS, day_of
from fairlead.domain.ledger.budgets import (
    Budget,
    BudgetPeriod,
    BudgetReset,
    BudgetScope,
    PeriodStart,
    Weekday,
    period_start,
)
from fairlead.domain.runs.states import WAITING, WORKING
from fairlead.domain.time_zones import UTC
from fairlead.storage.db.budget_tables import budgets, label_days
from fairlead.storage.db.tables import CHARGED, api_keys, runs, usage_days
from fairlead.storage.ledger.label_books import EVERY, complete_days, has_label
from fairlead.storage.work.table import AHEAD_MS, in_state


def reset_of(time_zone: str, minute: int, weekday: str) -> BudgetReset:
    """When periods of a budget begin, from its columns."""
    return BudgetReset(time_zone, minute, Weekday(weekday))


def is_to_be_given_up(start: PeriodStart, now: int) -> bool:
    """Whether a period begins later than the time (ms) of the database's clock, as a clock that was ahead began it.

    Or on another day than its time is of: a server of an earlier version, which begins periods at midnight, began it.
    """
    return start.moment > now + AHEAD_MS or (start.at > 0 and day_of(start.at).isoformat() != start.since)


def spent_since(
    connection: Connection, budget_id: str, start: PeriodStart, ended: Collection[object] = ()
) -> tuple[int, int]:
    """What a budget has spent since a time, by the usage of days; and what it had before that time on its day.

    `ended` are runs that have ended and are not in the usage of their day yet.
    """

    def charges(table: Table, *conditions: ColumnElement[bool]) -> int:
        total = select(func.coalesce(func.sum(table.c.charge), 0)).select_from(budgets)
        of_budget = budgets.c.id == budget_id, counts_against(connection, table)
        return int(connection.execute(total.join(table, and_(*of_budget)).where(*conditions)).scalar_one())

    of_days = sum(charges(table, table.c.day >= start.since) for table in (usage_days, label_days))
    before = charges(runs, ended_before(start.at), runs.c.id.not_in(ended)) if start.at else 0
    return of_days - before, before


def ended_before(at: int | Column[int]) -> ColumnElement[bool]:
    """The condition that a run was charged for, and ended on the day (UTC) of a time (ms), before that time."""
    return and_(CHARGED, runs.c.finished_at >= at - at % DAY_MS, runs.c.finished_at < at)


def spent_before(connection: Connection) -> ScalarSelect[int]:
    """For a row of budgets: the charges of runs on the day on which its period began, before it."""
    charges = select(func.coalesce(func.sum(runs.c.charge), 0))
    is_before = counts_against(connection, runs), ended_before(budgets.c.since_at)
    return charges.where(*is_before).correlate(budgets).scalar_subquery()


def earliest_shared_day(connection: Connection, now: int) -> int | None:
    """The earliest day (its start, in ms since 1970) on which the current period of a budget began after the day did.

    None where all began with a day. The runs of such days are needed beside the usage of the day.
    """
    terms = budgets.c.time_zone, budgets.c.reset_minute, budgets.c.reset_weekday
    found = select(budgets.c.period, *terms).where((budgets.c.time_zone != UTC) | (budgets.c.reset_minute != 0))
    starts = [
        period_start(BudgetPeriod(period), reset_of(*reset), now).at
        for period, *reset in connection.execute(found.distinct())
    ]
    return min((at - at % DAY_MS for at in starts if at), default=None)


def charges_of(connection: Connection, table: Table) -> ColumnElement[int]:
    """What the usage of a table says that a row of budgets has spent; a budget counts in one of the two tables."""
    return (
        select(func.coalesce(func.sum(table.c.charge), 0))
        .where(counts_against(connection, table), table.c.day >= budgets.c.since)
        .correlate(budgets)
        .scalar_subquery()
    )


def counts_against(connection: Connection, table: Table) -> ColumnElement[bool]:
    """The condition that a row of runs, or of usage by key and model or by label, counts against a row of budgets."""
    conditions = _conditions(connection, table, budgets.c.workspace_id, budgets.c.subject)
    matches = or_(*((budgets.c.scope == scope.value) & condition for scope, condition in conditions.items()))
    return and_(table.c.workspace_id == budgets.c.workspace_id, matches)


def _conditions(
    connection: Connection, table: Table, workspace_id: str | Column[str], subject: str | Column[str]
) -> dict[BudgetScope, ColumnElement[bool]]:
    """The conditions for rows of a workspace's runs or usage to count, by the scope of a budget."""
    if table is label_days:
        return {BudgetScope.LABEL: (table.c.value != EVERY) & (table.c.name.concat(table.c.value) == subject)}
    is_of_team = (api_keys.c.workspace_id == workspace_id) & (api_keys.c.team == subject)
    return {
        BudgetScope.WORKSPACE: true(),
        BudgetScope.TEAM: table.c.key_id.in_(select(api_keys.c.id).where(is_of_team).correlate(budgets)),
        BudgetScope.KEY: table.c.key_id == subject,
        BudgetScope.MODEL: table.c.model_id == subject,
        **({BudgetScope.LABEL: has_label(connection, subject)} if table is runs else {}),
    }


def count_figures(
    connection: Connection, workspace_id: str, scope: BudgetScope, subject: str, budget: Budget, now: int
) -> dict[str, object]:
    """What is spent of a budget in the period of a time (ms since 1970), and held."""
    start = period_start(budget.period, budget.reset, now)

    def total(column: Column[int], *conditions: ColumnElement[bool]) -> int:
        table = column.table
        of_budget = _conditions(connection, table, workspace_id, subject)[scope]
        mine = select(func.coalesce(func.sum(column), 0)).where(table.c.workspace_id == workspace_id, of_budget)
        return int(connection.execute(mine.where(*conditions)).scalar_one())

    # Live runs are found by two indexes: those under way, and those that wait.
    held = total(runs.c.hold, in_state(runs, WORKING)) + total(runs.c.hold, in_state(runs, WAITING))
    usage = label_days if scope is BudgetScope.LABEL else usage_days
    if scope is BudgetScope.LABEL:
        complete_days(connection, workspace_id, subject, start.since)
    before = total(runs.c.charge, ended_before(start.at)) if start.at else 0
    spent = total(usage.c.charge, usage.c.day >= start.since) - before
    began = {"since": start.since, "since_at": start.at, "spent_before": before}
    return {**began, "spent": spent, "held": held, "told_refusal": False}
