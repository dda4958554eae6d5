"""Times of day as clocks in a time zone show them, by the names of the IANA time zone database."""

import datetime
import difflib
import functools
import re
import zoneinfo
from typing import Final

UTC: Final = "UTC"
NAME_CHARACTERS_MAX: Final = 64
MINUTE_MS: Final = 60_000
MINUTES_OF_DAY: Final = 1440

_OF_THE_MACHINE: Final = frozenset({"Factory", "localtime", "posixrules"})
"""Files beside the zones whose meaning depends on the machine."""
_TIME: Final = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


class NotATimeOfDayError(ValueError):
    """A text is not a time of day such as `06:30`; the message says which one."""


def is_time_zone(name: str) -> bool:
    """Whether this machine knows a time zone of this name."""
    return name in _names()


def similar_time_zones(name: str) -> list[str]:
    """Up to three names of zones that are like a text, the most similar first."""
    return difflib.get_close_matches(name[:NAME_CHARACTERS_MAX], sorted(_names()), n=3)


def date_in(zone: str, at: int) -> datetime.date:
    """The date in a zone at a time (ms since 1970)."""
    return datetime.datetime.fromtimestamp(at // 1000, _zone(zone)).date()


def time_in(zone: str, at: int) -> str:
    """A time (ms since 1970) for people, as `2026-11-30 06:00 Europe/Vienna`."""
    local = datetime.datetime.fromtimestamp(at // 1000, _zone(zone))
    return f"{local:%Y-%m-%d %H:%M} {zone}"


def reset_text(zone: str, at: int | None) -> str:
    """A sentence that says when something begins again, with a space before it; empty for never."""
    return "" if at is None else f" It begins again on {time_in(zone, at)}."


def moment_of(date: datetime.date, minute: int, zone: str) -> int:
    """When clocks in a zone show a minute of a day, in ms since 1970.

    Where clocks show it twice, because they are set back, it is the first time. Where they leave it out, because they
    are set forward, it is read by the offset of before, so that 02:30 is 03:30 then (RFC 5545, section 3.3.5).
    """
    of_day = datetime.time(minute // 60, minute % 60)
    local = datetime.datetime.combine(date, of_day, tzinfo=_zone(zone))  # its `fold` is 0, which says both
    return int(local.timestamp()) * 1000


def read_minute(text: str) -> int:
    """The minute of the day of a time such as `06:30`; NotATimeOfDayError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise NotATimeOfDayError(f"A time of day is written as 06:30, from 00:00 to 23:59, not {text[:40]!r}.")
    return int(found[1]) * 60 + int(found[2])


def minute_text(minute: int) -> str:
    """A minute of the day as `06:30`."""
    return f"{minute // 60:02}:{minute % 60:02}"


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones()) - _OF_THE_MACHINE


@functools.lru_cache(maxsize=1024)
def _zone(name: str) -> datetime.tzinfo:
    """A zone; UTC for one that another server knows and this one does not, so that runs are still booked."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return datetime.UTC
