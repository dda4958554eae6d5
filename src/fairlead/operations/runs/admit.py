"""Admission: everything that is decided before a partner is asked, ending in one durable entry."""

from typing import Any

import msgspec

from fairlead.domain.billing.rates import Quote, card_in_force, quote
from fairlead.domain.callers import ROUTER_GATE, Caller, refuse_gate, refuse_run
from fairlead.domain.catalog.models import Model
from fairlead.domain.faults import FaultError, InputRejected, InsufficientCredits, ServiceUnavailable, Violation
from fairlead.domain.runs.body import read_body
from fairlead.domain.runs.entries import Admission, Superseded
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.clock import Clock
from fairlead.providers.exchange import Exchange
from fairlead.storage import callers
from fairlead.storage.database import Database, DatabaseUnavailableError
from fairlead.storage.journal import Journal


class RunCommand(msgspec.Struct, frozen=True):
    """A call of a model as a surface understood it; `content` is the body's bytes, forwarded as they are."""

    run_id: str
    model_id: str
    content: bytes
    traceparent: str | None = None


class AdmittedRun(msgspec.Struct, frozen=True):
    """A run that holds its money and its slot: what its execution needs."""

    run_id: str
    workspace_id: str
    workspace: str
    model_id: str
    provider: str
    call: str
    content: bytes
    hold: int
    quote: Quote
    started_at_ns: int
    refusal_is_billed: bool = False
    attempt: int = 1
    traceparent: str | None = None


class Admitter:
    """Admits runs, in the order of refusals of docs/router.md."""

    def __init__(
        self,
        catalog: CatalogKeeper,
        exchange: Exchange,
        database: Database,
        journal: Journal,
        clock: Clock,
        observe: Observer,
        server_id: str,
    ) -> None:
        self._catalog = catalog
        self._exchange = exchange
        self._database = database
        self._journal = journal
        self._clock = clock
        self._observe = observe
        self._server_id = server_id

    def check(self, caller: Caller, model_id: str) -> Model:
        """What can be refused before the body is read: rollout, unknown model, entitlement, policy. FaultError."""
        if fault := refuse_gate(caller, ROUTER_GATE, "The model router"):
            raise FaultError(fault)
        model = self._catalog.model(model_id, caller)
        provider = model.native.provider
        if fault := refuse_run(caller, model.id, provider):
            raise FaultError(fault)
        if not self._exchange.is_configured(provider):
            raise FaultError(ServiceUnavailable(f"The provider {provider} is not configured on this server."))
        return model

    async def admit(self, caller: Caller, model: Model, command: RunCommand) -> AdmittedRun:
        """Check the body, hold the price and make the intent durable; FaultError with the first refusal."""
        if caller.exhausted:
            await self._confirm_exhausted(caller)
        body = _valid_body(model, command.content)
        priced = self._quote(model, body)
        started_at_ns = self._clock.now_ns()
        run = AdmittedRun(
            run_id=command.run_id,
            workspace_id=caller.workspace_id,
            workspace=caller.workspace,
            model_id=model.id,
            provider=model.native.provider,
            call=model.native.call,
            content=command.content,
            hold=priced.amount,
            quote=priced,
            refusal_is_billed=model.bills_refusals,
            started_at_ns=started_at_ns,
            traceparent=command.traceparent,
        )
        await self._record(run, caller)
        return run

    async def _confirm_exhausted(self, caller: Caller) -> None:
        """Refuse an empty prepaid workspace before its body is looked at, on its figures of this moment."""
        try:
            available = await self._database.read(lambda c: callers.available(c, caller.workspace_id))
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("The balance cannot be read right now.")) from error
        if available <= 0:
            raise FaultError(InsufficientCredits(available=0))

    def _quote(self, model: Model, body: dict[str, Any]) -> Quote:
        card = card_in_force(model.native.rate_cards, self._clock.today())
        if card is None:
            raise FaultError(ServiceUnavailable("No price is in force for this model yet."))
        return quote(card, body, model.input_schema.defaults if model.input_schema else {})

    async def _record(self, run: AdmittedRun, caller: Caller) -> None:
        entry = Admission(
            run_id=run.run_id,
            workspace_id=run.workspace_id,
            key_id=caller.key_id,
            model_id=run.model_id,
            provider=run.provider,
            server_id=self._server_id,
            hold=run.hold,
            rate_version=run.quote.card.version,
            created_at=run.started_at_ns // 1_000_000,
            request=run.content,
        )
        try:
            verdict = await self._journal.write(entry)
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("admit", str(error)))
            raise FaultError(
                ServiceUnavailable("The run cannot be recorded right now; nothing was started.")
            ) from error
        if verdict is not None and not isinstance(verdict, Superseded):
            raise FaultError(verdict)


def _valid_body(model: Model, content: bytes) -> dict[str, Any]:
    """The caller's body as the model's schema takes it; FaultError otherwise (R-08, R-21)."""
    body = read_body(content)
    named = body.get("model")
    if named is not None and named not in (model.id, model.name) and "model" in _declared(model):
        violation = Violation(
            ("body", "model"),
            f"The path names {model.id}.",
            "model_mismatch",
            {"expected": model.id},
            named,
            has_input=True,
        )
        raise FaultError(InputRejected((violation,)))
    if model.input_schema is not None and (violations := model.input_schema.violations(body)):
        raise FaultError(InputRejected(violations))
    return body


def _declared(model: Model) -> Any:
    return model.input_schema.document.get("properties", {}) if model.input_schema is not None else {}
