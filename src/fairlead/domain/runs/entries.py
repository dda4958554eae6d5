"""What is written of a run, each with everything it needs: admission, acceptance, settlement, takeover.

The records every run passes through are msgspec structs: making a frozen dataclass of twelve fields costs 2 µs, a
frozen struct 0.1 µs (docs/why.md).
"""

from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from fairlead.domain.faults import Fault
from fairlead.domain.runs.states import RunState


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


class Acceptance(msgspec.Struct, frozen=True):
    """The partner's handle for the work of a run, to be durable before it is relied on."""

    run_id: str
    attempt: int
    handle: str


class Settlement(msgspec.Struct, frozen=True):
    """The end of a run: what became of it, and what is charged of the hold (0 voids it)."""

    run_id: str
    workspace_id: str
    attempt: int
    state: RunState
    hold: int
    charge: int
    billed: bool
    reason: str
    rate_version: str
    finished_at: int
    upstream_status: int | None = None
    caller_left: bool = False


JournalEntry: TypeAlias = Admission | Acceptance | Settlement


@dataclass(frozen=True, slots=True)
class Superseded:
    """The entry named an attempt that is no longer the run's, or a run that has ended: nothing was written."""


Verdict: TypeAlias = Fault | Superseded | None
"""What became of an entry: None when it was written, or why it was not."""


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


class Stray(msgspec.Struct, frozen=True):
    """An unfinished run in the books, as far as voiding it needs to know it."""

    run_id: str
    workspace_id: str
    attempt: int
    hold: int
    rate_version: str
