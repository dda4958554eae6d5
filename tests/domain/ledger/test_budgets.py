"""Whether a key may spend more: its budget, its period, what is spent and what is held."""

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.days import DAY_MS, HOUR_MS, start_of
from fairlead.domain.faults import BudgetExceeded
from fairlead.domain.ledger.budgets import (
    Addition,
    BadBudgetError,
    Budget,
    BudgetPeriod,
    BudgetReset,
    NoBudgetError,
    PeriodStart,
    Weekday,
    changed_budget,
    changed_reset,
    limit_in_force,
    next_reset,
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
    ("period", "today", "start", "following"),
    [
        (BudgetPeriod.DAY, "2028-02-29", "2028-02-29", "2028-03-01"),
        (BudgetPeriod.WEEK, "2028-02-29", "2028-02-28", "2028-03-06"),
        (BudgetPeriod.WEEK, "2028-02-28", "2028-02-28", "2028-03-06"),
        (BudgetPeriod.WEEK, "2028-01-02", "2027-12-27", "2028-01-03"),
        (BudgetPeriod.MONTH, "2028-02-29", "2028-02-01", "2028-03-01"),
        (BudgetPeriod.MONTH, "2028-03-01", "2028-03-01", "2028-04-01"),
    ],
)
def test_period_begins_where_the_calendar_says(period: BudgetPeriod, today: str, start: str, following: str) -> None:
    """Without other terms periods are those of the calendar in UTC."""
    at = start_of(datetime.date.fromisoformat(today))
    for now in (at, at + DAY_MS - 1):
        assert period_start(period, BudgetReset(), now) == PeriodStart(start)
        assert next_reset(period, BudgetReset(), now) == start_of(datetime.date.fromisoformat(following))


def test_whole_time_begins_before_every_day_and_never_again() -> None:
    """A budget in all has one period."""
    assert period_start(BudgetPeriod.TOTAL, BudgetReset(), 0) == PeriodStart("0001-01-01")
    assert next_reset(BudgetPeriod.TOTAL, BudgetReset(), 0) is None


@pytest.mark.req("M-07")
@pytest.mark.parametrize(
    ("period", "reset", "now", "start", "following"),
    [
        ("day", ("Europe/Vienna", 360), "2026-11-30 04:59", "2026-11-29 05:00", "2026-11-30 05:00"),
        ("day", ("Europe/Vienna", 360), "2026-11-30 05:00", "2026-11-30 05:00", "2026-12-01 05:00"),
        ("day", ("Asia/Tokyo", 540), "2026-11-30 12:00", "2026-11-30 00:00", "2026-12-01 00:00"),
        ("day", ("Asia/Kolkata", 0), "2026-11-30 12:00", "2026-11-29 18:30", "2026-11-30 18:30"),
        # In Vienna clocks are set forward at 01:00 UTC on March 29, and back at 01:00 UTC on October 25.
        ("day", ("Europe/Vienna", 150), "2026-03-29 12:00", "2026-03-29 01:30", "2026-03-30 00:30"),
        ("day", ("Europe/Vienna", 150), "2026-10-25 12:00", "2026-10-25 00:30", "2026-10-26 01:30"),
        # In St. John's they were set back from 00:01 to 23:01 of the day before.
        ("day", ("America/St_Johns", 0), "2010-11-07 03:00", "2010-11-07 02:30", "2010-11-08 03:30"),
        # There was no December 30, 2011, in Samoa.
        ("day", ("Pacific/Apia", 0), "2011-12-30 12:00", "2011-12-30 10:00", "2011-12-31 10:00"),
        ("week", ("Europe/Vienna", 360, Weekday.SUNDAY), "2026-11-29 04:00", "2026-11-22 05:00", "2026-11-29 05:00"),
        ("week", ("Europe/Vienna", 0), "2026-11-29 23:30", "2026-11-29 23:00", "2026-12-06 23:00"),
        ("month", ("Pacific/Kiritimati", 0), "2026-11-30 10:00", "2026-11-30 10:00", "2026-12-31 10:00"),
        ("month", ("America/New_York", 1200), "2026-12-02 00:00", "2026-11-02 01:00", "2026-12-02 01:00"),
    ],
)
def test_period_begins_at_its_time_in_its_zone(
    period: str, reset: tuple[str, int], now: str, start: str, following: str
) -> None:
    """By the clocks of the zone, in summer and in winter, and where they show a time twice or not at all."""
    terms = BudgetPeriod(period), BudgetReset(*reset)
    assert period_start(*terms, _ms(now)).moment == _ms(start)
    assert next_reset(*terms, _ms(now)) == _ms(following)


def _ms(text: str) -> int:
    return int(datetime.datetime.fromisoformat(f"{text}+00:00").timestamp()) * 1000


_ZONES = ("UTC", "Europe/Vienna", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu", "America/Los_Angeles")
_LENGTHS = {BudgetPeriod.DAY: (23, 25), BudgetPeriod.WEEK: (167, 169), BudgetPeriod.MONTH: (671, 745)}


@pytest.mark.req("M-07")
@given(
    st.sampled_from(sorted(_LENGTHS)),
    st.builds(BudgetReset, st.sampled_from(_ZONES), st.integers(0, 1439), st.sampled_from(Weekday)),
    st.integers(_ms("2000-01-02 00:00"), _ms("2035-01-01 00:00")),
)
def test_every_time_is_in_one_period(period: BudgetPeriod, reset: BudgetReset, now: int) -> None:
    """It begins no later than then; the next begins where it ends, and no period is longer than the calendar says."""
    start, end = period_start(period, reset, now), next_reset(period, reset, now)
    assert end is not None
    assert start.moment <= now < end
    assert (start.at == 0) == (start.moment % DAY_MS == 0)
    assert period_start(period, reset, start.moment) == period_start(period, reset, end - 1) == start
    assert next_reset(period, reset, end - 1) == end
    assert period_start(period, reset, end).moment == end
    assert start < period_start(period, reset, end)
    shortest, longest = _LENGTHS[period]
    assert shortest * HOUR_MS <= end - start.moment <= longest * HOUR_MS


@pytest.mark.parametrize(
    ("period", "changes", "field"),
    [
        ("day", {"time_zone": "Europe/Wien"}, "time_zone"),
        ("day", {"time_zone": "../etc/passwd"}, "time_zone"),
        ("day", {"time_zone": ""}, "time_zone"),
        ("day", {"minute": 1440}, "reset_time"),
        ("day", {"weekday": Weekday.MONDAY}, "reset_weekday"),
        ("total", {"time_zone": "UTC"}, "period"),
        ("total", {"minute": 0}, "period"),
    ],
)
def test_reset_that_does_not_exist_is_refused(period: str, changes: dict[str, Any], field: str) -> None:
    """The error names the field."""
    with pytest.raises(BadBudgetError) as refused:
        changed_reset(BudgetReset(), BudgetPeriod(period), **changes)
    assert refused.value.field == field


def test_changed_reset_keeps_what_is_of_use() -> None:
    """A weekday is kept for a week, a zone and a time for whatever begins again."""
    weekly = changed_reset(BudgetReset(), BudgetPeriod.WEEK, "Europe/Vienna", 360, Weekday.FRIDAY)
    assert weekly == BudgetReset("Europe/Vienna", 360, Weekday.FRIDAY)
    assert changed_reset(weekly, BudgetPeriod.WEEK, minute=0) == BudgetReset("Europe/Vienna", 0, Weekday.FRIDAY)
    assert changed_reset(weekly, BudgetPeriod.DAY) == BudgetReset("Europe/Vienna", 360)
    assert changed_reset(weekly, BudgetPeriod.TOTAL) == BudgetReset()


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
