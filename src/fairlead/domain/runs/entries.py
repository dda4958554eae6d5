"""What is written of a run, each with everything it needs: admission, acceptance, settlement, takeover.

The records every run passes through are msgspec structs: making a frozen dataclass of twelve fields costs 2 µs, a
frozen struct 0.1 µs (docs/why.md).
"""

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from fairlead.domain.faults import Fault
from fairlead.domain.runs.states import RunState


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


class Admission(msgspec.Struct, frozen=True):
    """A run to be admitted: it takes a slot and a hold, or is refused. Times in ms since 1970, money in 10^-8 dollars.

    `request` is kept while the run is live, so that a takeover can price it and, where that is safe, repeat it.
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
    request: bytes
    operation: str | None = None
    strict: bool = False
    byok: bool = False
    key: IdempotencyKey | None = None


class Acceptance(msgspec.Struct, frozen=True):
    """The partner's handle for the work of a run, to be durable before it is relied on; and whom it was shown."""

    run_id: str
    attempt: int
    handle: str
    credential: str = ""


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


class Settlement(msgspec.Struct, frozen=True):
    """The end of a run: what became of it, and what is charged (0 voids it) of what the books hold for it.

    A run that was called with an idempotency key (`key_id`) keeps its `result` for that key; without one the key is
    free again.
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


JournalEntry: TypeAlias = Admission | Acceptance | Redirection | Settlement


@dataclass(frozen=True, slots=True)
class Superseded:
    """The entry named an attempt that is no longer the run's, or a run that has ended: nothing was written."""


class Committed(msgspec.Struct, frozen=True):
    """The run was admitted under a cap on committed spend: the cap, and what is committed with it (R-23)."""

    limit: int
    committed: int


class KeyUsed(msgspec.Struct, frozen=True):
    """The idempotency key was used before, for the same call, by this run: nothing was written (R-18)."""

    run_id: str


Verdict: TypeAlias = Fault | Superseded | KeyUsed | Committed | None
"""What became of an entry: None (or Committed) when it was written, or why it was not."""


@dataclass(frozen=True, slots=True)
class LiveRun:
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
    request: bytes
    credential: str = ""
    operation: str | None = None
    strict: bool = False
    byok: bool = False
    redirected: bool = False
    key_id: str | None = None


class Stray(msgspec.Struct, frozen=True):
    """An unfinished run in the books, as far as voiding it needs to know it."""

    run_id: str
    workspace_id: str
    attempt: int
    rate_version: str
    key_id: str | None = None
