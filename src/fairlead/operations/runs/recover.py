"""Takeover: unfinished runs of servers that fell silent are gone on with, repeated, or given up (docs/states.md).

A run whose partner honours an idempotency key is sent again under the same key. A run with a handle is polled again.
A run with neither is lost: the partner may have worked, and asking twice could be paid twice. It is voided and counted.
"""

from dataclasses import dataclass
from typing import Final

from fairlead.domain.billing.rates import Quote, RateCard, quote
from fairlead.domain.catalog.models import Model
from fairlead.domain.faults import FaultError
from fairlead.domain.runs.body import read_body
from fairlead.domain.runs.entries import LiveRun, Settlement, Stray
from fairlead.domain.runs.states import RunEvent, RunState, advance
from fairlead.observing.observations import DatabaseTrouble, Observer, RunEnded, RunTakenOver
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.clock import Clock
from fairlead.operations.runs.admit import AdmittedRun
from fairlead.operations.runs.execute import Executor, SupersededError
from fairlead.providers.exchange import Exchange
from fairlead.storage import runs
from fairlead.storage.database import Database, DatabaseUnavailableError

BATCH: Final = 100
UNDER_WAY_MAX: Final = 200
SILENT_AFTER_MS: Final = 20_000
STRAY_AFTER_MS: Final = 60_000
"""Far longer than an admission takes from its commit to its execution."""
_FORGET_AFTER_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Recovery:
    """Everything a takeover needs. `alone`: no other server can share the database (an exclusive data directory)."""

    database: Database
    catalog: CatalogKeeper
    exchange: Exchange
    executor: Executor
    clock: Clock
    observe: Observer
    server_id: str
    alone: bool

    async def announce(self) -> None:
        """Say that this server is alive, and forget those long silent."""
        now = self.clock.now_ms()
        try:
            await self.database.write(lambda c: runs.announce_server(c, self.server_id, now, now - _FORGET_AFTER_MS))
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("announce", str(error)))

    async def take_over(self) -> int:
        """Claim a batch of orphaned runs and set each going; the number claimed, 0 when there is none or no room."""
        if self.executor.under_way > UNDER_WAY_MAX:
            return 0
        now = self.clock.now_ms()
        silent_since = now if self.alone else now - SILENT_AFTER_MS
        try:
            orphans = await self.database.write(
                lambda c: runs.take_over_orphans(c, self.server_id, silent_since, BATCH)
            )
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("take over", str(error)))
            return 0
        for orphan in orphans:
            self.observe(RunTakenOver(orphan.run_id, orphan.model_id, orphan.attempt))
            await self._go_on(orphan)
        return len(orphans)

    async def void_strays(self) -> int:
        """Void runs of this server that it knows nothing of, and return how many there were.

        A database that goes away while it commits may have kept an admission whose caller was told that nothing was
        started. Such a run was never dispatched, and nobody else would ever settle its hold.
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
            await self._void(stray, RunState.FAILED, "service_unavailable")
        return len(strays)

    async def _go_on(self, orphan: LiveRun) -> None:
        model = self.catalog.current.models.get(orphan.model_id)
        priced = None if model is None else _quote_again(model, orphan)
        if model is None or priced is None or model.native.provider != orphan.provider:
            await self._give_up(orphan)
        elif self.exchange.repeats_safely(orphan.provider):
            self.executor.start(self._resumed(orphan, model, priced))
        elif orphan.handle is not None:
            self.executor.start(self._resumed(orphan, model, priced), orphan.handle)
        else:
            await self._give_up(orphan)

    def _resumed(self, orphan: LiveRun, model: Model, priced: Quote) -> AdmittedRun:
        return AdmittedRun(
            run_id=orphan.run_id,
            workspace_id=orphan.workspace_id,
            workspace=orphan.workspace,
            model_id=orphan.model_id,
            provider=orphan.provider,
            call=model.native.call,
            content=orphan.request,
            hold=orphan.hold,
            quote=priced,
            refusal_is_billed=model.bills_refusals,
            started_at_ns=self.clock.now_ns(),
            attempt=orphan.attempt,
        )

    async def _give_up(self, orphan: LiveRun) -> None:
        """Void a run whose outcome cannot be known."""
        stray = Stray(orphan.run_id, orphan.workspace_id, orphan.attempt, orphan.hold, orphan.rate_version)
        if await self._void(stray, advance(orphan.state, RunEvent.LOSE), "lost"):
            self.observe(self._lost(orphan))

    async def _void(self, run: Stray, state: RunState, reason: str) -> bool:
        """End a run without a charge; False when somebody else was quicker."""
        settlement = Settlement(
            run_id=run.run_id,
            workspace_id=run.workspace_id,
            attempt=run.attempt,
            state=state,
            hold=run.hold,
            charge=0,
            billed=False,
            reason=reason,
            rate_version=run.rate_version,
            finished_at=self.clock.now_ms(),
            caller_left=True,
        )
        try:
            await self.executor.record(settlement)
        except SupersededError:
            return False
        return True

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


def _quote_again(model: Model, orphan: LiveRun) -> Quote | None:
    """The quote a run was admitted with, from the request it kept; None when card or request cannot be read again."""
    card = _card(model, orphan.rate_version)
    if card is None:
        return None
    try:
        body = read_body(orphan.request)
    except FaultError:
        return None
    return quote(card, body, model.input_schema.defaults if model.input_schema else {})


def _card(model: Model, version: str) -> RateCard | None:
    return next((card for card in model.native.rate_cards if card.version == version), None)
