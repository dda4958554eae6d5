"""Alerts about money: a budget reaches a threshold or refuses a run, or the spending of a day is unusual.

Amounts are in 10^-8 dollars, times in milliseconds since 1970.
"""

import datetime
import enum
import re
import statistics
from collections.abc import Sequence
from typing import Final, TypedDict

import msgspec

from fairlead.domain.days import day_of
from fairlead.domain.ledger.money import UNITS_PER_DOLLAR, as_dollars
from fairlead.domain.time_zones import UTC, reset_text

USUAL_DAYS: Final = 28
"""How many days before today the usual spending is computed from."""
CHANNELS_MAX: Final = 20
"""Alert channels of one workspace."""
EMAIL_CHARACTERS_MAX: Final = 254
TARGET_CHARACTERS_MAX: Final = 2048

_DAYS_NEEDED: Final = 7
_FACTOR: Final = 3
_LEAST: Final = UNITS_PER_DOLLAR
_PERIODS: Final = {"day": "a day", "week": "a week", "month": "a month", "total": "in all"}
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL: Final = re.compile(rf"[A-Za-z0-9._%+'-]{{1,64}}@(?:{_LABEL}\.)+[A-Za-z]{{2,63}}")


class AlertKind(enum.StrEnum):
    """Why an alert is sent."""

    THRESHOLD = "threshold"
    """The spending has reached a share of a budget."""
    REFUSAL = "refusal"
    """A budget did not cover a run: the first one in its period."""
    ANOMALY = "anomaly"
    """A workspace has spent far more today than it usually does in a day."""
    TEST = "test"
    """Somebody tests a channel."""


class ChannelKind(enum.StrEnum):
    """The kind of an alert channel."""

    WEBHOOK = "webhook"
    EMAIL = "email"
    SLACK = "slack"
    """A webhook in Slack's form, `{"text": ...}`, which many chat programs take."""


class BudgetFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """A budget at the time of an alert. `percent` is set for a threshold, `needed` for a run that was refused.

    `since` is the first day of its period, in its time zone; the next begins at `resets_at`, None for never.
    """

    scope: str
    subject: str
    period: str
    limit: int
    spent: int
    held: int
    since: str
    percent: int | None = None
    needed: int | None = None
    time_zone: str = UTC
    resets_at: int | None = None


class DayFigures(msgspec.Struct, frozen=True):
    """What a workspace has spent on a day so far, and what it usually spends on a whole day."""

    day: str
    spent: int
    usual: int


class Alert(msgspec.Struct, frozen=True):
    """An alert about a workspace, with the figures of that moment; None for a test."""

    id: int
    workspace: str
    kind: AlertKind
    figures: BudgetFigures | DayFigures | None
    at: int


class AlertDocument(TypedDict):
    """The body of a webhook: its type, its time, and the figures with amounts as decimal dollars."""

    type: str
    timestamp: str
    data: dict[str, object]


def unusual_day(day: datetime.date, spent: int, before: Sequence[int]) -> DayFigures | None:
    """The alert about an unusual day, or None. `before` is what was spent on the earlier days that cost anything.

    Their median is the usual spending; a day is unusual at three times as much, and a dollar more. With fewer than
    seven such days, no day is unusual.
    """
    if len(before) < _DAYS_NEEDED:
        return None
    usual = int(statistics.median(before))
    if spent < usual * _FACTOR or spent < usual + _LEAST:
        return None
    return DayFigures(day.isoformat(), spent, usual)


def read_figures(kind: AlertKind, text: str) -> BudgetFigures | DayFigures | None:
    """The figures of an alert as they are stored."""
    match kind:
        case AlertKind.THRESHOLD | AlertKind.REFUSAL:
            return msgspec.json.decode(text, type=BudgetFigures)
        case AlertKind.ANOMALY:
            return msgspec.json.decode(text, type=DayFigures)
        case AlertKind.TEST:
            return None


def message_of_alert(alert: Alert) -> str:
    """An alert as a sentence, for people."""
    match alert.figures:
        case BudgetFigures(percent=int(percent)) as budget:
            return (
                f"{alert.workspace}: {percent} % of the budget of {_budget(budget)} is spent:"
                f" {as_dollars(budget.spent)} US dollars.{reset_text(budget.time_zone, budget.resets_at)}"
            )
        case BudgetFigures() as budget:
            return (
                f"{alert.workspace}: the budget of {_budget(budget)} refused a run that may cost"
                f" {as_dollars(budget.needed or 0)} US dollars; {as_dollars(budget.spent)} are spent and"
                f" {as_dollars(budget.held)} held.{reset_text(budget.time_zone, budget.resets_at)}"
            )
        case DayFigures(day, spent_today, usual):
            return (
                f"{alert.workspace}: {as_dollars(spent_today)} US dollars were spent on {day} so far;"
                f" usually it is {as_dollars(usual)} a day."
            )
        case None:
            return f"{alert.workspace}: this is a test of an alert channel. Nothing has happened."


def document_of_alert(alert: Alert) -> AlertDocument:
    """An alert as a document for programs."""
    data: dict[str, object] = {"workspace": alert.workspace, "message": message_of_alert(alert)}
    match alert.figures:
        case BudgetFigures() as budget:
            data |= msgspec.to_builtins(budget)
            for name in ("limit", "spent", "held", "needed"):
                if name in data:
                    data[name] = as_dollars(getattr(budget, name))
            if budget.resets_at is not None:
                data |= {"time_zone": budget.time_zone, "resets_at": _time(budget.resets_at)}
        case DayFigures(day, spent, usual):
            data |= {"day": day, "spent": as_dollars(spent), "usual": as_dollars(usual)}
        case None:
            pass
    return AlertDocument(type=f"alert.{alert.kind.value}", timestamp=_time(alert.at), data=data)


def _time(at: int) -> str:
    moment = datetime.datetime.fromtimestamp(at / 1000, datetime.UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def usual_days(now: int) -> tuple[datetime.date, datetime.date]:
    """Today, and the first of the days that the usual spending is computed from."""
    today = day_of(now)
    return today, today - datetime.timedelta(days=USUAL_DAYS)


def is_email(text: str) -> bool:
    """Whether a text is an address that can be written to: in ASCII, with a domain."""
    return len(text) <= EMAIL_CHARACTERS_MAX and _EMAIL.fullmatch(text) is not None


def _budget(budget: BudgetFigures) -> str:
    whose = {"workspace": "the workspace", "key": "the key"}.get(budget.scope, f"the {budget.scope}")
    subject = f" {budget.subject}" if budget.subject else ""
    return f"{whose}{subject} ({as_dollars(budget.limit)} US dollars {_PERIODS[budget.period]})"
