"""Takeover: unfinished runs of servers that fell silent are gone on with, repeated, or given up (docs/states.md).

A run whose partner honours an idempotency key is sent again under the same key. A run with a handle is polled again.
A run with neither is lost: the partner may have worked, and asking twice could be paid twice. It is voided and counted.
A run with its caller's own credential goes on with that one or not at all: ours is never shown in its place (R-17).
"""

from dataclasses import dataclass
from typing import Final

from fairlead.domain.billing.rates import Pricing
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.faults import FaultError
from fairlead.domain.runs.body import read_body
from fairlead.domain.runs.entries import IdempotencyKey, LiveRun, Settlement, Stray
from fairlead.domain.runs.selection import Selection
from fairlead.domain.runs.states import RunEvent, RunState, advance
from fairlead.observing.observations import DatabaseTrouble, Observer, RunEnded, RunTakenOver
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.clock import Clock
from fairlead.operations.provider_keys import ProviderKeys
from fairlead.operations.runs.admit import AdmittedRun
from fairlead.operations.runs.dispatch import Work
from fairlead.operations.runs.execute import Executor, SupersededError
from fairlead.operations.runs.plan import Request, plan_leg
from fairlead.operations.runs.requests import completed_body
from fairlead.providers.credentials import Credential, Credentials
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
    """Everything a takeover needs. `alone`: no other server can share the database (an exclusive data directory).

    `keys_kept_ms` is how long idempotency keys are kept, `base_url` what links of ours begin with when no caller says.
    """

    database: Database
    catalog: CatalogKeeper
    exchange: Exchange
    credentials: Credentials
    own_keys: ProviderKeys
    executor: Executor
    clock: Clock
    observe: Observer
    server_id: str
    alone: bool
    keys_kept_ms: int
    base_url: str

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
        run = await self._resumed(orphan)
        if run is None:
            await self._give_up(orphan)
        elif orphan.handle is not None and not self.exchange.repeats_safely(orphan.provider):
            self.executor.start(run, Work(orphan.handle, orphan.credential))
        elif self.exchange.repeats_safely(orphan.provider):
            self.executor.start(run)
        else:
            await self._give_up(orphan)

    async def _resumed(self, orphan: LiveRun) -> AdmittedRun | None:
        """The run as it was admitted, out of what the books keep of it; None when it cannot be made whole again."""
        model = self.catalog.current.models.get(orphan.model_id)
        leg = None if model is None else model.leg(orphan.provider)
        if model is None or leg is None:
            return None
        try:
            body = completed_body(model, read_body(orphan.request))
            credential = await self._own(orphan) if orphan.byok else None
        except FaultError:
            return None
        operation = model.operation(body)
        asked = Pricing(
            body, model.input_schema.defaults if model.input_schema else {}, len(orphan.request), orphan.operation
        )
        request = Request(orphan.run_id, model, operation.name, orphan.request, asked, orphan.strict, orphan.byok)
        plan = plan_leg(request, leg, self.clock.today(), orphan.rate_version)
        if plan is None:
            return None
        return AdmittedRun(
            run_id=orphan.run_id,
            workspace_id=orphan.workspace_id,
            workspace=orphan.workspace,
            request=request,
            plan=plan.holding(orphan.hold),
            selection=Selection(_selected(model, leg, orphan), operation, (), orphan.strict, orphan.byok),
            started_at_ns=self.clock.now_ns(),
            attempt=orphan.attempt,
            key=self._key(orphan),
            base_url=self.base_url,
            credential=credential,
        )

    async def _own(self, orphan: LiveRun) -> Credential:
        text = await self.own_keys.open(orphan.workspace_id, orphan.provider)
        return self.credentials.own(orphan.provider, text)

    def _key(self, orphan: LiveRun) -> IdempotencyKey | None:
        """The key a run was called under: what is kept for it lives as long as a key that is used now."""
        if orphan.key_id is None:
            return None
        return IdempotencyKey(orphan.key_id, "", self.clock.now_ms() + self.keys_kept_ms)

    async def _give_up(self, orphan: LiveRun) -> None:
        """Void a run whose outcome cannot be known. Its idempotency key stays taken: asking again could pay twice."""
        stray = Stray(orphan.run_id, orphan.workspace_id, orphan.attempt, orphan.rate_version)
        if await self._void(stray, advance(orphan.state, RunEvent.LOSE), "lost"):
            self.observe(self._lost(orphan))

    async def _void(self, run: Stray, state: RunState, reason: str) -> bool:
        """End a run without a charge; False when somebody else was quicker."""
        settlement = Settlement(
            run_id=run.run_id,
            workspace_id=run.workspace_id,
            attempt=run.attempt,
            state=state,
            charge=0,
            billed=False,
            reason=reason,
            rate_version=run.rate_version,
            finished_at=self.clock.now_ms(),
            caller_left=True,
            key_id=run.key_id,
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


def _selected(model: Model, leg: Leg, orphan: LiveRun) -> Leg:
    """The leg a run was selected for: not the one it is on where it was redirected, whichever of the others it was."""
    if not orphan.redirected:
        return leg
    return next((other for other in model.legs if other is not leg), leg)
