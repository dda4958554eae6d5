"""Queued runs as work (operations/work): begun, cancelled, withdrawn, taken over, voided.

A run with a handle is polled again. A run whose partner honours an idempotency key is sent again under the same key.
A run with neither is lost: the partner may have worked, and asking twice could be paid twice. It is voided and counted.
A run with its caller's own credential goes on with that one or not at all: ours is never shown in its place (R-17).
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import ClassVar, Final, TypeAlias

import msgspec

from fairlead.clock import Clock
from fairlead.domain.faults import ProviderError, QueueTimeout, ServiceUnavailable, bucket
from fairlead.domain.runs.entries import (
    JournalEntry,
    KeptResult,
    LiveRun,
    Stray,
    Verdict,
    Withdrawal,
    Withdrawn,
)
from fairlead.domain.runs.outcomes import Work
from fairlead.domain.runs.queue import Throughput
from fairlead.domain.runs.replays import write_fault
from fairlead.domain.runs.states import RunEvent, RunState, advance
from fairlead.domain.work.entries import Claim, DocumentBlob, TakeOver
from fairlead.observing.observations import (
    DatabaseTrouble,
    Observer,
    RunClaimed,
    RunEnded,
    RunTakenOver,
    RunWithdrawn,
    UnexpectedError,
)
from fairlead.operations.runs.execute import Execution, Executor
from fairlead.operations.runs.resume import CannotResumeError, Resumer
from fairlead.operations.runs.void import Voider
from fairlead.operations.work.places import Reservation
from fairlead.operations.work.queue import WorkQueue
from fairlead.providers.exchange import Exchange
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.runs import queue, runs
from fairlead.storage.work.table import OwnedWork, WorkTable

RunQueue: TypeAlias = WorkQueue[Withdrawal | TakeOver, Execution]

UNDER_WAY_MAX: Final = 2_000
"""How many runs of others a server may have before it takes over no more. A run that waits for its partner takes ten
kilobytes; one that is not taken over waits until a server has ended some of its own, which may take minutes."""
_LOST: Final = ProviderError("The outcome of this run could not be determined; it was not charged.")
_NOT_STARTED: Final = ServiceUnavailable("The run could not be started; it was not charged.")


class RunWork(msgspec.Struct, frozen=True):
    """Handles queued runs, and any run that is taken over, at the server `server_id`.

    Outcomes can be collected for `collectable_ms`; a run waits in its queue for up to `timeout_ms`. `throughput` learns
    how fast each workspace's queue moves.
    """

    noun: ClassVar[str] = "runs"
    table: ClassVar[WorkTable] = queue.QUEUE

    database: Database
    exchange: Exchange
    resumer: Resumer
    executor: Executor
    voider: Voider
    clock: Clock
    observe: Observer
    server_id: str
    collectable_ms: int
    timeout_ms: int
    throughput: Throughput = msgspec.field(default_factory=Throughput)

    def ids_here(self) -> Collection[str]:
        """The runs this process works on."""
        return self.executor.run_ids()

    async def begin(self, claim: Claim, verdict: Verdict, _reservation: Reservation | None) -> Execution | None:
        """Start a claimed run; one that can no longer be run is voided."""
        if not isinstance(verdict, LiveRun):
            return None
        self.throughput.note(claim.workspace_id, claim.at)
        if not verdict.postponed:
            self.observe(RunClaimed(claim.id, verdict.model_id, (claim.at - verdict.created_at) / 1000))
        try:
            run = await self.resumer.resume(verdict)
        except CannotResumeError as error:
            await self.voider.void(verdict, RunState.FAILED, bucket(error.fault), error.fault)
            return None
        return self.executor.start(msgspec.structs.replace(run, waits_until=verdict.created_at + self.timeout_ms))

    def cancel(self, ids: Collection[str]) -> None:
        """Pass cancellations of runs under way here on to their partners."""
        self.executor.cancel(ids)

    def expiry(self, id_: str, workspace_id: str, now: int) -> Withdrawal:
        """The withdrawal of a run that has waited too long."""
        kept = KeptResult(now + self.collectable_ms, fault=write_fault(QueueTimeout()))
        return Withdrawal(id_, workspace_id, bucket(QueueTimeout()), kept, now)

    def note_expiry(self, entry: JournalEntry, verdict: Verdict) -> bool:
        """Observe a run that was withdrawn."""
        if not (isinstance(entry, Withdrawal) and isinstance(verdict, Withdrawn)):
            return False
        self.observe(RunWithdrawn(entry.run_id, entry.reason))
        return True

    def can_take_over(self) -> bool:
        """Whether there is room for runs of another server."""
        return self.executor.taken_over <= UNDER_WAY_MAX

    def takeover(self, orphan: OwnedWork, now: int) -> TakeOver:
        """The entry that makes a run this server's."""
        return TakeOver(orphan.id, orphan.workspace_id, orphan.attempt, self.server_id, now)

    async def go_on(self, taken: Sequence[tuple[TakeOver, Verdict]]) -> None:
        """Go on with runs that were taken over."""
        orphans = [verdict for _, verdict in taken if isinstance(verdict, LiveRun)]
        # Fetching the bodies of runs may take long while the store for blobs is unavailable.
        for orphan in sorted(orphans, key=lambda one: isinstance(one.request, DocumentBlob)):
            self.observe(RunTakenOver(orphan.run_id, orphan.model_id, orphan.attempt))
            try:
                await self._go_on(orphan)
            except Exception as error:  # noqa: BLE001 -- one run must not hold up the others; it is found as a stray
                self.observe(UnexpectedError(f"go on with {orphan.run_id}", error))

    async def end_strays(self, strays: Sequence[OwnedWork]) -> Sequence[OwnedWork]:
        """Void runs of this server that it knows nothing of, or release them; none is left to be taken over now.

        A database that goes away while it commits may have stored an admission whose caller was told that nothing was
        started. Such a run was never dispatched, and nobody else would ever settle its hold. It may also have stored a
        takeover whose result this server never got, or a run that continues work its partner has: the partner may be
        working, so the run is released and taken over again.
        """
        try:
            for found in strays:
                stray = await self.database.read(partial(runs.find_stray, run_id=found.id))
                # Since it was found it may have ended, or another server may have taken it over.
                if stray is not None and stray.attempt == found.attempt:
                    await self._end_stray(stray)
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("end stray runs", str(error)))
        return ()

    async def _end_stray(self, stray: Stray) -> None:
        if stray.was_taken_over or stray.handle is not None:
            await self.database.write(lambda c: runs.let_go(c, stray, self.server_id))
        else:
            await self.voider.void(stray, RunState.FAILED, "service_unavailable", _NOT_STARTED)

    async def _go_on(self, orphan: LiveRun) -> None:
        try:
            run = await self.resumer.resume(orphan)
        except CannotResumeError:
            # Its partner may have worked on it, so it is lost, which is not the same as never started.
            await self._give_up(orphan)
            return
        run = msgspec.structs.replace(run, is_taken_over=True)
        if orphan.handle is not None:
            self.executor.start(msgspec.structs.replace(run, work=Work(orphan.handle, orphan.credential)))
        elif self.exchange.repeats_safely(orphan.provider):
            self.executor.start(run)
        else:
            await self._give_up(orphan)

    async def _give_up(self, orphan: LiveRun) -> None:
        """Void a run whose outcome cannot be known."""
        if await self.voider.void(orphan, advance(orphan.state, RunEvent.LOSE), "lost", _LOST):
            self.observe(self._lost_run(orphan))

    def _lost_run(self, orphan: LiveRun) -> RunEnded:
        return RunEnded(
            run_id=orphan.run_id,
            workspace=orphan.workspace,
            model_id=orphan.model_id,
            provider=orphan.provider,
            result="lost",
            charge=0,
            upstream_status=None,
            # Only the server that fell silent knew when it began, and how long its partner took.
            started_at_ns=self.clock.now_ns(),
            seconds=0.0,
            partner_seconds=0.0,
            caller_left=True,
            attempt=orphan.attempt,
            traceparent=None,
        )
