"""What may be spent in a day, a week, a month or in all: by a workspace, a team, a key, on a model or a label."""

import datetime
import enum
import functools
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from fairlead.domain.days import day_of, start_of
from fairlead.domain.faults import BudgetExceeded, Fault
from fairlead.domain.time_zones import (
    MINUTE_MS,
    MINUTES_OF_DAY,
    UTC,
    date_in,
    is_time_zone,
    minute_text,
    moment_of,
    similar_time_zones,
)

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
SUBJECT_CHARACTERS_MAX: Final = 193
"""Of a model's id; a label that has a budget is as long at most, with its name."""

_DAY: Final = datetime.timedelta(days=1)


class BudgetPeriod(enum.StrEnum):
    """The period after which a budget begins again, by the calendar of its time zone."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    TOTAL = "total"
    """Never."""


class Weekday(enum.StrEnum):
    """A day of the week, in its order."""

    MONDAY = "monday"
    TUESDAY = "tuesday"
    WEDNESDAY = "wednesday"
    THURSDAY = "thursday"
    FRIDAY = "friday"
    SATURDAY = "saturday"
    SUNDAY = "sunday"


_DAYS_OF: Final = {BudgetPeriod.DAY: 1, BudgetPeriod.WEEK: 7, BudgetPeriod.MONTH: 31}
"""At least the length of a period, and less than two of them."""
_NUMBERS: Final = {weekday: number for number, weekday in enumerate(Weekday)}


class BudgetScope(enum.StrEnum):
    """Whose runs count against a budget, in the order in which budgets refuse a run."""

    WORKSPACE = "workspace"
    TEAM = "team"
    """The keys of a workspace that have a label in common."""
    KEY = "key"
    MODEL = "model"
    LABEL = "label"
    """Runs that carry it."""


class BudgetReset(msgspec.Struct, frozen=True):
    """When periods begin: at a minute of the day (0 to 1439) in a time zone, those of a week on a weekday."""

    time_zone: str = UTC
    minute: int = 0
    weekday: Weekday = Weekday.MONDAY


class Budget(msgspec.Struct, frozen=True):
    """A limit on what some runs may cost in a period, in 10^-8 dollars."""

    limit: int
    period: BudgetPeriod
    reset: BudgetReset = BudgetReset()

    @property
    def weekday(self) -> str | None:
        """The day of the week on which its periods begin; None where they are no weeks."""
        return self.reset.weekday.value if self.period is BudgetPeriod.WEEK else None

    @property
    def period_text(self) -> str:
        """Its period, and when that begins unless at midnight in UTC, as `week from Monday 06:00 Europe/Vienna`."""
        if self.reset == BudgetReset():
            return self.period.value
        weekday = "" if self.weekday is None else f"{self.weekday.capitalize()} "
        return f"{self.period.value} from {weekday}{minute_text(self.reset.minute)} {self.reset.time_zone}"


class PeriodStart(NamedTuple):
    """When a period began: on a day (UTC), at a time of it in ms since 1970, or with the day where that is 0.

    Of two the greater one is later.
    """

    since: str
    at: int = 0

    @property
    def moment(self) -> int:
        """The same in ms since 1970; of a total budget long before it."""
        return self.at or start_of(datetime.date.fromisoformat(self.since))


_EVER: Final = PeriodStart(datetime.date.min.isoformat())


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


class BadBudgetError(Exception):
    """A budget is not valid; `field` says what is wrong."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NoBudgetError(Exception):
    """A period was given without an amount, where there was no budget before."""


def changed_budget(before: Budget | None, limit: int | None, period: BudgetPeriod | None) -> Budget:
    """A budget with changes: what is None stays as it was, and a new one is for a month. NoBudgetError."""
    if before is None:
        if limit is None:
            raise NoBudgetError
        return Budget(limit, period or BudgetPeriod.MONTH)
    if period is None:
        period = before.period
    return Budget(before.limit if limit is None else limit, period, changed_reset(before.reset, period))


def changed_reset(
    before: BudgetReset,
    period: BudgetPeriod,
    time_zone: str | None = None,
    minute: int | None = None,
    weekday: Weekday | None = None,
) -> BudgetReset:
    """When periods of a kind begin after a change of some terms; what is None, and of use, stays. BadBudgetError."""
    if period is BudgetPeriod.TOTAL:
        if (time_zone, minute, weekday) != (None, None, None):
            raise BadBudgetError("period", "A budget in all never begins again, so it has no time zone and no time.")
        return BudgetReset()
    if weekday is not None and period is not BudgetPeriod.WEEK:
        raise BadBudgetError("reset_weekday", "Only a budget of a week begins on a weekday.")
    if minute is not None and minute not in range(MINUTES_OF_DAY):
        raise BadBudgetError("reset_time", f"A minute of the day is from 0 to {MINUTES_OF_DAY - 1}.")
    if time_zone is not None and not is_time_zone(time_zone):
        raise BadBudgetError("time_zone", _unknown_zone(time_zone))
    kept = before.weekday if period is BudgetPeriod.WEEK else Weekday.MONDAY
    return BudgetReset(time_zone or before.time_zone, before.minute if minute is None else minute, weekday or kept)


def _unknown_zone(name: str) -> str:
    alike = similar_time_zones(name)
    hint = f"did you mean {' or '.join(alike)}?" if alike else "give one such as Europe/Vienna."
    return f"There is no time zone {name[:64]}; {hint}"


def period_start(period: BudgetPeriod, reset: BudgetReset, now: int) -> PeriodStart:
    """When the period began that a time (ms since 1970) is in."""
    if period is BudgetPeriod.TOTAL:
        return _EVER
    return _period_at(period, reset, now // MINUTE_MS)[0]


def next_reset(period: BudgetPeriod, reset: BudgetReset, now: int) -> int | None:
    """When the period after that of a time begins, both in ms since 1970; None where none does."""
    if period is BudgetPeriod.TOTAL:
        return None
    return _period_at(period, reset, now // MINUTE_MS)[1]


@functools.lru_cache(maxsize=1024)
def _period_at(period: BudgetPeriod, reset: BudgetReset, minute: int) -> tuple[PeriodStart, int]:
    """The start of the period of a minute since 1970, and the start (ms) of the next.

    Periods begin with a minute, and many runs come in one.
    """
    now = minute * MINUTE_MS
    first = date_in(reset.time_zone, now) + 2 * _DAY
    start = now + 1
    while start > now:  # clocks that are set back or forward about midnight may show another day than that of the start
        first = _first_day(period, reset.weekday, first - _DAY)
        start = moment_of(first, reset.minute, reset.time_zone)
    end = start
    while end <= now:
        first = _first_day(period, reset.weekday, first + _DAYS_OF[period] * _DAY)
        end = moment_of(first, reset.minute, reset.time_zone)
    day = day_of(start)
    return PeriodStart(day.isoformat(), 0 if start == start_of(day) else start), end


def _first_day(period: BudgetPeriod, weekday: Weekday, day: datetime.date) -> datetime.date:
    """The first day of the period that a day is in."""
    if period is BudgetPeriod.MONTH:
        return day.replace(day=1)
    return day - _DAY * ((day.weekday() - _NUMBERS[weekday]) % _DAYS_OF[period])


def additions_in_force(additions: Sequence[Addition], now: int) -> tuple[Addition, ...]:
    """The additions that have not ended at a time (ms since 1970)."""
    return tuple(one for one in additions if now < one.until)


def limit_in_force(limit: int, additions: Sequence[Addition], now: int) -> int:
    """A budget with what is added to it at a time (ms since 1970)."""
    return limit + sum(one.amount for one in additions_in_force(additions, now))


def target_of(scope: BudgetScope, workspace_id: str, subject: str) -> str:
    """The key of a budget: one text, so that an admission finds all of its budgets at once."""
    return workspace_id if scope is BudgetScope.WORKSPACE else f"{workspace_id} {scope.value} {subject}"


def label_subject(name: str, value: str) -> str:
    """The subject of a budget for a label."""
    return f"{name}={value}"


def targets_of_run(
    workspace_id: str, team: str | None, key_id: str | None, model_id: str, labels: Mapping[str, str]
) -> list[str]:
    """The targets whose budgets a run counts against, in the order in which they refuse."""
    targets = [workspace_id]
    if team is not None:
        targets.append(target_of(BudgetScope.TEAM, workspace_id, team))
    if key_id is not None:
        targets.append(target_of(BudgetScope.KEY, workspace_id, key_id))
    targets.append(target_of(BudgetScope.MODEL, workspace_id, model_id))
    for name, value in sorted(labels.items()):
        targets.append(target_of(BudgetScope.LABEL, workspace_id, label_subject(name, value)))
    return targets


def refuse_budget(
    budget: Budget,
    spent: int,
    held: int,
    more: int,
    scope: BudgetScope = BudgetScope.KEY,
    subject: str = "",
    resets_at: int | None = None,
) -> Fault | None:
    """The fault where a hold does not fit into a budget, or None. `resets_at` is as in the fault.

    Holds count like spending: a charge never passes its hold, so the budget is never passed either. A run counts in the
    period in which it ends.
    """
    if spent + held + more > budget.limit:
        whose = scope.value, subject, resets_at, budget.reset.time_zone
        return BudgetExceeded(budget.limit, budget.period.value, spent, held, more, *whose)
    return None


def crossed_threshold(thresholds: Sequence[int], limit: int, before: int, after: int) -> int | None:
    """The highest threshold, in percent, that spending has reached between one amount and another; or None."""
    crossed = [percent for percent in thresholds if before * 100 < percent * limit <= after * 100]
    return max(crossed, default=None)


def is_team(text: str) -> bool:
    """Whether a text may name a team: up to 64 visible characters, without spaces around them."""
    return 0 < len(text) <= TEAM_CHARACTERS_MAX and text.isprintable() and text == text.strip()
