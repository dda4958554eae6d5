"""How a batch of journal entries becomes rows, all or nothing: runs, holds, the queue, and what depends on them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace
from sqlalchemy import Connection

from fairlead.domain.accounts.callers import Billing
from fairlead.domain.faults import Cancelled, Fault, Unauthorized, bucket
from fairlead.domain.ledger.books import (
    COSTLY,
    UNLIMITED,
    EntryKind,
    Funds,
    refuse_commitment,
    refuse_hold,
    refuse_queueing,
    refuse_slot,
)
from fairlead.domain.runs.entries import (
    Acceptance,
    Admission,
    BookedRun,
    CancelNoted,
    Committed,
    Enqueued,
    HasEnded,
    JournalEntry,
    KeyUsed,
    LiveRun,
    Postponement,
    Redirection,
    Settlement,
    TopUp,
    Verdict,
    Withdrawal,
    Withdrawn,
)
from fairlead.domain.runs.queue import RunChanged
from fairlead.domain.runs.states import WAITING, WORKING, RunEvent, RunState, advance
from fairlead.domain.work.entries import Claim, Release, Released, Superseded, TakeOver
from fairlead.storage.accounts.audit_log import Act, record_acts
from fairlead.storage.db.statements import run_together
from fairlead.storage.ledger.alerts import tell
from fairlead.storage.ledger.label_books import LabelBook
from fairlead.storage.ledger.run_books import HOLD_FOR_KEY, MOVE_BUDGET, BudgetBook, Spending
from fairlead.storage.ledger.usage import UsageSums, usage_addition
from fairlead.storage.runs import entry_statements as sql
from fairlead.storage.runs.batch import Batch, Written
from fairlead.storage.runs.entry_statements import ROWS, LockedRun, OfARun, id_of
from fairlead.storage.runs.idempotency import FREE_KEY, KeyBook, look_up_keys
from fairlead.storage.runs.raises import change_hold, last_phases
from fairlead.storage.runs.webhooks import DELIVERY_IS_DUE, INSERT_DELIVERY
from fairlead.storage.work.journal import Journal
from fairlead.storage.work.table import machine_time

# Constants for texts and members of enumerations: every run needs several, and looking them up is slow.
_TEXT: Final = {one: one.value for one in RunState}
_BILLING: Final = {one.value: one for one in Billing}
_HOLD: Final = EntryKind.HOLD.value
_POST: Final = EntryKind.POST.value
_VOID: Final = EntryKind.VOID.value
_DISPATCHED: Final = RunState.DISPATCHED
_SUCCEEDED: Final = RunState.SUCCEEDED
_ACCEPTED: Final = advance(RunState.DISPATCHED, RunEvent.ACCEPT)
_RELEASED: Final = advance(RunState.PARKED, RunEvent.RELEASE)
_WITHDRAWN: Final = advance(RunState.PARKED, RunEvent.WITHDRAW)
_POSTPONED: Final = advance(RunState.DISPATCHED, RunEvent.POSTPONE)
_CANCELLED: Final = bucket(Cancelled())
_NOT_VALID: Final = Unauthorized("This API key is not valid.")
_RELEASED_AT_ONCE: Final = 256
_ANY_HOLD: Final = 2**62


RunJournal: TypeAlias = Journal[JournalEntry, Written, Verdict]


def write_entries(
    connection: Connection, entries: Sequence[JournalEntry], machine_ms: Callable[[], int] = machine_time
) -> Written:
    """Write a batch of entries and return the outcome of each; `machine_ms` tells the time of this machine.

    Workspaces are locked first and in the order of their ids, so that two servers cannot deadlock. Ends come before
    admissions, because they free the slots and the money for them. Runs that wait for a slot come before new ones.
    """
    of_runs: list[OfARun] = []
    admissions: list[Admission] = []
    workspace_ids: set[str] = set()
    for entry in entries:
        # Here and below `type`: to find that a struct is not an instance of another takes ten times as long.
        if type(entry) is Admission:
            admissions.append(entry)
        elif type(entry) is not Release:
            of_runs.append(entry)
        if type(entry) is not Acceptance:
            workspace_ids.add(entry.workspace_id)
    batch = _begin(connection, workspace_ids, of_runs, admissions, machine_ms)
    verdicts = _decide(connection, batch) if batch.undecided else {}
    # All that must be known before the queue is looked at is known now.
    for workspace_id, funds in sorted(batch.funds.items()):
        if funds.parked:
            _release(connection, batch, workspace_id)
    for admission in admissions:
        verdicts[id(admission)] = _admit(batch, admission)
    _write_rest(connection, batch)
    said = list(map(verdicts.get, map(id, entries)))
    has_news = bool(batch.changed or batch.unneeded)
    return Written(said, batch.released, batch.unfinished, has_news, batch.changed, batch.unneeded)


def _begin(
    connection: Connection,
    workspace_ids: Iterable[str],
    of_runs: Sequence[OfARun],
    admissions: Sequence[Admission],
    machine_ms: Callable[[], int],
) -> Batch:
    """Lock the workspaces, then read the runs of the entries and everything else on which they are decided.

    Idempotency keys and budgets are read under the lock of their workspace: of two calls with one key the second finds
    the first. API keys are read for runs that the batch admits, or whose holds it raises.
    """
    funds: dict[str, Funds] = {}
    bounded: set[str] = set()
    now = None
    for row in sql.LOCK_WORKSPACES.run(connection, sorted(workspace_ids)):
        # The struct is made by position, because a dozen figures by name would cost more than reading them.
        funds[row[0]], now = Funds(_BILLING[row[1]], *row[2:-1]), row[-1]
        if funds[row[0]].budgets:
            bounded.add(row[0])
    claims, used_keys, key_ids, now = [], [], set(), machine_ms() if now is None else now
    for admission in admissions:
        key_ids.add(admission.key_id)
        if admission.key is not None:
            used_keys.append(admission.key.id)
    runs, ended, keys = sql.lock_runs(connection, of_runs, key_ids)
    for entry in of_runs:
        if type(entry) is Claim or type(entry) is TakeOver:
            claims.append(entry.id)
        elif (type(entry) is Redirection or type(entry) is TopUp) and entry.run_id in runs:
            key_ids.add(runs[entry.run_id].booked.key_id)
    spending = _spending(bounded, runs, of_runs, admissions) if bounded else ()
    batch = Batch(
        now=now,
        funds=funds,
        runs=runs,
        keys=look_up_keys(connection, used_keys) if used_keys else KeyBook(),
        budgets=BudgetBook(connection, key_ids, spending, now, keys, ended),
        claimed={row[0]: tuple(row) for row in sql.CLAIMED.run(connection, claims)} if claims else {},
        before=dict(funds),
    )
    for entry in of_runs:
        if type(entry) is Settlement and entry.booked is not None and entry.run_id in ended:
            _settle(batch, entry, entry.booked)
        else:
            batch.undecided.append(entry)
    return batch


def _spending(
    bounded: Collection[str],
    runs: Mapping[str, LockedRun],
    of_runs: Sequence[OfARun],
    admissions: Sequence[Admission],
) -> set[Spending]:
    """The budget subjects of the runs that a batch admits, ends or raises, in workspaces that have budgets."""
    found = {Spending.of(one.workspace_id, one) for one in admissions if one.workspace_id in bounded}
    for entry in of_runs:
        if isinstance(entry, Settlement | Withdrawal | Redirection | TopUp) and entry.workspace_id in bounded:
            run = runs.get(entry.run_id)
            booked = run.booked if run is not None else entry.booked if type(entry) is Settlement else None
            if booked is not None:
                found.add(Spending.of(entry.workspace_id, booked))
    return found


def _decide(connection: Connection, batch: Batch) -> dict[int, Verdict]:
    """Change the runs that are not decided on yet, and return the outcomes by the identity of their entries."""
    batch.phases = last_phases(connection, batch.undecided)
    verdicts = {id(of_run): _go_on(batch, of_run) for of_run in batch.undecided}
    batch.changes.write(connection)
    return verdicts


def _go_on(batch: Batch, entry: OfARun) -> Verdict:
    """Gather the changes of an entry to its run, or return that it comes too late."""
    found = batch.runs.get(id_of(entry))
    if found is None:
        return Superseded()
    match entry:
        case Settlement() | Acceptance() | Redirection() | TopUp() | Postponement():
            return _of_the_owner(batch, entry, found)
        case Claim():
            return _claim(batch, entry, found)
        case Withdrawal():
            verdict = _withdraw(batch, entry, found)
            if entry.by is not None and type(verdict) is not HasEnded:
                batch.acts.append((entry.by, Act("run.cancelled", entry.workspace_id, entry.run_id), entry.at))
            return verdict
        case TakeOver():
            return _take_over(batch, entry, found)


def _claim(batch: Batch, entry: Claim, found: LockedRun) -> Verdict:
    """Gather the claim of a released run, and return the run for the worker."""
    is_new = ROWS.claim(batch.changes, entry, found)
    if is_new is None:
        return Superseded()
    if is_new:
        batch.funds[entry.workspace_id] = batch.funds[entry.workspace_id].with_claim()
        batch.changed.append(RunChanged(entry.workspace_id, entry.id, has_ended=False))
    return _live(batch, found)


def _take_over(batch: Batch, entry: TakeOver, found: LockedRun) -> Verdict:
    """Gather a takeover, and return the run for the new server."""
    before = found.state
    if not ROWS.take_over(batch.changes, entry, found):
        return Superseded()
    detail = f"its server fell silent while the run was {before}"
    batch.events.append((entry.id, "taken over", found.attempt, detail, entry.at))
    return _live(batch, found)


def _live(batch: Batch, found: LockedRun) -> LiveRun:
    """A run after it was claimed or taken over."""
    return replace(sql.live_run(batch.claimed[found.id]), state=RunState(found.state), attempt=found.attempt)


def _withdraw(batch: Batch, entry: Withdrawal, found: LockedRun) -> Verdict:
    """Gather the end of a run that waits, or the cancellation request for one that is under way."""
    if found.state in WORKING:
        if entry.reason == _CANCELLED:
            ROWS.note_cancel(batch.changes, found, found.state, entry.at)
            batch.events.append((entry.run_id, "cancel requested", found.attempt, "", entry.at))
        return CancelNoted(found.server_id)
    if found.state not in WAITING:
        return HasEnded()
    funds = batch.funds[entry.workspace_id]
    batch.funds[entry.workspace_id] = funds.after_withdrawal(
        found.booked.hold, was_parked=found.state == RunState.PARKED
    )
    batch.changes.add(found.id, sql.END_AND_KEEP, *sql.end_row(entry, _WITHDRAWN.value, found.attempt, found.booked))
    void = (2, _VOID, 0, -found.booked.hold, entry.reason, found.rate_version, entry.at)
    batch.ledger.append((entry.workspace_id, entry.run_id, *void))
    _count_end(batch, entry.workspace_id, entry.run_id, found.booked, entry.at, 0, succeeded=False)
    found.state = _WITHDRAWN.value
    return Withdrawn()


def _of_the_owner(
    batch: Batch, entry: Acceptance | Redirection | TopUp | Postponement | Settlement, found: LockedRun
) -> Verdict:
    """Gather an entry of the server that works on a run, or of an earlier one that has its result."""
    if found.state in WORKING:
        if found.attempt != entry.attempt and not _is_late_result(entry, found):
            return Superseded()
        match entry:
            case Settlement():
                row = sql.end_row(entry, _TEXT[entry.state], found.attempt, found.booked)
                batch.changes.add(found.id, sql.END_RUN if entry.result is None else sql.END_AND_KEEP, *row)
                _settle(batch, entry, found.booked)
                found.state = _TEXT[entry.state]
            case Redirection() | TopUp():
                return change_hold(batch, entry, found)
            case Postponement():
                return _postpone(batch, entry, found)
            case Acceptance() if found.state == _DISPATCHED:
                accepted = _ACCEPTED.value, entry.handle, entry.credential
                batch.changes.add(found.id, sql.ACCEPT_RUN, *accepted, *found.found)
                found.state = _ACCEPTED.value
            case Acceptance():
                pass  # written before, in a commit whose answer was lost
        return None
    if type(entry) is Postponement and (found.state, found.attempt) == (_POSTPONED, entry.attempt):
        return None  # likewise
    # A run that has ended exactly like this was ended by this entry, in a commit whose answer was lost.
    end = (found.state, found.charge, found.finished_at)
    same = isinstance(entry, Settlement) and end == (entry.state, entry.charge, entry.finished_at)
    return None if same else Superseded()


def _postpone(batch: Batch, entry: Postponement, found: LockedRun) -> Verdict:
    """Gather a run's way back into its queue; one whose cancellation was requested meanwhile stays where it is."""
    if found.state != _DISPATCHED or found.booked.place is None:
        return Superseded()
    if found.cancel_requested_at is not None:
        return CancelNoted(found.server_id)
    until = batch.now + entry.pause_ms
    batch.changes.add(found.id, sql.POSTPONE_RUN, _POSTPONED.value, until, int(entry.was_tried), *found.found)
    found.state = _POSTPONED.value
    batch.funds[entry.workspace_id] = batch.funds[entry.workspace_id].after_postponement(found.booked.hold)
    if not entry.was_tried:
        held = batch.held_back.setdefault(entry.workspace_id, {})
        held[entry.provider] = max(until, held.get(entry.provider, 0))
    for one in entry.events:
        batch.events.append((entry.run_id, one.kind, one.attempt, one.detail, one.at))
    batch.changed.append(RunChanged(entry.workspace_id, entry.run_id, has_ended=False))
    return None


def _is_late_result(entry: OfARun, found: LockedRun) -> bool:
    """Whether an earlier server of a live run has the partner's result (M-02).

    A run that was redirected meanwhile has another provider and another price.
    """
    if not (isinstance(entry, Settlement) and entry.state is _SUCCEEDED):
        return False
    return entry.rate_version == found.rate_version and entry.charge <= found.booked.hold


def _release(connection: Connection, batch: Batch, workspace_id: str) -> None:
    """Give free slots to the runs that have waited longest, some at a time, so that other writers are not blocked.

    Skipped are runs whose time has not come, costly runs that do not fit (they wait for other costly ones to end), and
    runs that a lowered cap on committed spend no longer allows.
    """
    for provider, until in sorted(batch.held_back.get(workspace_id, {}).items()):
        values = {"workspace": workspace_id, "of_provider": provider, "until": until, "now": batch.now}
        connection.execute(sql.HOLD_BACK, values)
    while (funds := batch.funds[workspace_id]).parked and funds.free_slots:
        most = _RELEASED_AT_ONCE if funds.free_slots == UNLIMITED else min(funds.free_slots, _RELEASED_AT_ONCE)
        released = []
        for run_id, hold, pool in ROWS.oldest_parked(connection, workspace_id, most, _below(funds), batch.now):
            if refuse_slot(funds, hold):
                continue
            if refuse_commitment(funds, hold):
                batch.blocked.add(workspace_id)
                break
            funds = funds.with_release(hold)
            released.append(Released(run_id, workspace_id, pool))
        batch.funds[workspace_id] = funds
        batch.released.extend(released)
        ROWS.release(connection, [one.id for one in released])
        if len(released) == _RELEASED_AT_ONCE:
            batch.blocked.add(workspace_id)  # no run passes those whose turn is in the next batch
            batch.unfinished.append(workspace_id)
        if not released or workspace_id in batch.blocked:
            return


def _below(funds: Funds) -> int:
    """The upper bound of the hold of a run that may have a slot now."""
    has_costly_room = funds.free_slots == UNLIMITED or funds.costly_in_flight < funds.costly_limit
    below = _ANY_HOLD if has_costly_room else COSTLY
    return below if funds.commitment_limit is None else min(below, funds.commitment_limit + 1)


def _admit(batch: Batch, entry: Admission) -> Verdict:
    funds = batch.funds.get(entry.workspace_id)
    if funds is None or entry.key_id in batch.budgets.revoked:
        return _NOT_VALID
    if refusal := _refuse(batch, entry, funds):
        return refusal
    batch.budgets.hold(Spending(entry.workspace_id, entry.key_id, entry.model_id, entry.labels), entry.hold)
    if entry.ticket is None:
        state, funds = _DISPATCHED if entry.work is None else _ACCEPTED, funds.with_hold(entry.hold)
        batch.funds[entry.workspace_id] = funds
    else:
        state = _enqueue(batch, entry, funds)
        funds = batch.funds[entry.workspace_id]
    if entry.key is not None:
        batch.keys.take(entry, entry.key)
    batch.new_runs.append(sql.new_run(entry, _TEXT[state], None if entry.ticket is None else funds.last_place))
    if (earlier := entry.work) is not None:
        detail = f"begun by {earlier.run_id}"
        batch.events.append((entry.run_id, "work asked about again", 1, detail, entry.created_at))
    row = (entry.workspace_id, entry.run_id, 1, _HOLD, 0, entry.hold, "admitted", entry.rate_version, entry.created_at)
    batch.ledger.append(row)
    if entry.ticket is not None:
        if entry.ticket.webhook_url is not None:
            batch.deliveries.append((entry.run_id, entry.workspace_id, entry.ticket.webhook_url, 0))
        return Enqueued(funds.waiting - 1)
    return None if funds.commitment_limit is None else Committed(funds.commitment_limit, funds.committed)


def _refuse(batch: Batch, entry: Admission, funds: Funds) -> KeyUsed | Fault | None:
    """Why a run may not be admitted, or None: its idempotency key, its slot, its money, its budgets."""
    if entry.key is not None and (used := batch.keys.refuse(entry, entry.key)):
        return used
    if entry.ticket is None:
        fault = refuse_slot(funds, entry.hold) or refuse_hold(funds, entry.hold)
    else:
        fault = refuse_queueing(funds, entry.hold, entry.ticket.backlog)
    if fault is None:
        of_run = Spending(entry.workspace_id, entry.key_id, entry.model_id, entry.labels)
        fault = batch.budgets.refuse(of_run, entry.hold, entry.created_at)
    return fault


def _enqueue(batch: Batch, entry: Admission, funds: Funds) -> RunState:
    """Put a run into its queue, with a slot where one is free."""
    queued = funds.with_queued(entry.hold)
    has_slot = refuse_slot(funds, entry.hold) is None
    if has_slot and refuse_commitment(funds, entry.hold) is not None:
        batch.blocked.add(entry.workspace_id)  # no run passes it, in this batch or the next
    if not has_slot or entry.workspace_id in batch.blocked:
        batch.funds[entry.workspace_id] = queued
        return RunState.PARKED
    # Waiting runs that could be released have been: this one takes no slot from them.
    batch.funds[entry.workspace_id] = queued.with_release(entry.hold)
    batch.released.append(Released(entry.run_id, entry.workspace_id, entry.pool))
    return _RELEASED


def _settle(batch: Batch, entry: Settlement, booked: BookedRun) -> None:
    """Gather what the end of a run releases: the hold in the ledger, whatever its server assumes."""
    if entry.result is None and entry.key_id is not None:
        batch.keys.free(entry.key_id, entry.run_id)
    if funds := batch.funds.get(entry.workspace_id):
        batch.funds[entry.workspace_id] = funds.after_settlement(booked.hold, entry.charge)
    for one in entry.events:
        batch.events.append((entry.run_id, one.kind, one.attempt, one.detail, one.at))
    entered = (
        entry.workspace_id, entry.run_id, 2, _POST if entry.is_billed else _VOID, -entry.charge, -booked.hold,
        entry.reason, entry.rate_version, entry.finished_at,
    )  # fmt: skip
    batch.ledger.append(entered)
    succeeded = entry.state is _SUCCEEDED
    _count_end(batch, entry.workspace_id, entry.run_id, booked, entry.finished_at, entry.charge, succeeded=succeeded)


def _count_end(
    batch: Batch,
    workspace_id: str,
    run_id: str,
    booked: BookedRun,
    at: int,
    charge: int,
    *,
    succeeded: bool,
) -> None:
    """The further effects of a run's end: on budgets, the day's usage, its body and its webhook."""
    of_run = Spending(workspace_id, booked.key_id, booked.model_id, booked.labels)
    batch.budgets.end(of_run, booked.hold, charge, at)
    batch.usage.note_end(workspace_id, booked.key_id, booked.model_id, at, succeeded, charge)
    if booked.labels is not None:
        batch.labels = batch.labels or LabelBook()
        batch.labels.note(workspace_id, booked.labels, at, UsageSums(1, succeeded, charge))
    if booked.request_blob is not None:
        batch.unneeded.append(booked.request_blob)
    if booked.place is not None:
        batch.deliveries_due.append((at, run_id))
        batch.changed.append(RunChanged(workspace_id, run_id, has_ended=True))


def _write_rest(connection: Connection, batch: Batch) -> None:
    """Write the changes of the queue and the admissions, the runs first, because other rows refer to them."""
    changes = []
    for key, funds in sorted(batch.funds.items()):
        if funds is not batch.before[key]:
            changes.append((*funds.changes_since(batch.before[key]), key))
    run_together(connection, (FREE_KEY, batch.keys.freed))
    run_together(
        connection,
        (sql.INSERT_RUN, batch.new_runs),
        (sql.INSERT_ENTRY, batch.ledger),
        (sql.INSERT_EVENT, batch.events),
        (sql.MOVE_FIGURES, changes),
        (HOLD_FOR_KEY, batch.budgets.key_rows()),
        (MOVE_BUDGET, batch.budgets.budget_rows() if batch.budgets.is_bounding else ()),
        (INSERT_DELIVERY, batch.deliveries),
        (DELIVERY_IS_DUE, batch.deliveries_due),
        (usage_addition(connection.dialect.name), batch.usage.rows()),
        *(() if batch.labels is None else [batch.labels.addition(connection)]),
    )
    if batch.acts:
        record_acts(connection, batch.acts)
    if batch.budgets.alerts:
        tell(connection, batch.budgets.alerts)
