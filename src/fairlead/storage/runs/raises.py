"""Entries that change the hold of a run under way: its move to another provider, and a partner that tells of more."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace
from sqlalchemy import Connection, func, select

from fairlead.domain.faults import Fault
from fairlead.domain.ledger.books import TOPPED_UP, EntryKind, refuse_hold
from fairlead.domain.runs.entries import Redirection, TopUp
from fairlead.domain.runs.states import RunEvent, RunState, states_before
from fairlead.domain.work.entries import Superseded
from fairlead.storage.db.statements import PreparedLookup
from fairlead.storage.db.tables import ledger_entries
from fairlead.storage.ledger.run_books import Spending
from fairlead.storage.runs.batch import Batch
from fairlead.storage.runs.entry_statements import REDIRECT_RUN, TOP_UP_RUN, LockedRun, OfARun

_DISPATCHED: Final = RunState.DISPATCHED.value
_REDIRECTABLE: Final = frozenset(states_before(RunEvent.REDIRECT))
_END_PHASE: Final = 2
_LAST_PHASES: Final = PreparedLookup(
    lambda one_of: (
        select(ledger_entries.c.run_id, func.max(ledger_entries.c.phase))
        .where(one_of(ledger_entries.c.run_id))
        .group_by(ledger_entries.c.run_id)
    )
)


def last_phases(connection: Connection, entries: Iterable[OfARun]) -> dict[str, int]:
    """The last phase among the entries of each run whose hold may change: a raise has the one after it."""
    raised = [one.run_id for one in entries if type(one) is Redirection or type(one) is TopUp]
    return {row[0]: row[1] for row in _LAST_PHASES.run(connection, raised)} if raised else {}


def change_hold(batch: Batch, entry: Redirection | TopUp, found: LockedRun) -> Fault | Superseded | None:
    """Gather another hold, if its workspace and its budgets cover that.

    A run that has that hold, or is at that provider, had the entry in a commit whose answer was lost.
    """
    match entry:
        case TopUp(hold=hold) if hold <= found.booked.hold:
            return None
        case TopUp():
            return _top_up(batch, entry, found)
        case Redirection(provider=provider) if provider == found.provider:
            return None
        case Redirection():
            return _redirect(batch, entry, found) if found.state in _REDIRECTABLE else Superseded()


def _redirect(batch: Batch, entry: Redirection, found: LockedRun) -> Fault | None:
    """Gather a run's move to another provider; a hold that grows needs the money like an admission does.

    What the provider before had accepted has ended, so its handle is forgotten with the state.
    """
    reason = f"redirected from {found.provider} to {entry.provider}"
    if fault := _hold_for(batch, entry, found, entry.rate_version, reason):
        return fault
    moved = entry.provider, _DISPATCHED, None, None, entry.hold, entry.rate_version, True
    batch.changes.add(found.id, REDIRECT_RUN, *moved, *found.found)
    found.state, found.provider = _DISPATCHED, entry.provider
    return None


def _top_up(batch: Batch, entry: TopUp, found: LockedRun) -> Fault | None:
    """Gather a hold that grows."""
    if fault := _hold_for(batch, entry, found, found.rate_version, TOPPED_UP):
        return fault
    batch.changes.add(found.id, TOP_UP_RUN, entry.hold, *found.found)
    return None


def _hold_for(
    batch: Batch, entry: Redirection | TopUp, found: LockedRun, rate_version: str, reason: str
) -> Fault | None:
    """Gather what another hold changes but for the run's row; or the fault where it cannot be paid."""
    before, funds = found.booked.hold, batch.funds[entry.workspace_id]
    more = entry.hold - before
    of_run = Spending.of(entry.workspace_id, found.booked)
    if more > 0 and (fault := refuse_hold(funds, more) or batch.budgets.refuse(of_run, more, entry.at)):
        return fault
    batch.budgets.hold(of_run, more)
    batch.funds[entry.workspace_id] = funds.with_raise(before, entry.hold)
    found.booked = replace(found.booked, hold=entry.hold)
    phase = batch.phases[found.id] = max(batch.phases.get(found.id, _END_PHASE), _END_PHASE) + 1
    batch.ledger.append(
        (entry.workspace_id, entry.run_id, phase, EntryKind.RAISE.value, 0, more, reason, rate_version, entry.at)
    )
    return None
