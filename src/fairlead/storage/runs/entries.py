"""How a batch of journal entries becomes rows, all or nothing: runs, holds, the queue, and what hangs on them."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection

from fairlead.domain.accounts.callers import Billing
from fairlead.domain.faults import Cancelled, Fault, Unauthorized, bucket
from fairlead.domain.ledger.books import (
    COSTLY,
    UNLIMITED,
    EntryKind,
    Funds,
    refuse_admission,
    refuse_commitment,
    refuse_hold,
    refuse_queueing,
    refuse_slot,
)
from fairlead.domain.runs.entries import (
    Acceptance,
    Admission,
    CancelNoted,
    Committed,
    Enqueued,
    HasEnded,
    JournalEntry,
    KeyUsed,
    Redirection,
    Settlement,
    TakeOver,
    Verdict,
    Withdrawal,
    Withdrawn,
)
from fairlead.domain.runs.queue import RunChanged
from fairlead.domain.runs.states import WAITING, WORKING, RunEvent, RunState, advance, states_before
from fairlead.domain.work.entries import Claim, Release, Superseded
from fairlead.storage.db.statements import Prepared
from fairlead.storage.ledger.budgets import HOLD_FOR_KEY, BudgetBook
from fairlead.storage.ledger.usage import UsageBook
from fairlead.storage.runs import entry_statements as sql
from fairlead.storage.runs.idempotency import KeyBook
from fairlead.storage.runs.webhooks import DELIVERY_IS_DUE, INSERT_DELIVERY

_Row: TypeAlias = tuple[object, ...]
_OfARun: TypeAlias = Claim | Withdrawal | TakeOver | Acceptance | Redirection | Settlement

# Plain texts and members by names of ours: every run needs several, and an enumeration takes its time to look them up.
_TEXT: Final = {one: one.value for one in RunState}
_BILLING: Final = {one.value: one for one in Billing}
_HOLD: Final = EntryKind.HOLD.value
_POST: Final = EntryKind.POST.value
_VOID: Final = EntryKind.VOID.value
_DISPATCHED: Final = RunState.DISPATCHED
_SUCCEEDED: Final = RunState.SUCCEEDED
_ACCEPTED: Final = advance(RunState.DISPATCHED, RunEvent.ACCEPT).value
_CLAIMED: Final = advance(RunState.RELEASED, RunEvent.CLAIM)
_RELEASED: Final = advance(RunState.PARKED, RunEvent.RELEASE)
_WITHDRAWN: Final = advance(RunState.PARKED, RunEvent.WITHDRAW)
_REDIRECTABLE: Final = frozenset(states_before(RunEvent.REDIRECT))
_CLAIMABLE: Final = frozenset(states_before(RunEvent.CLAIM))
_CANCELLED: Final = bucket(Cancelled())
_NOT_VALID: Final = Unauthorized("This API key is not valid.")
_RELEASED_AT_ONCE: Final = 256
_ANY_HOLD: Final = 2**62


class Written(msgspec.Struct, frozen=True):
    """What became of a batch: a verdict for each entry, and which runs (of which workspaces) may now be claimed.

    `changed` are the queued runs that were claimed or have ended. In the `unfinished` workspaces more may be released:
    another Release is due. The `unneeded` blobs held the bodies of runs that have ended.
    """

    verdicts: Sequence[Verdict]
    released: Sequence[tuple[str, str]]
    changed: Sequence[RunChanged]
    unfinished: Sequence[str]
    unneeded: Sequence[str]


class _LockedRun(msgspec.Struct):
    """How a run stands in the books when an entry about it arrives; locked until the batch is written.

    Two entries of a batch may be about one run: the second then meets the state and the attempt that the first has
    made of it.
    """

    attempt: int
    state: str
    charge: int | None
    finished_at: int | None
    hold: int
    provider: str
    key_id: str | None
    model_id: str
    server_id: str
    place: int | None
    rate_version: str
    claimed_at: int | None
    request_blob: str | None


class _Batch(msgspec.Struct):
    """The rows a batch of entries turns into, gathered before any is written.

    `funds` are the figures of the workspaces as the entries leave them, `before` as they were found. In `blocked`
    workspaces the first of the queue waits for committed spend to come free; nothing goes past it. `runs` are those
    that entries are about, `claimed` the rows of those that are claimed or taken over.
    """

    funds: dict[str, Funds]
    runs: dict[str, _LockedRun]
    keys: KeyBook
    budgets: BudgetBook
    claimed: dict[str, _Row]
    before: dict[str, Funds]
    usage: UsageBook = msgspec.field(default_factory=UsageBook)
    blocked: set[str] = msgspec.field(default_factory=set)
    released: list[tuple[str, str]] = msgspec.field(default_factory=list)
    changed: list[RunChanged] = msgspec.field(default_factory=list)
    unfinished: list[str] = msgspec.field(default_factory=list)
    unneeded: list[str] = msgspec.field(default_factory=list)
    new_runs: list[_Row] = msgspec.field(default_factory=list)
    claims: list[_Row] = msgspec.field(default_factory=list)
    withdrawn: list[_Row] = msgspec.field(default_factory=list)
    taken_over: list[_Row] = msgspec.field(default_factory=list)
    unwanted: list[_Row] = msgspec.field(default_factory=list)
    accepted: list[_Row] = msgspec.field(default_factory=list)
    gone_on_with: list[_Row] = msgspec.field(default_factory=list)
    redirected: list[_Row] = msgspec.field(default_factory=list)
    settled: list[_Row] = msgspec.field(default_factory=list)
    events: list[_Row] = msgspec.field(default_factory=list)
    deliveries: list[_Row] = msgspec.field(default_factory=list)
    deliveries_due: list[_Row] = msgspec.field(default_factory=list)
    ledger: list[_Row] = msgspec.field(default_factory=list)


def write_entries(connection: Connection, entries: Sequence[JournalEntry]) -> Written:
    """Write a batch of entries and say what became of each.

    Workspaces are locked first and in the order of their ids, so that two servers cannot deadlock. Ends come before
    admissions: they free the slots and the money the admissions are decided on. What waits for a slot comes before
    what has just arrived.
    """
    of_runs: list[_OfARun] = []
    admissions: list[Admission] = []
    workspace_ids: set[str] = set()
    for entry in entries:
        # Here and below `type`: to find that a struct is no instance of another takes ten times as long.
        if type(entry) is Admission:
            admissions.append(entry)
        elif type(entry) is not Release:
            of_runs.append(entry)
        if type(entry) is not Acceptance:
            workspace_ids.add(entry.workspace_id)
    batch = _begin(connection, workspace_ids, of_runs, admissions)
    verdicts: dict[int, Verdict] = {}
    for of_run in of_runs:
        verdicts[id(of_run)] = _go_on(batch, of_run)
    _write(
        connection,
        (sql.CLAIM_RUN, batch.claims),
        (sql.NOTE_CANCEL, batch.unwanted),
        (sql.ACCEPT_RUN, batch.accepted),
        (sql.REDIRECT_RUN, batch.redirected),
        (sql.TAKE_OVER_RUN, batch.taken_over),
        (sql.SETTLE_RUN, batch.settled),
        (sql.WITHDRAW_RUN, batch.withdrawn),
    )
    # What must be there before the queue is looked at is there now.
    for workspace_id in sorted(workspace_ids):
        if (found := batch.funds.get(workspace_id)) is not None and found.parked:
            _release(connection, batch, workspace_id)
    for admission in admissions:
        verdicts[id(admission)] = _admit(batch, admission)
    _write_rest(connection, batch)
    said = list(map(verdicts.get, map(id, entries)))
    return Written(said, batch.released, batch.changed, batch.unfinished, batch.unneeded)


def _begin(
    connection: Connection, workspace_ids: Iterable[str], of_runs: Sequence[_OfARun], admissions: Sequence[Admission]
) -> _Batch:
    """Lock the workspaces, then look up what else the entries are decided on, and how the runs they are about stand.

    Idempotency keys and budgets are looked up behind the lock of their workspace: of two calls with one key the second
    finds the first. Budgets are those of the API keys whose runs the batch begins, or makes dearer.
    """
    funds: dict[str, Funds] = {}
    for row in sql.LOCK_WORKSPACES.run(connection, sorted(workspace_ids)):
        # A struct is made by position: a dozen figures by name would cost more than reading them.
        funds[row[0]] = Funds(_BILLING[row[1]], *row[2:])
    run_ids, claims, raises = [], [], []
    for entry in of_runs:
        run_id = entry.id if type(entry) is Claim else entry.run_id
        run_ids.append(run_id)
        if type(entry) is Claim or type(entry) is TakeOver:
            claims.append(run_id)
        elif type(entry) is Redirection:
            raises.append(entry)
    runs: dict[str, _LockedRun] = {}
    for row in sql.LOCK_RUNS.run(connection, run_ids):
        runs[row[0]] = _LockedRun(*row[1:])
    key_ids: set[str | None] = set()
    now = 0
    for admission in admissions:
        now = max(now, admission.created_at)
        key_ids.add(admission.key_id)
    for entry in raises:
        now = max(now, entry.at)
        if found := runs.get(entry.run_id):
            key_ids.add(found.key_id)
    return _Batch(
        funds=funds,
        runs=runs,
        keys=KeyBook(connection, admissions),
        budgets=BudgetBook(connection, key_ids, now),
        claimed={row[0]: tuple(row) for row in sql.CLAIMED.run(connection, claims)} if claims else {},
        before=dict(funds),
    )


def _go_on(batch: _Batch, entry: _OfARun) -> Verdict:
    """Gather what an entry does to its run, or say that it comes too late."""
    found = batch.runs.get(entry.id if type(entry) is Claim else entry.run_id)
    if found is None:
        return Superseded()
    match entry:
        case Settlement() | Acceptance() | Redirection():
            return _of_the_owner(batch, entry, found)
        case Claim():
            return _claim(batch, entry, found)
        case Withdrawal():
            return _withdraw(batch, entry, found)
        case TakeOver():
            return _take_over(batch, entry, found)


def _claim(batch: _Batch, entry: Claim, found: _LockedRun) -> Verdict:
    """Gather the claim of a released run; the worker is told what the run is."""
    run = sql.live_run(batch.claimed[entry.id])
    if found.state not in _CLAIMABLE:
        # Or it was claimed by this very entry, in a commit whose answer was lost.
        same = found.state == _CLAIMED and (found.server_id, found.claimed_at) == (entry.server_id, entry.at)
        return run if same else Superseded()
    batch.funds[entry.workspace_id] = batch.funds[entry.workspace_id].with_claim()
    batch.claims.append((_CLAIMED.value, entry.server_id, entry.at, entry.id))
    batch.changed.append(RunChanged(entry.workspace_id, entry.id, has_ended=False))
    found.state = _CLAIMED.value
    found.attempt += 1
    return replace(run, state=_CLAIMED, attempt=run.attempt + 1)


def _take_over(batch: _Batch, entry: TakeOver, found: _LockedRun) -> Verdict:
    """Gather a takeover; the new server is told what the run is."""
    if found.state not in WORKING or found.attempt != entry.attempt:
        return Superseded()
    run = sql.live_run(batch.claimed[entry.run_id])
    state = advance(run.state, RunEvent.TAKE_OVER)
    batch.taken_over.append((state.value, entry.server_id, entry.run_id, entry.attempt))
    found.attempt += 1
    detail = f"its server fell silent while the run was {run.state}"
    batch.events.append((entry.run_id, "taken over", found.attempt, detail, entry.at))
    return replace(run, state=state, attempt=found.attempt)


def _withdraw(batch: _Batch, entry: Withdrawal, found: _LockedRun) -> Verdict:
    """Gather the end of a run that waits; of one that is under way, that it is not wanted any more."""
    if found.state in WORKING:
        if entry.reason == _CANCELLED:
            batch.unwanted.append((entry.at, entry.run_id))
            batch.events.append((entry.run_id, "cancel requested", found.attempt, "", entry.at))
        return CancelNoted(found.server_id)
    if found.state not in WAITING:
        return HasEnded()
    funds = batch.funds[entry.workspace_id]
    batch.funds[entry.workspace_id] = funds.after_withdrawal(found.hold, was_parked=found.state == RunState.PARKED)
    batch.withdrawn.append((_WITHDRAWN.value, 0, entry.reason, entry.at, entry.run_id))
    batch.keys.keep(entry.run_id, entry.kept)
    void = (2, _VOID, 0, -found.hold, entry.reason, found.rate_version, entry.at)
    batch.ledger.append((entry.workspace_id, entry.run_id, *void))
    _count_end(batch, entry.workspace_id, entry.run_id, found, entry.at, 0, succeeded=False)
    found.state = _WITHDRAWN.value
    return Withdrawn()


def _of_the_owner(batch: _Batch, entry: Acceptance | Redirection | Settlement, found: _LockedRun) -> Verdict:
    """Gather what the server that works on a run has to say of it."""
    if found.attempt != entry.attempt:
        return Superseded()
    if found.state in WORKING:
        match entry:
            case Settlement():
                _settle(batch, entry, found)
            case Redirection(provider=provider) if provider == found.provider:
                pass  # written before, in a commit whose answer was lost
            case Redirection():
                return _redirect(batch, entry, found) if found.state in _REDIRECTABLE else Superseded()
            case Acceptance():
                batch.accepted.append((_ACCEPTED, entry.handle, entry.credential, entry.run_id, entry.attempt))
        return None
    # A run that ended as this entry says was ended by it, in a commit whose answer was lost.
    ended = (found.state, found.charge, found.finished_at)
    same = isinstance(entry, Settlement) and ended == (entry.state, entry.charge, entry.finished_at)
    return None if same else Superseded()


def _release(connection: Connection, batch: _Batch, workspace_id: str) -> None:
    """Give free slots to the runs that have waited longest, some at a time: who else waits for the books shall not.

    Passed by are costly runs for which there is no room (they wait for costly ones to end, the others need not) and
    those that a cap on committed spend lowered since then will not allow.
    """
    while (funds := batch.funds[workspace_id]).parked and funds.free_slots:
        most = _RELEASED_AT_ONCE if funds.free_slots == UNLIMITED else min(funds.free_slots, _RELEASED_AT_ONCE)
        rows = []
        for run_id, hold in sql.head_of_queue(connection, workspace_id, _below(funds), most):
            if refuse_slot(funds, hold):
                continue
            if refuse_commitment(funds, hold):
                batch.blocked.add(workspace_id)
                break
            funds = funds.with_release(hold)
            rows.append((_RELEASED.value, run_id))
        batch.funds[workspace_id] = funds
        batch.released.extend((run_id, workspace_id) for _, run_id in rows)
        sql.RELEASE_RUN.run(connection, rows)
        if len(rows) == _RELEASED_AT_ONCE:
            batch.blocked.add(workspace_id)  # nobody goes past those whose turn is in the next batch
            batch.unfinished.append(workspace_id)
        if not rows or workspace_id in batch.blocked:
            return


def _below(funds: Funds) -> int:
    """What a run must be held for less than to have a slot now."""
    has_costly_room = funds.free_slots == UNLIMITED or funds.costly_in_flight < funds.costly_limit
    below = _ANY_HOLD if has_costly_room else COSTLY
    return below if funds.commitment_limit is None else min(below, funds.commitment_limit + 1)


def _admit(batch: _Batch, entry: Admission) -> Verdict:
    funds = batch.funds.get(entry.workspace_id)
    if funds is None or entry.key_id in batch.budgets.revoked:
        return _NOT_VALID
    if refusal := _refuse(batch, entry, funds):
        return refusal
    if entry.key_id is not None:
        batch.budgets.hold(entry.key_id, entry.hold)
    if entry.ticket is None:
        state, funds = _DISPATCHED, funds.with_hold(entry.hold)
        batch.funds[entry.workspace_id] = funds
    else:
        state = _enqueue(batch, entry, funds)
        funds = batch.funds[entry.workspace_id]
    if entry.key is not None:
        batch.keys.take(entry, entry.key)
    batch.new_runs.append(sql.new_run(entry, _TEXT[state], None if entry.ticket is None else funds.last_place))
    if (earlier := entry.work) is not None:
        batch.gone_on_with.append((_ACCEPTED, earlier.work.handle, earlier.work.credential, entry.run_id, 1))
        detail = f"begun by {earlier.run_id}"
        batch.events.append((entry.run_id, "work asked about again", 1, detail, entry.created_at))
    row = (entry.workspace_id, entry.run_id, 1, _HOLD, 0, entry.hold, "admitted", entry.rate_version, entry.created_at)
    batch.ledger.append(row)
    if entry.ticket is not None:
        if entry.ticket.webhook_url is not None:
            batch.deliveries.append((entry.run_id, entry.workspace_id, entry.ticket.webhook_url, 0))
        return Enqueued(funds.waiting - 1)
    return None if funds.commitment_limit is None else Committed(funds.commitment_limit, funds.committed)


def _refuse(batch: _Batch, entry: Admission, funds: Funds) -> KeyUsed | Fault | None:
    """Say why a run may not be admitted, or None: its idempotency key, its slot, its money, the budget of its key."""
    if entry.key is not None and (used := batch.keys.refuse(entry, entry.key)):
        return used
    if entry.ticket is None:
        fault = refuse_admission(funds, entry.hold)
    else:
        fault = refuse_queueing(funds, entry.hold, entry.ticket.backlog)
    if fault is None and entry.key_id is not None:
        fault = batch.budgets.refuse(entry.key_id, entry.hold)
    return fault


def _enqueue(batch: _Batch, entry: Admission, funds: Funds) -> RunState:
    """Put a run into its queue, with a slot where one is free."""
    queued = funds.with_queued(entry.hold)
    has_slot = refuse_slot(funds, entry.hold) is None
    if has_slot and refuse_commitment(funds, entry.hold) is not None:
        batch.blocked.add(entry.workspace_id)  # nothing goes past it, in this batch as in the next
    if not has_slot or entry.workspace_id in batch.blocked:
        batch.funds[entry.workspace_id] = queued
        return RunState.PARKED
    # Those that wait could not be released, or would have been: this one takes nobody's slot.
    batch.funds[entry.workspace_id] = queued.with_release(entry.hold)
    batch.released.append((entry.run_id, entry.workspace_id))
    return _RELEASED


def _redirect(batch: _Batch, entry: Redirection, found: _LockedRun) -> Verdict:
    """Gather a run's move to another provider; a hold that grows needs the money like an admission does."""
    funds, more = batch.funds[entry.workspace_id], entry.hold - entry.held
    if more > 0 and (fault := refuse_hold(funds, more)):
        return fault
    if found.key_id is not None:
        if more > 0 and (fault := batch.budgets.refuse(found.key_id, more)):
            return fault
        batch.budgets.hold(found.key_id, more)
    batch.funds[entry.workspace_id] = funds.with_raise(entry.held, entry.hold)
    batch.redirected.append((entry.provider, entry.hold, entry.rate_version, entry.run_id, entry.attempt))
    row = (
        entry.workspace_id,
        entry.run_id,
        2 + entry.turn,
        EntryKind.RAISE.value,
        0,
        more,
        f"redirected from {found.provider} to {entry.provider}",
        entry.rate_version,
        entry.at,
    )
    batch.ledger.append(row)
    return None


def _settle(batch: _Batch, entry: Settlement, found: _LockedRun) -> None:
    """Gather the end of a run. What it frees is what the books hold for it, whatever its server believes."""
    if entry.result is not None or entry.key_id is not None:
        batch.keys.settle(entry)
    if funds := batch.funds.get(entry.workspace_id):
        batch.funds[entry.workspace_id] = funds.after_settlement(found.hold, entry.charge)
    row = (
        _TEXT[entry.state], entry.charge, entry.reason, entry.upstream_status, entry.caller_left, entry.finished_at,
        entry.run_id, entry.attempt,
    )  # fmt: skip
    batch.settled.append(row)
    for one in entry.events:
        batch.events.append((entry.run_id, one.kind, one.attempt, one.detail, one.at))
    entered = (
        entry.workspace_id, entry.run_id, 2, _POST if entry.billed else _VOID, -entry.charge, -found.hold,
        entry.reason, entry.rate_version, entry.finished_at,
    )  # fmt: skip
    batch.ledger.append(entered)
    succeeded = entry.state is _SUCCEEDED
    _count_end(batch, entry.workspace_id, entry.run_id, found, entry.finished_at, entry.charge, succeeded=succeeded)
    found.state = entry.state


def _count_end(
    batch: _Batch, workspace_id: str, run_id: str, found: _LockedRun, at: int, charge: int, *, succeeded: bool
) -> None:
    """What the end of a run means beside the run: its key's holds, the day's usage, its body, its webhook."""
    if found.key_id is not None:
        batch.budgets.end(found.key_id, found.hold, charge)
    batch.usage.ended(workspace_id, found.key_id, found.model_id, at, succeeded, charge)
    if found.request_blob is not None:
        batch.unneeded.append(found.request_blob)
    if found.place is not None:
        batch.deliveries_due.append((at, run_id))
        batch.changed.append(RunChanged(workspace_id, run_id, has_ended=True))


def _write_rest(connection: Connection, batch: _Batch) -> None:
    """Write what the queue and the admissions have made of the batch, the runs first: others refer to them."""
    changes = []
    for key, funds in sorted(batch.funds.items()):
        if funds is not batch.before[key]:
            changes.append((*funds.changes_since(batch.before[key]), key))
    _write(
        connection,
        (sql.INSERT_RUN, batch.new_runs),
        (sql.ACCEPT_RUN, batch.gone_on_with),
        (sql.INSERT_ENTRY, batch.ledger),
        (sql.INSERT_EVENT, batch.events),
        (sql.MOVE_FIGURES, changes),
        *batch.keys.rows(),
        (HOLD_FOR_KEY, batch.budgets.rows()),
        (INSERT_DELIVERY, batch.deliveries),
        (DELIVERY_IS_DUE, batch.deliveries_due),
    )
    batch.usage.write(connection)


def _write(connection: Connection, *written: tuple[Prepared, Sequence[_Row]]) -> None:
    """Execute each statement once a row, in order."""
    for statement, rows in written:
        if rows:
            statement.run(connection, rows)
