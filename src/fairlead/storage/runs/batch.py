"""What a batch of entries about runs turns into: its rows, gathered before any is written, and its outcome."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from fairlead.domain.accounts.rights import Actor
from fairlead.domain.ledger.books import Funds
from fairlead.domain.runs.entries import Verdict
from fairlead.domain.runs.queue import RunChanged
from fairlead.domain.work.entries import Released
from fairlead.storage.accounts.audit_log import Act
from fairlead.storage.ledger.label_books import LabelBook
from fairlead.storage.ledger.run_books import BudgetBook, UsageBook
from fairlead.storage.runs.entry_statements import LockedRun, OfARun
from fairlead.storage.runs.idempotency import KeyBook
from fairlead.storage.work.changes import RowChanges
from fairlead.storage.work.journal import WrittenWork

_Row: TypeAlias = tuple[object, ...]


class Written(WrittenWork[Verdict], frozen=True):
    """The outcome of a batch; the queued runs that it has `changed`: they were claimed, or have ended.

    The `unneeded` blobs held the bodies of runs that have ended.
    """

    changed: Sequence[RunChanged] = ()
    unneeded: Sequence[str] = ()


class Batch(msgspec.Struct):
    """The rows a batch of entries turns into, gathered before any is written.

    `funds` are the figures of the workspaces as the entries leave them, `before` as they were found. In `blocked`
    workspaces the first of the queue waits until committed spend is released; no other run passes it. `runs` are those
    of the `undecided` entries (the others have ended their runs already), `claimed` the rows of those that are claimed
    or taken over. Parked runs of a workspace are `held_back` until a time (ms), by their provider. `now` is the time
    (ms) by the database's clock (T-07). `phases` are the last ones of the runs whose holds may change.
    """

    now: int
    funds: dict[str, Funds]
    runs: dict[str, LockedRun]
    keys: KeyBook
    budgets: BudgetBook
    claimed: dict[str, _Row]
    before: dict[str, Funds]
    undecided: list[OfARun] = msgspec.field(default_factory=list)
    usage: UsageBook = msgspec.field(default_factory=UsageBook)
    labels: LabelBook | None = None
    blocked: set[str] = msgspec.field(default_factory=set)
    released: list[Released] = msgspec.field(default_factory=list)
    changed: list[RunChanged] = msgspec.field(default_factory=list)
    unfinished: list[str] = msgspec.field(default_factory=list)
    unneeded: list[str] = msgspec.field(default_factory=list)
    new_runs: list[_Row] = msgspec.field(default_factory=list)
    changes: RowChanges = msgspec.field(default_factory=RowChanges)
    events: list[_Row] = msgspec.field(default_factory=list)
    deliveries: list[_Row] = msgspec.field(default_factory=list)
    deliveries_due: list[_Row] = msgspec.field(default_factory=list)
    ledger: list[_Row] = msgspec.field(default_factory=list)
    acts: list[tuple[Actor, Act, int]] = msgspec.field(default_factory=list)
    held_back: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    phases: dict[str, int] = msgspec.field(default_factory=dict)
