"""The documents of budgets, alerts and limits of requests, as types."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias, TypedDict

import msgspec

from fairlead.api.admin.documents import Dollars
from fairlead.api.http.schemas import Day, Time, Uuid
from fairlead.domain.ledger.alerts import TARGET_CHARACTERS_MAX, AlertKind, ChannelKind
from fairlead.domain.ledger.budgets import (
    PERCENT_MAX,
    REASON_CHARACTERS_MAX,
    SUBJECT_CHARACTERS_MAX,
    THRESHOLDS,
    THRESHOLDS_MAX,
    BudgetPeriod,
    BudgetScope,
    Weekday,
)
from fairlead.domain.time_zones import NAME_CHARACTERS_MAX
from fairlead.operations.accounts.rate_limits import PER_MINUTE_MAX

Percent: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=PERCENT_MAX)]
Subject: TypeAlias = Annotated[str, msgspec.Meta(max_length=SUBJECT_CHARACTERS_MAX)]
Target: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=TARGET_CHARACTERS_MAX)]
ScopeName: TypeAlias = Literal["workspace", "team", "key", "model", "label"]
PeriodName: TypeAlias = Literal["day", "week", "month", "total"]
WeekdayName: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [day.value for day in Weekday]})]
ZoneName: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS_MAX, examples=["Europe/Vienna"])]
TimeOfDay: TypeAlias = Annotated[
    str, msgspec.Meta(extra_json_schema={"pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"}, examples=["06:00"])
]
KindName: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [kind.value for kind in ChannelKind]})]
ReasonName: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [kind.value for kind in AlertKind]})]


class AdditionShown(TypedDict):
    """An amount by which a budget is larger until a time; `by` is who made it."""

    id: Uuid
    amount: Dollars
    until: Time
    reason: str
    by: str
    created_at: Time


class BudgetShown(TypedDict):
    """A budget as it is now: `spent` in the period that began on the day `since`, `held` for runs under way.

    Its periods begin at `reset_time` in its `time_zone`, of which `since` is a day too; those of a week do so on
    `reset_weekday`, which is null for others. The next begins at `resets_at`, null for never. `limit_in_force` is the
    limit with the `additions`, which are those that have not ended.
    """

    id: Uuid
    scope: ScopeName
    subject: str | None
    period: PeriodName
    time_zone: ZoneName
    reset_time: TimeOfDay
    reset_weekday: WeekdayName | None
    since: Day
    resets_at: Time | None
    limit: Dollars
    limit_in_force: Dollars
    spent: Dollars
    held: Dollars
    thresholds: Sequence[int]
    is_enforced: bool
    additions: Sequence[AdditionShown]
    created_at: Time


class NewBudget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A budget to be made; `subject` is a team, the id of a key or of a model, or a label such as `client=acme`.

    It is absent for the workspace. Without other terms periods begin at 00:00 in UTC, and those of a week on Monday.
    """

    scope: BudgetScope
    limit: Dollars
    period: BudgetPeriod = BudgetPeriod.MONTH
    subject: Subject | None = None
    thresholds: Annotated[tuple[Percent, ...], msgspec.Meta(max_length=THRESHOLDS_MAX)] = THRESHOLDS
    is_enforced: bool = True
    time_zone: ZoneName | None = None
    reset_time: TimeOfDay | None = None
    reset_weekday: Weekday | None = None


class BudgetChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be changed of a budget; what is left out stays."""

    limit: Dollars | None = None
    period: BudgetPeriod | None = None
    thresholds: Annotated[tuple[Percent, ...], msgspec.Meta(max_length=THRESHOLDS_MAX)] | None = None
    is_enforced: bool | None = None
    time_zone: ZoneName | None = None
    reset_time: TimeOfDay | None = None
    reset_weekday: Weekday | None = None


class NewAddition(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be added to a budget until a time, or to the end of a day in UTC, and why."""

    amount: Dollars
    until: Annotated[str, msgspec.Meta(max_length=40)]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_CHARACTERS_MAX)]


class NewChannel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An alert channel to be made: an address of a webhook, or an e-mail address."""

    kind: ChannelKind
    target: Target


class ChannelShown(TypedDict):
    """An alert channel; `target` is what may be shown of its address."""

    id: Uuid
    kind: KindName
    target: str
    created_at: Time


class TellingShown(TypedDict):
    """An alert as a channel has sent it; the channel may have been deleted since."""

    channel: Uuid
    kind: KindName | None
    target: str | None
    tries: int
    status: int | None
    error: str | None
    delivered_at: Time | None
    gave_up_at: Time | None


class AlertShown(TypedDict):
    """An alert: a sentence, and the channels that it was sent to."""

    id: int
    at: Time
    kind: ReasonName
    budget: Uuid | None
    message: str
    delivered: Sequence[TellingShown]


class NewRateLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A limit of requests to be set: of a key by its id, or of a model by its id."""

    scope: Literal["key", "model"]
    subject: Subject
    per_minute: Annotated[int, msgspec.Meta(ge=1, le=PER_MINUTE_MAX)]


class RateLimitShown(TypedDict):
    """A limit of requests in a minute."""

    id: Uuid
    scope: Literal["key", "model"]
    subject: str
    per_minute: int
    created_at: Time
