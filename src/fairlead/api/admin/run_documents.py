"""The documents of runs, as types."""

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeAlias, TypedDict

import msgspec

from fairlead.api.admin.documents import Dollars
from fairlead.api.http.schemas import Link, Time, Uuid
from fairlead.domain.ledger.books import EntryKind
from fairlead.domain.runs.states import RunState

StateName: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [state.value for state in RunState]})]
EntryName: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [kind.value for kind in EntryKind]})]


class KeyOfRun(TypedDict):
    """The API key that a run was called with."""

    id: Uuid
    label: str
    hint: str


class RunShown(TypedDict):
    """A run in a list; `charge` is null while it is under way, `key` for one that was called with a token."""

    id: Uuid
    workspace: str
    model: str
    provider: str
    state: StateName
    reason: str | None
    key: KeyOfRun | None
    hold: Dollars
    charge: Dollars | None
    is_queued: bool
    labels: Mapping[str, str]
    created_at: Time
    finished_at: Time | None


class TimelineEntryShown(TypedDict):
    """Something that happened to a run."""

    at: Time
    kind: str
    attempt: int | None
    detail: str


class LedgerEntryShown(TypedDict):
    """An entry of the ledger: what it changes, and why."""

    at: Time
    kind: EntryName
    balance_change: Dollars
    held_change: Dollars
    reason: str
    rate_version: str | None


class WebhookTryShown(TypedDict):
    """An attempt to deliver a run's webhook: what the receiver has answered, or why it could not be reached."""

    number: int
    at: Time
    milliseconds: int
    status: int | None
    error: str | None


class RunWebhookShown(TypedDict):
    """The webhook of a run: its address without the query, and the state of its delivery.

    `next_at` is the time of the next attempt; null while the run goes on, and once it is delivered or given up.
    """

    url: str
    next_at: Time | None
    delivered_at: Time | None
    gave_up_at: Time | None
    tries: Sequence[WebhookTryShown]


class RunDetailShown(RunShown):
    """A run in full: what happened to it in order, what was booked, and the links in its result while that is kept.

    `webhook` is null where the caller asked for none.
    """

    attempt: int
    operation: str | None
    is_strict: bool
    is_byok: bool
    is_redirected: bool
    dropped: Sequence[str]
    least: Dollars | None
    rate_version: str
    upstream_status: int | None
    cancel_requested_at: Time | None
    timeline: Sequence[TimelineEntryShown]
    ledger: Sequence[LedgerEntryShown]
    outputs: Sequence[Link]
    webhook: RunWebhookShown | None


class RunCancelled(TypedDict):
    """Whether this call asks the run to stop; false for one that had ended."""

    is_cancelled: bool
