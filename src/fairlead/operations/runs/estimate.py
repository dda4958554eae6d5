"""The price of a call, told before it is made (R-30): checked as a run would be, and nothing begun, held or charged."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from decimal import Decimal

import msgspec

from fairlead.domain.billing.estimates import Estimate, Reason, estimate_on, estimate_queued
from fairlead.domain.billing.rates import RateCard, card_in_force
from fairlead.domain.callers import ESTIMATE_GATE, ROUTER_GATE, Caller, refuse_gate, refuse_provider
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.faults import FaultError, InvalidInput, KeyConflict, ServiceUnavailable
from fairlead.domain.runs.selection import Facts, RouteOptions, select
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.clock import Clock
from fairlead.operations.runs.admit import Queued
from fairlead.operations.runs.large_bodies import LargeBodies
from fairlead.operations.runs.requests import check_body, completed_body, earlier_operation, pricing_of
from fairlead.providers.spec import Provider
from fairlead.storage.database import Database


class Quoted(msgspec.Struct, frozen=True):
    """An estimate, the leg and the model it is for.

    `as_of` is when the card behind it was read, or when it was made where there is none (ms since 1970). `markup` is
    what the operator adds to the vendor's price, in percent; the amounts have it.
    """

    estimate: Estimate
    provider: str
    model_id: str
    as_of: int
    markup: Decimal


class Estimator:
    """Estimates calls. A caller's own provider key is not looked at: the estimate is the platform's price."""

    def __init__(
        self,
        catalog: CatalogKeeper,
        providers: Mapping[str, Provider],
        database: Database,
        clock: Clock,
        bodies: LargeBodies,
    ) -> None:
        self._bodies = bodies
        self._catalog = catalog
        self._alternates: Collection[str] = frozenset(name for name, one in providers.items() if one.is_alternate)
        self._database = database
        self._clock = clock

    def check(self, caller: Caller, model_id: str) -> Model:
        """What is refused before the body is read: rollout, model, entitlement. FaultError."""
        gates = ((ROUTER_GATE, "The model router"), (ESTIMATE_GATE, "The estimate"))
        for fault in (refuse_gate(caller, gate, what) for gate, what in gates):
            if fault is not None:
                raise FaultError(fault)
        return self._catalog.model(model_id, caller)

    async def estimate(self, caller: Caller, model: Model, content: bytes, provider: str | None) -> Quoted:
        """Price a body on the leg of a provider, or on the native one; FaultError."""
        if provider is None and (fault := refuse_provider(caller, model.native.provider)):
            raise FaultError(fault)
        read = await self._bodies.read(caller.workspace_id, content, model)
        body = completed_body(model, read.value)
        operation = model.operation(body)
        paying = replace(caller, own_keys=frozenset())
        leg = self._leg(Facts(paying, model, RouteOptions(provider), operation, self._alternates))
        check_body(model, body, read.violations)
        card = card_in_force(leg.rate_cards, self._clock.today())
        if card is None:
            raise _outdated(leg)
        draft = model.draft(body)
        earlier = None if draft is None else await earlier_operation(self._database, caller, draft)
        asked = pricing_of(model, body, len(content), operation, earlier)
        found = estimate_on(self._clock.today(), card, asked)
        if found.reason is Reason.PRICING_UNAVAILABLE:
            raise _outdated(leg)
        return self._quoted(found, leg.provider, model, card)

    def of_queued(self, caller: Caller, model: Model, queued: Queued) -> Quoted | None:
        """What a run will cost that was just queued (R-32); None for a replay, or where estimates are not enabled."""
        if queued.plan is None or queued.asked is None or refuse_gate(caller, ESTIMATE_GATE, "") is not None:
            return None
        card = queued.plan.quote.card
        found = estimate_queued(card, queued.asked, self._clock.today(), byok=queued.byok)
        return self._quoted(found, queued.plan.provider, model, card)

    def _quoted(self, found: Estimate, provider: str, model: Model, card: RateCard) -> Quoted:
        as_of = self._catalog.loaded_at if found.is_by_card else self._clock.now_ms()
        return Quoted(found, provider, model.id, as_of, card.markup)

    def _leg(self, facts: Facts) -> Leg:
        """The leg that is quoted. What conflicts with a run is a bad parameter here: no conflict is on this route."""
        try:
            return select(facts, lambda _: False).leg
        except FaultError as error:
            if isinstance(error.fault, KeyConflict):
                raise FaultError(InvalidInput(error.fault.detail)) from error
            raise


def _outdated(leg: Leg) -> FaultError:
    return FaultError(ServiceUnavailable(f"The prices of {leg.provider} for this model are not up to date."))
