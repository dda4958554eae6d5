"""What is written of a run, each with everything it needs: admission, acceptance, settlement, takeover.

The records every run passes through are msgspec structs: making a frozen dataclass of twelve fields costs 2 µs, a
frozen struct 0.1 µs (docs/why.md).
"""

from typing import TypeAlias, final

import msgspec

from fairlead.domain.accounts.rights import Actor
from fairlead.domain.faults import Fault
from fairlead.domain.runs.outcomes import Work
from fairlead.domain.runs.states import RunState
from fairlead.domain.work.entries import Claim, DocumentBlob, Release, Superseded, TakeOver
from fairlead.domain.work.pools import DEFAULT_POOL


class IdempotencyKey(msgspec.Struct, frozen=True):
    """A caller's idempotency key as it is kept (R-18): digests of itself and of the call, and until when (ms)."""

    id: str
    fingerprint: str
    expires_at: int


class KeptResult(msgspec.Struct, frozen=True):
    """How a run ended, kept to be told again: a failure, or the result itself or the blob that holds it.

    `replayable_until` (ms) bounds results that name links of a partner's; None as long as it is kept, 0 never.
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


class EarlierWork(msgspec.Struct, frozen=True):
    """Work that its partner took and has not told the end of, of a run that has ended (R-18).

    The idempotency key of that run counts until `expires_at` (ms).
    """

    run_id: str
    provider: str
    work: Work
    byok: bool
    expires_at: int


class QueueTicket(msgspec.Struct, frozen=True):
    """What makes a run a queued one (R-32): how many may wait in its workspace, its links' base, whom to tell."""

    backlog: int
    base_url: str
    webhook_url: str | None = None


@final
class Admission(msgspec.Struct, frozen=True):
    """A run to be admitted: it takes a slot and a hold, or is refused. Times in ms since 1970, money in 10^-8 dollars.

    `request`, or the blob that holds it, is kept while the run is live, so that a takeover can price it and, where that
    is safe, repeat it. With a `ticket` it need not find a slot: it waits for one. A run that goes on with the undecided
    work of an earlier one begins with that `work` and takes over its idempotency key. `least` is the least it was
    estimated to cost, `dropped` a JSON array of what a translation left out, None for nothing. Servers of its
    `pool` execute a queued one.
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


@final
class Withdrawal(msgspec.Struct, frozen=True):
    """A queued run is not wanted any more (R-35), or has waited too long; `kept` is what its collectors are told.

    One that waits ends here and is never dispatched. Of one that a worker has claimed it is noted, where it was
    cancelled, for anyone who works on it; what became too old has then been in time. The audit log says that it was
    done `by` somebody who administers; None for its caller, and for what no person does.
    """

    run_id: str
    workspace_id: str
    reason: str
    kept: KeptResult
    at: int
    by: Actor | None = None


@final
class Acceptance(msgspec.Struct, frozen=True):
    """The partner's handle for the work of a run, to be durable before it is relied on; and whom it was shown.

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

    To be durable before that provider is called. `held` is what is held, `hold` what will be; `turn` counts from 1.
    """

    run_id: str
    workspace_id: str
    attempt: int
    provider: str
    rate_version: str
    held: int
    hold: int
    turn: int
    at: int


@final
class Settlement(msgspec.Struct, frozen=True):
    """The end of a run: what became of it, and what is charged (0 voids it) of what the books hold for it.

    A run that was called with an idempotency key keeps its `result` for that key; without one the key `key_id` is free
    again, and with neither the key stays taken by work that can be asked about again. A run that is
    as `booked` need not be read to be ended.
    """

    run_id: str
    workspace_id: str
    attempt: int
    state: RunState
    charge: int
    billed: bool
    reason: str
    rate_version: str
    finished_at: int
    upstream_status: int | None = None
    caller_left: bool = False
    key_id: str | None = None
    result: KeptResult | None = None
    events: tuple["RunEntry", ...] = ()
    booked: "BookedRun | None" = None


class BookedRun(msgspec.Struct, frozen=True):
    """What the books have of a run: what is held, for which API key (None for a token), and where its body is.

    `place` is its number in the queue, None for a synchronous run.
    """

    hold: int
    key_id: str | None
    model_id: str
    place: int | None = None
    request_blob: str | None = None


class RunEntry(msgspec.Struct, frozen=True):
    """Something that happened to a run on its way and that its other figures do not tell (`fairlead runs show`)."""

    kind: str
    attempt: int
    detail: str
    at: int


JournalEntry: TypeAlias = Admission | Claim | Release | Withdrawal | TakeOver | Acceptance | Redirection | Settlement


class Committed(msgspec.Struct, frozen=True):
    """The run was admitted under a cap on committed spend: the cap, and what is committed with it (R-23)."""

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
    """The run is under way, and it is noted that it is not wanted: at the server that works on it."""

    server_id: str | None


class HasEnded(msgspec.Struct, frozen=True):
    """The run ended before; nothing was written."""


class LiveRun(msgspec.Struct, frozen=True):
    """A run found unfinished in the books: what a takeover needs to go on."""

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

    @property
    def is_queued(self) -> bool:
        """Whether the run came through the queue: its result is kept for anyone who collects it."""
        return self.place is not None


class Stray(msgspec.Struct, frozen=True):
    """An unfinished run in the books, as far as voiding it needs to know it."""

    run_id: str
    workspace_id: str
    attempt: int
    rate_version: str
    key_id: str | None = None
    place: int | None = None
    handle: str | None = None


Verdict: TypeAlias = (
    Fault | Superseded | KeyUsed | Committed | Enqueued | Withdrawn | CancelNoted | HasEnded | LiveRun | None
)
"""What became of an entry: None when it was written, one of the others where there is more to say, or why it was not.

A claim and a takeover are answered with the run as the books know it.
"""
