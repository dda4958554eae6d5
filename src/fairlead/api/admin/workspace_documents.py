"""The documents of workspaces and their keys: what callers send, and what they are sent."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeAlias, TypedDict

import msgspec

from fairlead.api.admin.documents import Days, Dollars, Label, Networks
from fairlead.api.http.schemas import Time, Uuid
from fairlead.domain.accounts.callers import ORGANIZATION_CHARACTERS_MAX, Billing
from fairlead.domain.ledger.budgets import TEAM_CHARACTERS_MAX, BudgetPeriod

Names: TypeAlias = Annotated[
    list[Annotated[str, msgspec.Meta(min_length=1, max_length=200)]], msgspec.Meta(max_length=1000)
]
"""Names that are allowed; a `*` at the end of a model's name stands for any rest."""
Amount: TypeAlias = Annotated[str, msgspec.Meta(max_length=20)]
Switch: TypeAlias = Literal["on", "off"]
Switches: TypeAlias = Annotated[
    dict[Annotated[str, msgspec.Meta(max_length=100)], Switch], msgspec.Meta(max_length=200)
]
InFlight: TypeAlias = Annotated[int, msgspec.Meta(ge=-1, le=1_000_000)]
Stored: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**60)]
Organization: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=ORGANIZATION_CHARACTERS_MAX)]
Team: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=TEAM_CHARACTERS_MAX)]
Percent: TypeAlias = Annotated[str, msgspec.Meta(max_length=8, examples=["7.5"])]
"""A markup, from -90 to 1000 with at most two decimals."""
Tier: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class LimitsShown(TypedDict):
    """What a workspace may have at a time, and keep. `-1` and, of what is kept, `0` are no limit."""

    in_flight: int
    commitment: Dollars | None
    jobs: int
    storage_bytes: int
    storage_files: int


class StorageShown(TypedDict):
    """What a workspace keeps in files."""

    bytes: int
    files: int


class UnderWayShown(TypedDict):
    """The work of a workspace: runs and jobs that hold a place, and those that wait for one.

    Of the runs that no worker has claimed (`waiting`), those that are parked wait for a place of the workspace.
    """

    runs: int
    waiting: int
    parked: int
    jobs: int
    jobs_parked: int


class WorkspaceShown(TypedDict):
    """A workspace with its figures and rights; null of `models` and `providers` allows everything.

    `markup` is in percent, null where it is that of the settings.
    """

    id: Uuid
    name: str
    billing: Literal["prepaid", "postpaid"]
    balance: Dollars
    held: Dollars
    available: Dollars
    cap: Dollars
    state: Literal["active", "suspended", "deleting"]
    limits: LimitsShown
    under_way: UnderWayShown
    storage: StorageShown
    tier: str | None
    subscription: str
    models: Sequence[str] | None
    providers: Sequence[str] | None
    switches: Mapping[str, str]
    organization: str | None
    sso_required: bool
    markup: str | None
    created_at: Time
    delete_at: Time | None


class LimitsChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Other limits; null means no limit for `commitment`, and the limit of the settings for what is kept."""

    in_flight: InFlight | msgspec.UnsetType = msgspec.UNSET
    commitment: Amount | msgspec.UnsetType | None = msgspec.UNSET
    storage_bytes: Stored | msgspec.UnsetType | None = msgspec.UNSET
    storage_files: Stored | msgspec.UnsetType | None = msgspec.UNSET


class WorkspaceChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is to be changed of a workspace; what is left out stays. `tier` is a number, and sets two limits.

    `markup` takes the place of those of the settings for new runs; null for these.
    """

    billing: Billing | msgspec.UnsetType = msgspec.UNSET
    cap: Amount | msgspec.UnsetType = msgspec.UNSET
    tier: Tier | msgspec.UnsetType = msgspec.UNSET
    subscription: Label | msgspec.UnsetType = msgspec.UNSET
    models: Names | msgspec.UnsetType | None = msgspec.UNSET
    providers: Names | msgspec.UnsetType | None = msgspec.UNSET
    switches: Switches | msgspec.UnsetType = msgspec.UNSET
    organization: Organization | msgspec.UnsetType | None = msgspec.UNSET
    sso_required: bool | msgspec.UnsetType = msgspec.UNSET
    markup: Percent | msgspec.UnsetType | None = msgspec.UNSET
    limits: LimitsChange | msgspec.UnsetType = msgspec.UNSET


class NewWorkspace(WorkspaceChange, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A workspace to be made; what is left out has the same default as in the commands."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class NewCredit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Money to be booked in, or a negative correction, and why."""

    amount: Amount
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "payment"


class KeyShown(TypedDict):
    """What may be shown of an API key; `models` is null where every model of the workspace is allowed.

    It may be used from `networks`, or from anywhere where there are none. The secret before a rotation is good until
    `previous_until`.
    """

    id: Uuid
    label: str
    team: str | None
    hint: str
    models: Sequence[str] | None
    budget: Dollars | None
    budget_period: str | None
    spent: Dollars | None
    held: Dollars
    organization: str | None
    sso_required: bool
    networks: Sequence[str]
    created_at: Time
    used_at: Time | None
    expires_at: Time | None
    previous_until: Time | None
    revoked_at: Time | None


class IssuedApiKey(TypedDict):
    """An API key that was just made; `secret` is never shown again."""

    key: KeyShown
    secret: str


class NewApiKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An API key to be made. Without a budget it spends what its workspace may."""

    label: Label = ""
    team: Team | None = None
    models: Names | None = None
    budget: Amount | None = None
    budget_period: BudgetPeriod | None = None
    organization: Organization | None = None
    sso_required: bool = False
    expires_in_days: Days | None = None
    networks: Networks = []


class ApiKeyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is to be changed of an API key; what is left out stays. Null removes a budget, and an end."""

    label: Label | msgspec.UnsetType = msgspec.UNSET
    team: Team | msgspec.UnsetType | None = msgspec.UNSET
    models: Names | msgspec.UnsetType | None = msgspec.UNSET
    budget: Amount | msgspec.UnsetType | None = msgspec.UNSET
    budget_period: BudgetPeriod | msgspec.UnsetType = msgspec.UNSET
    organization: Organization | msgspec.UnsetType | None = msgspec.UNSET
    sso_required: bool | msgspec.UnsetType = msgspec.UNSET
    expires_in_days: Days | msgspec.UnsetType | None = msgspec.UNSET
    networks: Networks | msgspec.UnsetType = msgspec.UNSET


class ProviderKeyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A workspace's own key at a provider."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=32 * 1024)]


class ProviderKeyShown(TypedDict):
    """What may be shown of a stored key."""

    provider: str
    hint: str
    created_at: Time


class WebhookSecretShown(TypedDict):
    """What a workspace's webhooks are signed with."""

    secret: str
    rotated_at: Time | None
