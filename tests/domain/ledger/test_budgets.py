"""Whether a key may spend more: its budget, its period, what is spent and what is held."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.faults import BudgetExceeded
from fairlead.domain.ledger.budgets import (
    Addition,
    Budget,
    BudgetPeriod,
    NoBudgetError,
    changed_budget,
    limit_in_force,
    period_start,
    refuse_budget,
)

MONTHLY = Budget(100, BudgetPeriod.MONTH)


@pytest.mark.parametrize(
    ("spent", "held", "more", "is_refused"),
    [
        (0, 0, 100, False),
        (0, 0, 101, True),
        (60, 30, 10, False),
        (60, 30, 11, True),
        (100, 0, 0, False),
        (0, 100, 1, True),
        (101, 0, 0, True),
    ],
)
def test_budget_may_be_used_up_exactly_and_never_passed(spent: int, held: int, more: int, *, is_refused: bool) -> None:
    """What is spent, held and wanted may come to the budget exactly, and the refusal says all of it."""
    refusal = BudgetExceeded(100, "month", spent, held, more)
    assert refuse_budget(MONTHLY, spent, held, more) == (refusal if is_refused else None)


@pytest.mark.parametrize(
    ("period", "today", "start"),
    [
        (BudgetPeriod.DAY, "2028-02-29", "2028-02-29"),
        (BudgetPeriod.WEEK, "2028-02-29", "2028-02-28"),
        (BudgetPeriod.WEEK, "2028-02-28", "2028-02-28"),
        (BudgetPeriod.WEEK, "2028-01-02", "2027-12-27"),
        (BudgetPeriod.MONTH, "2028-02-29", "2028-02-01"),
        (BudgetPeriod.MONTH, "2028-03-01", "2028-03-01"),
        (BudgetPeriod.TOTAL, "2028-02-29", "0001-01-01"),
    ],
)
def test_period_starts_where_the_calendar_says(period: BudgetPeriod, today: str, start: str) -> None:
    """Periods are those of the calendar; the whole time begins before every day there is."""
    assert period_start(period, datetime.date.fromisoformat(today)).isoformat() == start


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=20))
def test_admitted_runs_never_pass_the_budget(runs: list[tuple[int, int]]) -> None:
    """Whatever runs ask for and then cost, up to their holds, a budget is never passed."""
    spent = held = 0
    open_holds: list[int] = []
    for hold, charge in runs:
        if refuse_budget(MONTHLY, spent, held, hold) is None:
            open_holds.append(hold)
            held += hold
        elif open_holds:
            ended = open_holds.pop()
            held -= ended
            spent += min(charge, ended)
        assert spent + held <= MONTHLY.limit


@pytest.mark.parametrize(
    ("before", "limit", "period", "after"),
    [
        (None, 5, None, Budget(5, BudgetPeriod.MONTH)),
        (None, 5, BudgetPeriod.DAY, Budget(5, BudgetPeriod.DAY)),
        (Budget(5, BudgetPeriod.DAY), 7, None, Budget(7, BudgetPeriod.DAY)),
        (Budget(5, BudgetPeriod.DAY), None, BudgetPeriod.TOTAL, Budget(5, BudgetPeriod.TOTAL)),
        (Budget(5, BudgetPeriod.DAY), 0, None, Budget(0, BudgetPeriod.DAY)),
    ],
)
def test_changed_budget_keeps_what_was_not_changed(
    before: Budget | None, limit: int | None, period: BudgetPeriod | None, after: Budget
) -> None:
    """What is not given stays; a new budget is for a month."""
    assert changed_budget(before, limit, period) == after


def test_period_alone_is_no_budget() -> None:
    """A period alone is not a budget."""
    with pytest.raises(NoBudgetError):
        changed_budget(None, None, BudgetPeriod.DAY)


@pytest.mark.req("A-03")
@given(st.integers(0, 100), st.lists(st.tuples(st.integers(1, 50), st.integers(0, 10)), max_size=6), st.integers(0, 10))
def test_limit_in_force_has_what_has_not_ended(limit: int, added: list[tuple[int, int]], now: int) -> None:
    """An addition counts up to its end, and not at it."""
    additions = [Addition(str(number), amount, until, "fair", "Ada", 0) for number, (amount, until) in enumerate(added)]
    assert limit_in_force(limit, additions, now) == limit + sum(amount for amount, until in added if until > now)
