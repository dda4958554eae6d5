"""Days of the calendar, in UTC, by which money is reported."""

import datetime
import re
from typing import Final

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000
_DAY_0: Final = datetime.date(1970, 1, 1).toordinal()
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class NotADateError(ValueError):
    """A text is not a date such as `2026-01-31`; the message says which one."""


def day_of(milliseconds: int) -> datetime.date:
    """The day on which a time (ms since 1970) falls."""
    return datetime.date.fromordinal(_DAY_0 + milliseconds // DAY_MS)


def start_of(day: datetime.date) -> int:
    """The time at which a day begins, in ms since 1970."""
    return (day.toordinal() - _DAY_0) * DAY_MS


def read_date(name: str, text: str) -> datetime.date:
    """Read a date such as `2026-01-31`; NotADateError, which says `name`."""
    try:
        # Python reads other forms too; dates that are compared as texts must have this one.
        if _DATE.fullmatch(text):
            return datetime.date.fromisoformat(text)
    except ValueError:
        pass  # the month or the day does not exist: reported below like any other text that is not a date
    raise NotADateError(f"{name} must be a date such as 2026-01-31, not {text[:40]!r}.")


def first_id(at: int) -> str:
    """The lower bound of ids (UUIDv7) that are made at a time (ms since 1970) or later: ids begin with their time."""
    digits = f"{max(0, at):012x}"
    return f"{digits[:8]}-{digits[8:12]}"
