"""What a workspace has used: which days are asked for, and how they are added up."""

import datetime
import enum
from collections.abc import Sequence
from typing import Final

import msgspec

from fairlead.domain.days import read_date

DAYS_MAX: Final = 366
ROWS_MAX: Final = 10_000
LABEL_NAMES_MAX: Final = 16
"""Names of labels of which a workspace has usage on a day."""
LABEL_VALUES_MAX: Final = 1_000
"""Values of each of them of which it has usage on a day, beside those that have a budget."""
_USUAL_DAYS: Final = 30
_LABEL: Final = "label:"
"""Stands in a query before the name of a label to group by."""


class BadUsageQueryError(ValueError):
    """The days or the groups that were asked for are not valid, or too many; the message says how to fix it."""


class Grouping(enum.StrEnum):
    """What usage may be grouped by, in the order of the columns."""

    DAY = "day"
    MODEL = "model"
    KEY = "key"


class UsageQuery(msgspec.Struct, frozen=True):
    """The first and the last day asked for (UTC, both included), and the groups, in the order of `Grouping`.

    With `label_name` it is grouped by the values of that label as well; with `label`, a name and a value, only runs
    that carry it count. Both go with days only.
    """

    first: datetime.date
    last: datetime.date
    by: tuple[Grouping, ...]
    label_name: str | None = None
    label: tuple[str, str] | None = None

    @property
    def is_of_labels(self) -> bool:
        """Whether it asks for labels, whose usage is added up apart."""
        return self.label_name is not None or self.label is not None

    @property
    def groups(self) -> list[str]:
        """The groups as they are written in a query."""
        return [*(one.value for one in self.by), *([] if self.label_name is None else [f"{_LABEL}{self.label_name}"])]


class UsedKey(msgspec.Struct, frozen=True):
    """What may be shown of an API key."""

    id: str
    label: str
    hint: str


class UsedLabel(msgspec.Struct, frozen=True):
    """The value of a label that usage is of; None stands for all values that are not counted apart."""

    name: str
    value: str | None


class Usage(msgspec.Struct, frozen=True):
    """How many runs ended, how many of them succeeded, and what was charged in 10^-8 dollars.

    `day`, `model_id`, `key` and `label` are None where usage is not grouped by them; `key` also for runs called with a
    token, `label` for runs without that label.
    """

    runs: int
    succeeded: int
    charge: int
    day: str | None = None
    model_id: str | None = None
    key: UsedKey | None = None
    label: UsedLabel | None = None


def usage_query(
    first: str | None, last: str | None, by: str | None, today: datetime.date, label: str | None = None
) -> UsageQuery:
    """Read a query from its texts; an empty one asks for the last thirty days, grouped by day, model and key.

    `label` is written `client=acme`; what it selects is grouped by day. BadUsageQueryError, NotADateError.
    """
    until = today if last is None else read_date("to", last)
    since = _usual_first(until) if first is None else read_date("from", first)
    if since > until:
        raise BadUsageQueryError(f"from, {since}, is after to, {until}.")
    if (until - since).days >= DAYS_MAX:
        raise BadUsageQueryError(f"From {since} to {until} are more than {DAYS_MAX} days; ask for fewer at a time.")
    if label is None:
        return UsageQuery(since, until, *(tuple(Grouping), None) if by is None else _groupings(by))
    name, sign, value = label.partition("=")
    groups, label_name = _groupings(by or Grouping.DAY)
    if not (name and sign):
        raise BadUsageQueryError(f"label is a name and a value such as client=acme, not {label[:40]!r}.")
    if label_name is not None or not {*groups} <= {Grouping.DAY}:
        raise BadUsageQueryError("Usage of one label can only be grouped by day: group_by must be day.")
    return UsageQuery(since, until, groups, label=(name, value))


def total_of(rows: Sequence[Usage]) -> Usage:
    """Add usage up."""
    return Usage(
        runs=sum(row.runs for row in rows),
        succeeded=sum(row.succeeded for row in rows),
        charge=sum(row.charge for row in rows),
    )


def labels_in(text: str | None) -> dict[str, str]:
    """The labels of a run, from the JSON that is stored; none from None."""
    return {} if text is None else msgspec.json.decode(text, type=dict[str, str])


def _usual_first(last: datetime.date) -> datetime.date:
    return datetime.date.fromordinal(max(1, last.toordinal() - _USUAL_DAYS + 1))


def _groupings(text: str) -> tuple[tuple[Grouping, ...], str | None]:
    """The groups, and the name of the label that is one of them."""
    wanted = {part.strip() for part in text.split(",")}
    labels = {part for part in wanted if part.startswith(_LABEL) and part != _LABEL}
    if not wanted - labels <= set(Grouping):
        names = ", ".join(Grouping)
        raise BadUsageQueryError(
            f"group_by must be some of {names} and {_LABEL}NAME, separated by commas, not {text[:40]!r}."
        )
    if len(labels) > 1 or (labels and not wanted - labels <= {Grouping.DAY}):
        raise BadUsageQueryError("Usage by label can only be grouped by day beside it: group_by is day,label:NAME.")
    name = labels.pop().removeprefix(_LABEL) if labels else None
    return tuple(one for one in Grouping if one in wanted), name
