"""Cancels queued runs (R-35): a waiting one at once, one in progress by a request to its partner."""

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.faults import Cancelled, FaultError, ServiceUnavailable, bucket, is_fault
from fairlead.domain.runs.entries import CancelNoted, HasEnded, KeptResult, Withdrawal, Withdrawn
from fairlead.domain.runs.replays import write_fault
from fairlead.domain.work.entries import Superseded
from fairlead.messaging.wakeups import Topic, Wakeup, Wakeups
from fairlead.observing.observations import DatabaseTrouble, Observer, RunWithdrawn
from fairlead.operations.runs.collect import check_reader, find
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.runs.entries import RunJournal


class Canceller(msgspec.Struct, frozen=True):
    """Cancels queued runs. Their outcome can be collected for `collectable_ms`."""

    database: Database
    journal: RunJournal
    wakeups: Wakeups
    clock: Clock
    observe: Observer
    collectable_ms: int

    async def cancel(self, caller: Caller, model_id: str, request_id: str, by: Actor | None = None) -> bool:
        """Request a run to stop; False if it has ended already. FaultError.

        If an administrator asks (`by`), it is in the audit log. A waiting run ends now and is never dispatched. A
        started one continues until its partner confirms the stop: work that the partner completes anyway is billed.
        """
        check_reader(caller, model_id)
        found = await find(self.database, caller, model_id, request_id)
        if found.finished_at is not None:
            return False
        now = self.clock.now_ms()
        kept = KeptResult(now + self.collectable_ms, fault=write_fault(Cancelled()))
        entry = Withdrawal(request_id, caller.workspace_id, bucket(Cancelled()), kept, now, by)
        try:
            verdict = await self.journal.write(entry)
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("cancel", str(error)))
            raise FaultError(ServiceUnavailable("The cancellation cannot be recorded right now.")) from error
        match verdict:
            case Withdrawn():
                self.observe(RunWithdrawn(request_id, entry.reason))
            case CancelNoted():
                self.wakeups.publish(Wakeup(Topic.RUN_CANCELLED, caller.workspace_id, request_id))
            case HasEnded() | Superseded():
                return False
            case _ if is_fault(verdict):
                raise FaultError(verdict)
            case _:
                raise AssertionError(verdict)
        return True
