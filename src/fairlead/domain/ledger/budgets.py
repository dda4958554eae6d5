"""What one API key may spend: an amount for every day or month (UTC), or in all."""

import datetime
import enum
from typing import Final

import msgspec

from fairlead.domain.faults import BudgetExceeded, Fault

_EVER: Final = datetime.date.min


class BudgetPeriod(enum.StrEnum):
    """After what time a budget is whole again; by the calendar, in UTC."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"
    """Never."""


class Budget(msgspec.Struct, frozen=True):
    """What the runs of a key may cost in a period, in 10^-8 dollars."""

    limit: int
    period: BudgetPeriod


class NoBudgetError(Exception):
    """A period was given without an amount, where there was no budget before."""


def changed_budget(before: Budget | None, limit: int | None, period: BudgetPeriod | None) -> Budget:
    """A budget of which something is changed: what is None stays as it was, and a new one is for a month.

    NoBudgetError.
    """
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
        case BudgetPeriod.MONTH:
            return today.replace(day=1)
        case BudgetPeriod.TOTAL:
            return _EVER


def refuse_budget(budget: Budget, spent: int, held: int, more: int) -> Fault | None:
    """Say why the key of a budget may not be held for so much more, or None.

    What is held counts like what is spent: a charge never passes its hold, so the budget is never passed either. A run
    counts in the period in which it ends.
    """
    if spent + held + more > budget.limit:
        return BudgetExceeded(budget.limit, budget.period.value, spent, held, more)
    return None
