"""Takeover: unfinished runs of servers that fell silent are gone on with, repeated, or given up (docs/states.md).

A run with a handle is polled again. A run whose partner honours an idempotency key is sent again under the same key.
A run with neither is lost: the partner may have worked, and asking twice could be paid twice. It is voided and counted.
A run with its caller's own credential goes on with that one or not at all: ours is never shown in its place (R-17).
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairlead.domain.faults import ProviderError, ServiceUnavailable
from fairlead.domain.runs.entries import LiveRun, Stray
from fairlead.domain.runs.outcomes import Work
from fairlead.domain.runs.states import RunEvent, RunState, advance
from fairlead.domain.stored_documents import DocumentBlob
from fairlead.observing.observations import DatabaseTrouble, Observer, RunEnded, RunTakenOver, UnexpectedError
from fairlead.operations.clock import Clock
from fairlead.operations.runs.execute import Executor
from fairlead.operations.runs.resume import CannotResumeError, Resumer
from fairlead.operations.runs.void import Voider
from fairlead.providers.exchange import Exchange
from fairlead.storage import runs
from fairlead.storage.database import Database, DatabaseUnavailableError

BATCH: Final = 100
UNDER_WAY_MAX: Final = 200
STRAY_AFTER_MS: Final = 60_000
"""Far longer than an admission takes from its commit to its execution."""
_FORGET_AFTER_MS: Final = 86_400_000
_LOST: Final = ProviderError("The outcome of this run could not be determined; it was not charged.")
_NOT_STARTED: Final = ServiceUnavailable("The run could not be started; it was not charged.")


@dataclass(frozen=True, slots=True)
class Recovery:
    """Everything a takeover needs.

    `alone`: no other server can share the database (an exclusive data directory). Otherwise a server is taken to be
    dead that was silent for `silent_ms`.
    """

    database: Database
    exchange: Exchange
    resumer: Resumer
    executor: Executor
    voider: Voider
    clock: Clock
    observe: Observer
    server_id: str
    alone: bool
    silent_ms: int

    async def announce(self) -> None:
        """Say that this server is alive, and forget those long silent."""
        try:
            await self.database.write(self.announce_in)
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("announce", str(error)))

    def announce_in(self, connection: Any) -> None:
        """The same, within a transaction."""
        now = self.clock.now_ms()
        runs.announce_server(connection, self.server_id, now, now - _FORGET_AFTER_MS)

    async def take_over(self) -> int:
        """Claim a batch of orphaned runs and set each going; the number claimed, 0 when there is none or no room."""
        if self.executor.taken_over > UNDER_WAY_MAX:
            return 0
        now = self.clock.now_ms()
        silent_since = now if self.alone else now - self.silent_ms
        try:
            orphans = await self.database.write(
                lambda c: runs.take_over_orphans(c, self.server_id, silent_since, BATCH, now)
            )
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("take over", str(error)))
            return 0
        # Those whose bodies have to be fetched may take long, where the store for blobs is away.
        for orphan in sorted(orphans, key=lambda one: isinstance(one.request, DocumentBlob)):
            self.observe(RunTakenOver(orphan.run_id, orphan.model_id, orphan.attempt))
            try:
                await self._go_on(orphan)
            except Exception as error:  # noqa: BLE001 -- one run must not keep the others; it is found as a stray
                self.observe(UnexpectedError(f"go on with {orphan.run_id}", error))
        return len(orphans)

    async def void_strays(self) -> int:
        """Void runs of this server that it knows nothing of, and return how many there were.

        A database that goes away while it commits may have kept an admission whose caller was told that nothing was
        started. Such a run was never dispatched, and nobody else would ever settle its hold. It may also have kept a
        takeover that this server never heard of, or a run that goes on with work its partner has: that partner may be
        working, so the run is let go and taken over again.
        """
        known = self.executor.run_ids()
        now = self.clock.now_ms()
        try:
            live = await self.database.read(lambda c: runs.live_runs_of(c, self.server_id, now - STRAY_AFTER_MS))
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("void strays", str(error)))
            return 0
        strays = [run for run in live if run.run_id not in known]
        for stray in strays:
            if stray.attempt > 1 or stray.handle is not None:
                await self._let_go(stray)
            else:
                await self.voider.void(stray, RunState.FAILED, "service_unavailable", _NOT_STARTED)
        return len(strays)

    async def _let_go(self, stray: Stray) -> None:
        try:
            await self.database.write(lambda c: runs.let_go(c, stray, self.server_id))
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("let go", str(error)))

    async def _go_on(self, orphan: LiveRun) -> None:
        try:
            run = await self.resumer.resume(orphan)
        except CannotResumeError:
            await self._give_up(orphan)
            return
        if orphan.handle is not None:
            self.executor.start(msgspec.structs.replace(run, work=Work(orphan.handle, orphan.credential)))
        elif self.exchange.repeats_safely(orphan.provider):
            self.executor.start(run)
        else:
            await self._give_up(orphan)

    async def _give_up(self, orphan: LiveRun) -> None:
        """Void a run whose outcome cannot be known."""
        if await self.voider.void(orphan, advance(orphan.state, RunEvent.LOSE), "lost", _LOST):
            self.observe(self._lost(orphan))

    def _lost(self, orphan: LiveRun) -> RunEnded:
        return RunEnded(
            run_id=orphan.run_id,
            workspace=orphan.workspace,
            model_id=orphan.model_id,
            provider=orphan.provider,
            result="lost",
            charge=0,
            upstream_status=None,
            started_at_ns=self.clock.now_ns(),
            seconds=0.0,
            partner_seconds=0.0,
            caller_left=True,
            attempt=orphan.attempt,
            traceparent=None,
        )
