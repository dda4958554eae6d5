"""What is sent on a leg, and what it may cost: the body in that provider's form, and the quote that is held."""

import asyncio
from collections.abc import Mapping
from datetime import date
from typing import Final

import msgspec

from fairlead.documents.outline import LargeDocument, mark_of
from fairlead.domain.catalog.models import Leg, Model
from fairlead.domain.catalog.strict_forms import RUN_ID
from fairlead.domain.catalog.translations import translate
from fairlead.domain.ledger.rates import Pricing, Quote, RateCard, card_in_force, card_named, quote
from fairlead.domain.ledger.strict_rates import quote_strict

_encode: Final = msgspec.json.Encoder(enc_hook=mark_of).encode


class LegPlan(msgspec.Struct, frozen=True):
    """One leg made ready: the call, the provider's name of the model, the bytes to send, and the quote.

    `dropped` is what a translation had to leave out. The quote of a run with the caller's own credential is zero.
    """

    leg: Leg
    call: str
    name: str
    body: bytes
    quote: Quote
    dropped: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        """The provider that serves it."""
        return self.leg.provider

    @property
    def hold(self) -> int:
        """What is held for it, in 10^-8 dollars."""
        return self.quote.amount

    def holding(self, amount: int) -> "LegPlan":
        """The same plan with what the books hold for it."""
        return msgspec.structs.replace(self, quote=msgspec.structs.replace(self.quote, amount=amount))


class Request(msgspec.Struct, frozen=True):
    """A call as every leg is planned from it: the model, the operation, what was sent, and what prices look at.

    Of a `large` body only the outline is looked at, and what prices look at has its long texts.
    """

    run_id: str
    model: Model
    operation: str
    content: bytes
    asked: Pricing
    byok: bool = False
    large: LargeDocument | None = None


def plan_leg(request: Request, leg: Leg, today: date, version: str | None = None) -> LegPlan | None:
    """Make a leg ready; None when it does not serve the operation, or no price is in force.

    `version` names the card of a run that was admitted before. The plan of a large body still needs `with_whole_body`.
    """
    call = leg.calls.get(request.operation)
    card = card_in_force(leg.rate_cards, today) if version is None else card_named(leg.rate_cards, version)
    if call is None or card is None:
        return None
    asked = request.asked
    body, dropped = _body(request, leg)
    price = quote_strict if asked.is_strict else quote
    priced = _unpaid(card) if request.byok else price(card, asked)
    return LegPlan(leg, call, leg.names[request.operation], body, priced, dropped)


async def with_whole_body(plan: LegPlan, request: Request) -> LegPlan:
    """A plan with the whole body: the bytes of a large one are joined in a thread."""
    if request.large is None:
        return plan
    return msgspec.structs.replace(plan, body=await asyncio.to_thread(request.large.filled, plan.body))


def _unpaid(card: RateCard) -> Quote:
    """A quote of nothing: BYOK runs are paid by the caller to the provider (R-17)."""
    return Quote(card, (), 0, 0)


def _body(request: Request, leg: Leg) -> tuple[bytes, tuple[str, ...]]:
    """The body for a leg, and what could not be said in it (R-10, R-12, R-13)."""
    source = request.content if request.large is None else request.large.outline
    if request.asked.is_strict:
        return source, ()
    if leg.translation is not None:
        said = translate(leg.translation, request.asked.body)
        return _encode({**said.body, **_fixed(request, leg)}), said.dropped
    schema = request.model.input_schema
    # What the native body lacks: the model's name where its schema has one, and what else the provider wants.
    added = _fixed(request, leg) if leg.fixed else {}
    if schema is not None and schema.declares_model and "model" not in added and _lacks_model(source):
        added["model"] = request.model.name
    return _with(source, added) if added else source, ()


def _lacks_model(source: bytes) -> bool:
    """Whether the bytes themselves name no model; the parsed body was completed with it."""
    return b'"model"' not in source or "model" not in msgspec.json.decode(source)


def _fixed(request: Request, leg: Leg) -> dict[str, object]:
    return {
        name: value.replace(RUN_ID, request.run_id) if isinstance(value, str) else value
        for name, value in leg.fixed.items()
    }


def _with(content: bytes, added: Mapping[str, object]) -> bytes:
    """An object's bytes with fields before its own, every byte of which stays as it was.

    A field that stands in the object already would then be there twice: such a body is written again as a whole.
    """
    if any(_encode(name) in content for name in added):
        return _encode({**msgspec.json.decode(content), **added})
    head, _, rest = content.partition(b"{")
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    return b"".join((head, _encode(added)[:-1], comma, rest))
