"""What a workspace has used: which days are asked for, and how they are added up."""

import datetime
import enum
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.domain.days import read_date

DAYS_MAX: Final = 366
ROWS_MAX: Final = 10_000
_USUAL_DAYS: Final = 30


class BadUsageQueryError(ValueError):
    """The days or the groups that were asked for are not valid, or too many; the message says how to fix it."""


class Grouping(enum.StrEnum):
    """What usage may be grouped by, in the order of the columns."""

    DAY = "day"
    MODEL = "model"
    KEY = "key"


class UsageQuery(msgspec.Struct, frozen=True):
    """The first and the last day asked for (UTC, both included), and the groups, in the order of `Grouping`."""

    first: datetime.date
    last: datetime.date
    by: tuple[Grouping, ...]


class UsedKey(msgspec.Struct, frozen=True):
    """What may be shown of an API key."""

    id: str
    label: str
    hint: str


class Usage(msgspec.Struct, frozen=True):
    """How many runs ended, how many of them succeeded, and what was charged in 10^-8 dollars.

    `day`, `model_id` and `key` are None where usage is not grouped by them; `key` also for runs called with a token.
    """

    runs: int
    succeeded: int
    charge: int
    day: str | None = None
    model_id: str | None = None
    key: UsedKey | None = None


def usage_query(first: str | None, last: str | None, by: str | None, today: datetime.date) -> UsageQuery:
    """Read a query from its texts; an empty one asks for the last thirty days, grouped by everything.

    BadUsageQueryError, NotADateError.
    """
    until = today if last is None else read_date("to", last)
    since = _usual_first(until) if first is None else read_date("from", first)
    if since > until:
        raise BadUsageQueryError(f"from, {since}, is after to, {until}.")
    if (until - since).days >= DAYS_MAX:
        raise BadUsageQueryError(f"From {since} to {until} are more than {DAYS_MAX} days; ask for fewer at a time.")
    return UsageQuery(since, until, tuple(Grouping) if by is None else _groupings(by))


def total_of(rows: Sequence[Usage]) -> Usage:
    """Add usage up."""
    return Usage(
        runs=sum(row.runs for row in rows),
        succeeded=sum(row.succeeded for row in rows),
        charge=sum(row.charge for row in rows),
    )


def _usual_first(last: datetime.date) -> datetime.date:
    return datetime.date.fromordinal(max(1, last.toordinal() - _USUAL_DAYS + 1))


def _groupings(text: str) -> tuple[Grouping, ...]:
    wanted = {part.strip() for part in text.split(",")}
    if not wanted <= set(Grouping):
        names = ", ".join(Grouping)
        raise BadUsageQueryError(f"group_by must be some of {names}, separated by commas, not {text[:40]!r}.")
    return tuple(one for one in Grouping if one in wanted)
