"""What is spent and held of budgets, by the runs and the usage that count against them."""

import datetime

from sqlalchemy import Column, ColumnElement, Connection, Table, and_, func, or_, select, true

from fairlead.domain.days import day_of
from fairlead.domain.ledger.budgets import BudgetPeriod, BudgetScope, period_start
from fairlead.domain.runs.states import WAITING, WORKING
from fairlead.storage.db.budget_tables import budgets
from fairlead.storage.db.tables import api_keys, runs, usage_days
from fairlead.storage.work.table import AHEAD_MS, in_state


def lies_ahead(since: str, now: int) -> bool:
    """Whether a period begins later than the time (ms) of the database's clock: a clock that was ahead began it."""
    return since > day_of(now + AHEAD_MS).isoformat()


def spent_since(connection: Connection, budget_id: str, since: str) -> int:
    """What a budget has spent since a day, by the usage of its days."""
    charges = select(func.coalesce(func.sum(usage_days.c.charge), 0)).select_from(budgets)
    of_budget = budgets.c.id == budget_id, counts_against(usage_days), usage_days.c.day >= since
    return int(connection.execute(charges.join(usage_days, and_(*of_budget))).scalar_one())


def counts_against(table: Table) -> ColumnElement[bool]:
    """The condition that a row of runs, or of usage, counts against a row of budgets."""
    conditions = _conditions(table, budgets.c.workspace_id, budgets.c.subject)
    matches = or_(*((budgets.c.scope == scope.value) & condition for scope, condition in conditions.items()))
    return and_(table.c.workspace_id == budgets.c.workspace_id, matches)


def _conditions(
    table: Table, workspace_id: str | Column[str], subject: str | Column[str]
) -> dict[BudgetScope, ColumnElement[bool]]:
    """The conditions for rows of a workspace's runs or usage to count, by the scope of a budget."""
    is_of_team = (api_keys.c.workspace_id == workspace_id) & (api_keys.c.team == subject)
    return {
        BudgetScope.WORKSPACE: true(),
        BudgetScope.TEAM: table.c.key_id.in_(select(api_keys.c.id).where(is_of_team).correlate(budgets)),
        BudgetScope.KEY: table.c.key_id == subject,
        BudgetScope.MODEL: table.c.model_id == subject,
    }


def count_figures(
    connection: Connection,
    workspace_id: str,
    scope: BudgetScope,
    subject: str,
    period: BudgetPeriod,
    today: datetime.date,
) -> dict[str, object]:
    """What is spent of a budget in today's period, and held."""
    since = period_start(period, today).isoformat()

    def total(column: Column[int], *conditions: ColumnElement[bool]) -> int:
        table = column.table
        of_budget = _conditions(table, workspace_id, subject)[scope]
        mine = select(func.coalesce(func.sum(column), 0)).where(table.c.workspace_id == workspace_id, of_budget)
        return int(connection.execute(mine.where(*conditions)).scalar_one())

    # Live runs are found by two indexes: those under way, and those that wait.
    held = total(runs.c.hold, in_state(runs, WORKING)) + total(runs.c.hold, in_state(runs, WAITING))
    spent = total(usage_days.c.charge, usage_days.c.day >= since)
    return {"since": since, "spent": spent, "held": held, "told_refusal": False}
