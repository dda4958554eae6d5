"""What may be spent in a day, a week, a month (UTC) or in all: by a workspace, a team of keys, a key, or on a model."""

import datetime
import enum
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.domain.faults import BudgetExceeded, Fault

THRESHOLDS: Final = (50, 80, 100)
"""The thresholds of alerts, in percent of a budget, where none were chosen."""
BUDGETS_MAX: Final = 10_000
"""Budgets of one workspace."""
THRESHOLDS_MAX: Final = 10
PERCENT_MAX: Final = 1000
ADDITIONS_MAX: Final = 20
"""Temporary additions to one budget that are in force at a time."""
ADDITION_DAYS_MAX: Final = 366
REASON_CHARACTERS_MAX: Final = 200
TEAM_CHARACTERS_MAX: Final = 64

_EVER: Final = datetime.date.min


class BudgetPeriod(enum.StrEnum):
    """The period after which a budget begins again, by the calendar in UTC."""

    DAY = "day"
    WEEK = "week"
    """From Monday on."""
    MONTH = "month"
    TOTAL = "total"
    """Never."""


class BudgetScope(enum.StrEnum):
    """Whose runs count against a budget, in the order in which budgets refuse a run."""

    WORKSPACE = "workspace"
    TEAM = "team"
    """The keys of a workspace that have a label in common."""
    KEY = "key"
    MODEL = "model"


class Budget(msgspec.Struct, frozen=True):
    """A limit on what some runs may cost in a period, in 10^-8 dollars."""

    limit: int
    period: BudgetPeriod


class Addition(msgspec.Struct, frozen=True):
    """An amount (10^-8 dollars) by which a budget is larger until a time; times in ms since 1970.

    `by` is the name of who made it, as in the audit log.
    """

    id: str
    amount: int
    until: int
    reason: str
    by: str
    created_at: int


class NoBudgetError(Exception):
    """A period was given without an amount, where there was no budget before."""


def changed_budget(before: Budget | None, limit: int | None, period: BudgetPeriod | None) -> Budget:
    """A budget with changes: what is None stays as it was, and a new one is for a month. NoBudgetError."""
    if limit is None:
        if before is None:
            raise NoBudgetError
        limit = before.limit
    return Budget(limit, period or (BudgetPeriod.MONTH if before is None else before.period))


def period_start(period: BudgetPeriod, today: datetime.date) -> datetime.date:
    """The first day whose charges count against a budget."""
    match period:
        case BudgetPeriod.DAY:
            return today
        case BudgetPeriod.WEEK:
            return today - datetime.timedelta(days=today.weekday())
        case BudgetPeriod.MONTH:
            return today.replace(day=1)
        case BudgetPeriod.TOTAL:
            return _EVER


def additions_in_force(additions: Sequence[Addition], now: int) -> tuple[Addition, ...]:
    """The additions that have not ended at a time (ms since 1970)."""
    return tuple(one for one in additions if now < one.until)


def limit_in_force(limit: int, additions: Sequence[Addition], now: int) -> int:
    """A budget with what is added to it at a time (ms since 1970)."""
    return limit + sum(one.amount for one in additions_in_force(additions, now))


def target_of(scope: BudgetScope, workspace_id: str, subject: str) -> str:
    """The key of a budget: one text, so that an admission finds all of its budgets at once."""
    return workspace_id if scope is BudgetScope.WORKSPACE else f"{workspace_id} {scope.value} {subject}"


def targets_of_run(workspace_id: str, team: str | None, key_id: str | None, model_id: str) -> list[str]:
    """The targets whose budgets a run counts against, in the order in which they refuse."""
    targets = [workspace_id]
    if team is not None:
        targets.append(target_of(BudgetScope.TEAM, workspace_id, team))
    if key_id is not None:
        targets.append(target_of(BudgetScope.KEY, workspace_id, key_id))
    targets.append(target_of(BudgetScope.MODEL, workspace_id, model_id))
    return targets


def refuse_budget(
    budget: Budget,
    spent: int,
    held: int,
    more: int,
    scope: BudgetScope = BudgetScope.KEY,
    subject: str = "",
) -> Fault | None:
    """The fault where a hold does not fit into a budget, or None.

    Holds count like spending: a charge never passes its hold, so the budget is never passed either. A run counts in the
    period in which it ends.
    """
    if spent + held + more > budget.limit:
        return BudgetExceeded(budget.limit, budget.period.value, spent, held, more, scope.value, subject)
    return None


def crossed_threshold(thresholds: Sequence[int], limit: int, before: int, after: int) -> int | None:
    """The highest threshold, in percent, that spending has reached between one amount and another; or None."""
    crossed = [percent for percent in thresholds if before * 100 < percent * limit <= after * 100]
    return max(crossed, default=None)


def is_team(text: str) -> bool:
    """Whether a text may name a team: up to 64 visible characters, without spaces around them."""
    return 0 < len(text) <= TEAM_CHARACTERS_MAX and text.isprintable() and text == text.strip()
