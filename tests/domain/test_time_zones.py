"""Times of day in time zones, for people and for the books."""

import datetime

import pytest

from fairlead.domain.time_zones import (
    NotATimeOfDayError,
    date_in,
    is_time_zone,
    minute_text,
    moment_of,
    read_minute,
    similar_time_zones,
    time_in,
)

AT = 1_796_014_800_000
"""2026-11-30 05:00 UTC."""


def test_time_is_shown_as_clocks_in_the_zone_show_it() -> None:
    """With the date there, which may be another one."""
    assert time_in("Europe/Vienna", AT) == "2026-11-30 06:00 Europe/Vienna"
    assert time_in("America/Los_Angeles", AT) == "2026-11-29 21:00 America/Los_Angeles"
    assert date_in("America/Los_Angeles", AT) == datetime.date(2026, 11, 29)


def test_zone_that_this_machine_does_not_know_counts_as_utc() -> None:
    """Another server may know more zones; runs of its budgets are booked here too."""
    for name in ("Mars/Olympus", "Europe", "../etc/passwd", ""):
        assert moment_of(datetime.date(2026, 11, 30), 300, name) == AT


def test_zones_are_those_of_the_database() -> None:
    """By their exact names; what depends on the machine is none of them."""
    assert all(map(is_time_zone, ("UTC", "Europe/Vienna", "America/Argentina/Ushuaia")))
    assert not any(map(is_time_zone, ("Europe", "europe/vienna", "localtime", "../UTC", "")))
    assert "Europe/Vienna" in similar_time_zones("Europe/Viena")


@pytest.mark.parametrize(("text", "minute"), [("00:00", 0), ("06:30", 390), ("23:59", 1439)])
def test_time_of_day_is_read_as_it_is_written(text: str, minute: int) -> None:
    """Hours and minutes, of two digits each."""
    assert read_minute(text) == minute
    assert minute_text(minute) == text


@pytest.mark.parametrize("text", ["24:00", "6:30", "06:60", "06:30:00", "0630", "", "٠٦:٣٠"])
def test_other_text_is_no_time_of_day(text: str) -> None:
    """The error has the text."""
    with pytest.raises(NotATimeOfDayError, match="06:30"):
        read_minute(text)
