"""The router's documents that are not records, as types: what callers send, and what they are sent (docs/router.md)."""

from collections.abc import Sequence
from typing import Annotated, Any, NotRequired, TypeAlias, TypedDict, get_args

import msgspec

from fairlead.api.http.schemas import Day, Link, Time
from fairlead.domain.faults import Bucket
from fairlead.domain.ledger.usage import UsedKey, UsedLabel

Dollars: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": "^-?[0-9]+([.][0-9]+)?$"})]
"""An amount of US dollars, as text."""
Credits: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": "^-?[0-9]+([.][0-9]+)?$"})]
BucketName: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(get_args(Bucket))})]


class RouterError(TypedDict):
    """An error of the router: a sentence, and its bucket."""

    detail: str
    error_type: BucketName
    upstream_detail: NotRequired[str]
    refusal_subject: NotRequired[str]


class InputViolation(TypedDict):
    """One failing field of a body: its path, a sentence, and a kind."""

    loc: Sequence[str | int]
    msg: str
    type: str
    ctx: NotRequired[Any]
    input: NotRequired[Any]


class InputError(TypedDict):
    """Everything that is wrong with a body."""

    detail: Sequence[InputViolation]


class ServingProvider(TypedDict):
    """A provider that can run a model, under its own name for it."""

    provider: str
    native: bool
    model: str
    available: bool


class ProviderKeyBody(TypedDict):
    """A key at a provider."""

    key: str


class ProviderKeyShown(TypedDict):
    """What may be shown of a stored key."""

    provider: str
    hint: str
    created_at: Time


class ProviderKeyList(TypedDict):
    """The stored keys of a workspace."""

    data: Sequence[ProviderKeyShown]


class WebhookSecretShown(TypedDict):
    """The secret that webhooks are signed with."""

    secret: str
    rotated_at: Time | None


class WebhookTry(TypedDict):
    """One attempt to deliver a webhook, and its outcome."""

    number: int
    at: Time
    milliseconds: int
    status: int | None
    error: str | None


class WebhookDelivery(TypedDict):
    """The webhook of a run, and the state of its delivery."""

    url: Link
    tries: Sequence[WebhookTry]
    delivered_at: Time | None
    gave_up_at: Time | None
    next_at: Time | None


class WebhookDeliveries(TypedDict):
    """The webhook of a run; null where it has none."""

    data: Sequence[WebhookDelivery]


class UsageFigures(TypedDict):
    """How many runs have ended, and what they were charged."""

    runs: int
    succeeded: int
    failed: int
    amount: Dollars
    credits: Credits


class UsageRow(UsageFigures):
    """The figures of one group."""

    day: NotRequired[Day | None]
    model: NotRequired[str | None]
    key: NotRequired[UsedKey | None]
    label: NotRequired[UsedLabel | None]


UsageShown = TypedDict(
    "UsageShown",
    {
        "from": Day,
        "to": Day,
        "group_by": Sequence[str],
        "data": Sequence[UsageRow],
        "total": UsageFigures,
    },
)
