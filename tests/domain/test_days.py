"""Days of the calendar, in UTC."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.days import DAY_MS, NotADateError, day_of, read_date, start_of


@pytest.mark.parametrize(
    ("milliseconds", "day"),
    [(0, "1970-01-01"), (DAY_MS - 1, "1970-01-01"), (DAY_MS, "1970-01-02"), (1_835_481_599_999, "2028-02-29")],
)
def test_day_ends_with_its_last_millisecond(milliseconds: int, day: str) -> None:
    """A day ends with its last millisecond."""
    assert day_of(milliseconds).isoformat() == day


@given(st.dates())
def test_day_holds_its_beginning_and_not_the_moment_before(day: datetime.date) -> None:
    """A day holds its beginning, and not the moment before."""
    assert day_of(start_of(day)) == day
    if day > datetime.date.min:
        assert day_of(start_of(day) - 1) == day - datetime.timedelta(days=1)


@given(st.dates())
def test_every_date_can_be_written_and_read(day: datetime.date) -> None:
    """Every date can be written and read."""
    assert read_date("from", day.isoformat()) == day


@pytest.mark.parametrize(
    "text",
    ["", "today", "2026-02-30", "2026-13-01", "20260131", "2026-W05-6", "2026-1-31", " 2026-01-31", "2026\u066001-31"],
)
def test_text_that_is_no_date_is_refused_by_name(text: str) -> None:
    """What has another form, or is not on the calendar, is refused by name."""
    with pytest.raises(NotADateError, match="from must be a date such as 2026-01-31"):
        read_date("from", text)
