"""Admission: what is decided about a checked call before a partner is called, ending in one durable entry."""

from collections.abc import Collection
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.faults import (
    FaultError,
    InsufficientCredits,
    NotEnabled,
    ProviderTimeout,
    ServiceUnavailable,
    StillRunning,
    Upstream,
    is_fault,
)
from fairlead.domain.ledger.holds import most_of
from fairlead.domain.ledger.quantities import Pricing
from fairlead.domain.runs.entries import (
    Admission,
    Committed,
    EarlierWork,
    Enqueued,
    IdempotencyKey,
    KeyUsed,
    QueueTicket,
    Verdict,
)
from fairlead.domain.runs.outcomes import Failed, Work
from fairlead.domain.runs.selection import Selection
from fairlead.domain.work.entries import DocumentBlob, Superseded
from fairlead.domain.work.pools import DEFAULT_POOL, PoolRules
from fairlead.observing.observations import DatabaseTrouble, Observer, ProviderNotConfigured
from fairlead.operations.accounts.provider_keys import ProviderKeys
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.runs.replay import Replayer
from fairlead.operations.runs.requests import (
    CallChecks,
    CheckedCall,
    LegPlan,
    Request,
    check_within_card,
    plan_leg,
    with_whole_body,
)
from fairlead.operations.runs.results import Answer, dropped_json
from fairlead.operations.work.stored_documents import StoredDocuments
from fairlead.providers.credentials import Credential, Credentials
from fairlead.providers.exchange import Exchange
from fairlead.storage.accounts import workspaces
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.runs.entries import RunJournal

_UNRECORDED: Final = "The run cannot be recorded right now; nothing was started."
_NO_RULES: Final = PoolRules()
_UNCONFIRMED: Final = (
    "The request cannot be recorded right now, or that it was is not confirmed; "
    "send it again with the same Idempotency-Key."
)
"""A commit whose answer was lost leaves a queued run whose id the caller does not know; the caller's key finds it."""


class RunCommand(msgspec.Struct, frozen=True):
    """What a call sends with its headers; `content` is the body's bytes, forwarded unchanged.

    `base_url` is how the caller reached us, for links in the answer.
    """

    run_id: str
    content: bytes
    key: IdempotencyKey | None = None
    base_url: str = ""
    traceparent: str | None = None
    labels: str | None = None
    """A JSON object of texts, None for none."""


class AdmittedRun(msgspec.Struct, frozen=True):
    """A run that has its hold and its slot, with everything its execution needs.

    It continues the `work` that its partner has, if there is any. `committed` is the committed spend of the workspace
    if that is capped; `credential` is the caller's own (R-17). A run that `is_unwanted` was cancelled before. A queued
    one may go back to wait for its partner until `waits_until` (ms); it was `postponed` so often, after `tries` of
    these to call the partner. One that another server had may not, as its partner may have it.
    `api_key_id` is known only to the first attempt of a synchronous run, and None for a token.
    """

    run_id: str
    workspace_id: str
    workspace: str
    request: Request
    plan: LegPlan
    started_at_ns: int
    selection: Selection
    attempt: int = 1
    key: IdempotencyKey | None = None
    base_url: str = ""
    traceparent: str | None = None
    credential: Credential | None = None
    committed: Committed | None = None
    is_queued: bool = False
    is_unwanted: bool = False
    is_taken_over: bool = False
    waits_until: int | None = None
    postponed: int = 0
    tries: int = 0
    work: Work | None = None
    api_key_id: str | None = None
    labels: str | None = None

    @property
    def model(self) -> Model:
        """The model it runs."""
        return self.request.model


class Queued(msgspec.Struct, frozen=True):
    """A run that was put into its queue, with the data for its estimate; only its id if it was there before."""

    run_id: str
    position: int | None = None
    plan: LegPlan | None = None
    asked: Pricing | None = None
    is_byok: bool = False
    pool: str = ""

    @property
    def is_replay(self) -> bool:
        """Whether the call's idempotency key was used before, by this run."""
        return self.position is None


class Admitter:
    """Admits calls that have passed the stage of headers, in the order of refusals of docs/router.md.

    `checks` are both stages, for callers that must pass the first as well; `pools` say where a queued run is executed.
    """

    def __init__(
        self,
        checks: CallChecks,
        exchange: Exchange,
        credentials: Credentials,
        own_keys: ProviderKeys,
        replayer: Replayer,
        database: Database,
        journal: RunJournal,
        clock: Clock,
        observe: Observer,
        server_id: str,
        stored: StoredDocuments,
        windows: RateWindows,
        pools: PoolRules = _NO_RULES,
    ) -> None:
        self._pools = pools
        self._stored = stored
        self._windows = windows
        self.checks = checks
        self._exchange = exchange
        self._credentials = credentials
        self._own_keys = own_keys
        self._replayer = replayer
        self._database = database
        self._journal = journal
        self._clock = clock
        self._observe = observe
        self._server_id = server_id

    async def admit(self, call: CheckedCall, command: RunCommand) -> AdmittedRun | Answer:
        """Check the body, hold the price and make the intent durable; FaultError with the first refusal.

        If the call's idempotency key has a result, that is the answer. If it has work whose end its partner may still
        report, the run continues that work (R-18).
        """
        run = await self._prepare(call, command)
        verdict = await self._write(run, call.caller, None, None, _UNRECORDED)
        if verdict is None:
            return run
        admitted = _accept(run, verdict)
        if not isinstance(admitted, KeyUsed):
            return admitted
        told = await self._replayer.tell(admitted.run_id)
        return told if isinstance(told, Answer) else await self._continue_with(run, call.caller, told)

    async def _continue_with(self, run: AdmittedRun, caller: Caller, earlier: EarlierWork) -> AdmittedRun | Answer:
        """A run that asks about the work of an earlier one, at the partner that has it; FaultError."""
        leg = run.model.leg(earlier.provider)
        plan = None if leg is None else plan_leg(run.request, leg, self._clock.today())
        if plan is None or run.key is None or run.selection.is_byok != earlier.byok:
            return Answer(Failed(ProviderTimeout(Upstream(earlier.work.status))), None, is_replay=True)
        key = msgspec.structs.replace(run.key, expires_at=earlier.expires_at)
        run = msgspec.structs.replace(run, plan=plan, key=key, work=earlier.work)
        admitted = _accept(run, await self._write(run, caller, None, earlier, _UNRECORDED))
        if isinstance(admitted, KeyUsed):  # another call with the same key was first
            raise FaultError(StillRunning())
        return admitted

    async def enqueue(self, call: CheckedCall, command: RunCommand, ticket: QueueTicket) -> Queued:
        """Check the body, hold the price and queue the run in its workspace (R-32); FaultError.

        A queued run never falls back, and its partner must return links to results, not the results themselves.
        """
        run = await self._prepare(call, command)
        if self._exchange.answers_bytes(run.plan.provider, run.plan.call):
            raise FaultError(
                NotEnabled(f"{call.model.id} answers with bytes and cannot be queued; run it synchronously.")
            )
        match await self._write(run, call.caller, ticket, None, _UNCONFIRMED):
            case Enqueued(position):
                pool = self._pool(run, call.caller)
                return Queued(run.run_id, position, run.plan, run.request.asked, run.selection.is_byok, pool)
            case KeyUsed(run_id):
                return Queued(run_id)
            case verdict if is_fault(verdict):
                raise FaultError(verdict)
            case verdict:
                raise AssertionError(verdict)

    async def _write(
        self,
        run: AdmittedRun,
        caller: Caller,
        ticket: QueueTicket | None,
        earlier: EarlierWork | None,
        unrecorded: str,
    ) -> Verdict:
        """Make an admission durable, after its body if that is large; FaultError if that is impossible.

        If it is unknown whether the entry was kept, its blob may be needed: it is swept if no run names it. The blob of
        a refused run is deleted before this returns, so that the same run may be tried again.
        """
        plan, request = run.plan, run.request
        content = request.content
        kept = content if len(content) <= self._stored.inline_bytes else await self._stored.keep(run.run_id, content)
        entry = Admission(
            run_id=run.run_id,
            workspace_id=run.workspace_id,
            key_id=caller.key_id,
            model_id=request.model.id,
            provider=plan.leg.provider,
            server_id=self._server_id,
            hold=plan.quote.amount,
            rate_version=plan.quote.card.label,
            created_at=self._clock.now_ms(),  # after the blob: an old time would make it a stray
            request=kept,
            operation=request.asked.operation,
            strict=run.selection.is_strict,
            byok=run.selection.is_byok,
            key=run.key,
            least=plan.quote.least,
            dropped=dropped_json(plan.dropped) if plan.dropped else None,
            ticket=ticket,
            work=earlier,
            pool=DEFAULT_POOL if ticket is None else self._pool(run, caller),
            labels=run.labels,
            most=None if plan.leg.hold_times is None else most_of(plan.quote),
        )
        try:
            verdict = await self._journal.write(entry)
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("admit", str(error)))
            raise FaultError(ServiceUnavailable(unrecorded)) from error
        if isinstance(kept, DocumentBlob) and (isinstance(verdict, KeyUsed) or is_fault(verdict)):
            await self._stored.delete([kept.name])
        return verdict

    async def _prepare(self, call: CheckedCall, command: RunCommand) -> AdmittedRun:
        """Decide everything about a run before it is recorded; FaultError with the first refusal."""
        caller, model, content = call.caller, call.model, command.content
        if caller.rate_limits:
            self._windows.count_run(caller.rate_limits, model.id)
        if caller.is_exhausted and not _is_unpaid(call) and not await self._is_replay(command):
            await self._confirm_exhausted(caller)
        body = await self.checks.check_content(call, content, self._exchange.configured.__contains__)
        large, selection, asked = body.read.large, body.selection, body.asked
        request = Request(
            command.run_id, model, selection.operation.name, content, asked, selection.is_byok, large, caller.markup
        )
        leg, within_reach = selection.leg, self._exchange.addressed if selection.is_byok else self._exchange.configured
        if leg.provider not in within_reach:
            leg, fallbacks = self._first_of(selection, within_reach)
            selection = msgspec.structs.replace(selection, fallbacks=fallbacks)
        plan = plan_leg(request, leg, self._clock.today())
        if plan is None:
            raise FaultError(ServiceUnavailable("No price is in force for this model yet."))
        if asked.is_strict:
            check_within_card(plan.quote.card, asked)
        plan = plan if large is None else await with_whole_body(plan, request)
        return AdmittedRun(
            run_id=command.run_id,
            workspace_id=caller.workspace_id,
            workspace=caller.workspace,
            request=request,
            plan=plan,
            selection=selection,
            started_at_ns=self._clock.now_ns(),
            key=command.key,
            base_url=command.base_url,
            traceparent=command.traceparent,
            credential=await self._own(caller, plan) if selection.is_byok else None,
            api_key_id=caller.key_id,
            labels=command.labels,
        )

    def _pool(self, run: AdmittedRun, caller: Caller) -> str:
        """The pool whose servers execute a queued run."""
        return self._pools.of_run(run.model.id, run.plan.leg.provider, caller.subscription)

    async def _is_replay(self, command: RunCommand) -> bool:
        """Whether a call's key was used before: repeating its result costs nothing."""
        return command.key is not None and await self._replayer.is_known(command.key)

    async def _confirm_exhausted(self, caller: Caller) -> None:
        """Refuse an empty prepaid workspace before its body is examined, by its present figures."""
        try:
            available = await self._database.read(lambda c: workspaces.available(c, caller.workspace_id))
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("The balance cannot be read right now.")) from error
        if available <= 0:
            raise FaultError(InsufficientCredits(available=0))

    def _first_of(self, selection: Selection, within_reach: Collection[str]) -> tuple[Leg, tuple[Leg, ...]]:
        """The leg to try first, and those after it, if the selected one cannot be called at all; FaultError."""
        leg, fallbacks = selection.leg, selection.fallbacks
        while leg.provider not in within_reach:
            self._observe(ProviderNotConfigured(leg.provider, self._exchange.missing_settings(leg.provider)))
            if not fallbacks:
                raise FaultError(ServiceUnavailable(f"The provider {leg.provider} is not configured on this server."))
            leg, *rest = fallbacks
            fallbacks = tuple(rest)
        return leg, fallbacks

    async def _own(self, caller: Caller, plan: LegPlan) -> Credential:
        """The caller's own credential; FaultError if it cannot be read, before anything is recorded."""
        text = await self._own_keys.open(caller.workspace_id, plan.provider)
        return self._credentials.own(plan.provider, text)


def _accept(run: AdmittedRun, verdict: Verdict) -> AdmittedRun | KeyUsed:
    """A run whose admission is durable; FaultError if it may not begin."""
    match verdict:
        case None | Superseded():
            return run
        case Committed() as committed:
            return msgspec.structs.replace(run, committed=committed)
        case KeyUsed() as used:
            return used
        case _ if is_fault(verdict):
            raise FaultError(verdict)
        case _:
            raise AssertionError(verdict)


def _is_unpaid(call: CheckedCall) -> bool:
    """Whether a run is made with the caller's own key, which needs no money (R-17)."""
    return call.options.provider is None and call.model.native.provider in call.caller.own_keys
