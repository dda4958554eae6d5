"""The price of a call before it is made (R-30): checked like a run, but nothing is begun, held or charged."""

from decimal import Decimal

import msgspec
from msgspec.structs import replace

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import ESTIMATE_GATE, Caller, refuse_gate
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.faults import FaultError, InvalidInput, KeyConflict, ServiceUnavailable
from fairlead.domain.ledger.estimates import Estimate, Reason, estimate_on, estimate_queued
from fairlead.domain.ledger.rates import RateCard, card_in_force
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.runs.admit import Queued
from fairlead.operations.runs.requests import CallChecks, CheckedBody, CheckedCall


class Quoted(msgspec.Struct, frozen=True):
    """An estimate, and the leg and the model it is for.

    `as_of` is when the card behind it was read, or the time of the estimate if there is none (ms since 1970). `markup`
    is what the operator adds to the vendor's price, in percent; the amounts include it.
    """

    estimate: Estimate
    provider: str
    model_id: str
    as_of: int
    markup: Decimal


class Estimator:
    """Estimates calls. A caller's own provider key is ignored: the estimate is the platform's price."""

    def __init__(self, checks: CallChecks, catalog: CatalogKeeper, clock: Clock) -> None:
        self.checks = checks
        self._catalog = catalog
        self._clock = clock

    async def estimate(self, call: CheckedCall, content: bytes) -> Quoted:
        """The price of a body on the requested leg, or on the native one; FaultError."""
        model = call.model
        body = await self._check(call, content)
        leg, asked = body.selection.leg, body.asked
        card = card_in_force(leg.rate_cards, self._clock.today(), call.caller.markup)
        if card is None:
            raise _outdated_prices(leg)
        found = estimate_on(self._clock.today(), card, asked)
        if found.reason is Reason.PRICING_UNAVAILABLE:
            raise _outdated_prices(leg)
        return self._quote(found, leg.provider, model, card)

    def of_queued(self, caller: Caller, model: Model, queued: Queued) -> Quoted | None:
        """The price of a run that was just queued (R-32); None for a replay, or if estimates are not enabled."""
        if queued.plan is None or queued.asked is None or refuse_gate(caller, ESTIMATE_GATE, "") is not None:
            return None
        card = queued.plan.quote.card
        found = estimate_queued(card, queued.asked, self._clock.today(), byok=queued.is_byok)
        return self._quote(found, queued.plan.provider, model, card)

    def _quote(self, found: Estimate, provider: str, model: Model, card: RateCard) -> Quoted:
        as_of = self._catalog.loaded_at if found.is_by_card else self._clock.now_ms()
        return Quoted(found, provider, model.id, as_of, card.markup)

    async def _check(self, call: CheckedCall, content: bytes) -> CheckedBody:
        """The checked body. Conflicts are bad parameters here: this route reports them as `invalid_input`."""
        paying = msgspec.structs.replace(call, caller=replace(call.caller, own_keys=frozenset()))
        try:
            return await self.checks.check_content(paying, content, lambda _: False)
        except FaultError as error:
            if isinstance(error.fault, KeyConflict):
                raise FaultError(InvalidInput(error.fault.detail)) from error
            raise


def _outdated_prices(leg: Leg) -> FaultError:
    return FaultError(ServiceUnavailable(f"The prices of {leg.provider} for this model are not up to date."))
