"""The entries that are written about runs, each with everything it needs: admission, acceptance, settlement, takeover.

The records every run passes through are msgspec structs: making a frozen dataclass of twelve fields costs 2 µs, a
frozen struct 0.1 µs (docs/why.md).
"""

from typing import Final, TypeAlias, final

import msgspec

from fairlead.domain.accounts.rights import Actor
from fairlead.domain.faults import Fault
from fairlead.domain.runs.outcomes import Work
from fairlead.domain.runs.states import RunState
from fairlead.domain.work.entries import Claim, DocumentBlob, Release, Superseded, TakeOver
from fairlead.domain.work.pools import DEFAULT_POOL


class IdempotencyKey(msgspec.Struct, frozen=True):
    """A caller's idempotency key as it is stored (R-18): digests of the key and of the call, and until when (ms)."""

    id: str
    fingerprint: str
    expires_at: int


class KeptResult(msgspec.Struct, frozen=True):
    """How a run ended, stored to be replayed: a failure, or the result itself or the blob that holds it.

    `replayable_until` (ms) bounds results that name links of a partner's; None means as long as it is stored, 0 never.
    """

    expires_at: int
    fault: bytes | None = None
    content_type: str | None = None
    content: bytes | None = None
    blob: str | None = None
    size: int | None = None
    fallback_provider: str | None = None
    dropped: str | None = None
    replayable_until: int | None = None


LABELS_MAX: Final = 8
"""How many labels a run may have."""


class EarlierWork(msgspec.Struct, frozen=True):
    """Work of an ended run that its partner took and has not finished, as far as is known (R-18).

    The idempotency key of that run counts until `expires_at` (ms).
    """

    run_id: str
    provider: str
    work: Work
    byok: bool
    expires_at: int


class QueueTicket(msgspec.Struct, frozen=True):
    """What only queued runs have (R-32): how many may wait in the workspace, the base of links, the webhook."""

    backlog: int
    base_url: str
    webhook_url: str | None = None


@final
class Admission(msgspec.Struct, frozen=True):
    """A run to be admitted: it takes a slot and a hold, or is refused. Times in ms since 1970, money in 10^-8 dollars.

    `request`, or the blob that holds it, is kept while the run is live, so that a takeover can price it and, where that
    is safe, repeat it. With a `ticket` it may wait for a slot. A run that goes on with the undecided work of an earlier
    one begins with that `work` and takes over its idempotency key. `least` is the lower bound of its estimate,
    `most` the upper one where that may be more than the hold, `dropped` a JSON array of what a translation left out,
    None for nothing. Servers of its `pool` execute a queued one.
    """

    run_id: str
    workspace_id: str
    key_id: str | None
    model_id: str
    provider: str
    server_id: str
    hold: int
    rate_version: str
    created_at: int
    request: bytes | DocumentBlob
    operation: str | None = None
    strict: bool = False
    byok: bool = False
    key: IdempotencyKey | None = None
    least: int | None = None
    dropped: str | None = None
    ticket: QueueTicket | None = None
    work: "EarlierWork | None" = None
    pool: str = DEFAULT_POOL
    labels: str | None = None
    """A JSON object of texts, None for none."""
    most: int | None = None


@final
class Withdrawal(msgspec.Struct, frozen=True):
    """A queued run was cancelled (R-35), or has waited too long; `kept` is the result that its collectors get.

    A run that waits ends here and is never dispatched. For one that a worker has claimed, a cancellation is recorded
    for that worker; one that had waited long was then claimed in time. The audit log says that it was done `by`
    an administrator; None for its caller, and for automatic withdrawals.
    """

    run_id: str
    workspace_id: str
    reason: str
    kept: KeptResult
    at: int
    by: Actor | None = None


@final
class Acceptance(msgspec.Struct, frozen=True):
    """The partner's handle for the work of a run, and the credential it was taken under.

    It must be durable before it is used.

    `status` is the HTTP status the partner answered with; it is not kept.
    """

    run_id: str
    attempt: int
    handle: str
    credential: str = ""
    status: int | None = None


@final
class Redirection(msgspec.Struct, frozen=True):
    """A run that goes on at another provider after the first has certainly not taken it (R-14).

    To be durable before that provider is called. `hold` is the hold after it.
    """

    run_id: str
    workspace_id: str
    attempt: int
    provider: str
    rate_version: str
    hold: int
    at: int


@final
class TopUp(msgspec.Struct, frozen=True):
    """A run whose hold grows, because its partner tells that more is due than is held (D-28).

    `hold` is the hold after it; a run that is held for as much, or more, is left as it is.
    """

    run_id: str
    workspace_id: str
    attempt: int
    hold: int
    at: int


@final
class Postponement(msgspec.Struct, frozen=True):
    """A queued run goes back to wait, because its partner has certainly not taken it and may do so later.

    It gives its slot back, and is released again after `pause_ms` at the earliest, by the database's clock. If it
    `was_tried`, its partner was called, which counts. If not, its partner cools down for the workspace, and the other
    waiting runs of the workspace at that `provider` wait as long.
    """

    run_id: str
    workspace_id: str
    attempt: int
    provider: str
    pause_ms: int
    was_tried: bool
    events: tuple["RunEntry", ...] = ()


@final
class Settlement(msgspec.Struct, frozen=True):
    """The end of a run: its outcome, and how much of its hold is charged (0 voids it).

    A run that was called with an idempotency key stores its `result` for that key; without a result the key `key_id` is
    free again, and with neither the key stays taken by work that can be asked about again. A run that is as `booked`
    can be ended without being read. `facts` are what its price was made of, to price it again; None where that is not
    kept (price_facts.py).
    """

    run_id: str
    workspace_id: str
    attempt: int
    state: RunState
    charge: int
    is_billed: bool
    reason: str
    rate_version: str
    finished_at: int
    upstream_status: int | None = None
    caller_left: bool = False
    key_id: str | None = None
    result: KeptResult | None = None
    events: tuple["RunEntry", ...] = ()
    booked: "BookedRun | None" = None
    facts: str | None = None


class BookedRun(msgspec.Struct, frozen=True):
    """What is stored of a run: its hold, its API key (None for a token), where its body is, and its labels as JSON.

    `place` is its number in the queue, None for a synchronous run.
    """

    hold: int
    key_id: str | None
    model_id: str
    place: int | None = None
    request_blob: str | None = None
    labels: str | None = None


PROVIDER_SAID: Final = "provider said"
"""The kind of an event with a partner's own words about a failure."""
PROVIDER_TOLD_OPERATORS: Final = "provider told the operator"
"""The same where the words may be about the operator's account: the workspace of the run does not see them."""
EVENT_DETAIL_MAX: Final = 300


class RunEntry(msgspec.Struct, frozen=True):
    """An event of a run that its other figures do not show (`fairlead runs show`)."""

    kind: str
    attempt: int
    detail: str
    at: int


JournalEntry: TypeAlias = (
    Admission | Claim | Release | Withdrawal | TakeOver | Acceptance | Redirection | TopUp | Postponement | Settlement
)


class Committed(msgspec.Struct, frozen=True):
    """The run was admitted under a cap on committed spend: the cap, and what is committed including the run (R-23)."""

    limit: int
    committed: int


class KeyUsed(msgspec.Struct, frozen=True):
    """The idempotency key was used before, for the same call, by this run: nothing was written (R-18)."""

    run_id: str


class Enqueued(msgspec.Struct, frozen=True):
    """The run was admitted to its queue: how many requests of its workspace were ahead of it then (R-32)."""

    position: int


class Withdrawn(msgspec.Struct, frozen=True):
    """The run ended without having been dispatched, by this entry."""


class CancelNoted(msgspec.Struct, frozen=True):
    """The run is under way, and its cancellation is recorded for the server that works on it.

    To a postponement: it was not written, because of that.
    """

    server_id: str | None


class HasEnded(msgspec.Struct, frozen=True):
    """The run ended before; nothing was written."""


class LiveRun(msgspec.Struct, frozen=True):
    """An unfinished run, with all that a takeover needs to go on.

    It was `postponed` so often, after `tries` of these to call its partner.
    """

    run_id: str
    workspace_id: str
    workspace: str
    model_id: str
    provider: str
    state: RunState
    attempt: int
    handle: str | None
    hold: int
    rate_version: str
    request: bytes | DocumentBlob
    credential: str = ""
    operation: str | None = None
    strict: bool = False
    byok: bool = False
    redirected: bool = False
    key_id: str | None = None
    base_url: str | None = None
    place: int | None = None
    created_at: int = 0
    cancel_requested_at: int | None = None
    postponed: int = 0
    tries: int = 0

    @property
    def is_queued(self) -> bool:
        """Whether the run came through the queue, so that its result is stored to be collected."""
        return self.place is not None


class Stray(msgspec.Struct, frozen=True):
    """The part of an unfinished run that is needed to void it."""

    run_id: str
    workspace_id: str
    attempt: int
    rate_version: str
    key_id: str | None = None
    place: int | None = None
    handle: str | None = None
    postponed: int = 0

    @property
    def was_taken_over(self) -> bool:
        """Whether another server had it before: a run begins with one attempt, and each postponement with another."""
        return self.attempt > self.postponed + 1


Verdict: TypeAlias = (
    Fault | Superseded | KeyUsed | Committed | Enqueued | Withdrawn | CancelNoted | HasEnded | LiveRun | None
)
"""The outcome of an entry: None when it was written, another record where there is more to say, or why it was not.

A claim and a takeover return the stored run.
"""
