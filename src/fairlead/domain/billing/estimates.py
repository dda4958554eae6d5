"""What a run will cost, told before it is made (R-30, R-31): exactly, within bounds, or honestly not at all.

The bounds hold whatever the partner reports: a charge never passes the quantity that was asked for (rates.py), and
what only the partner knows may come to nothing.
"""

import datetime
import enum
from decimal import Decimal

import msgspec

from fairlead.domain.billing.rates import Component, Pricing, RateCard, price_of, quantity_asked
from fairlead.domain.billing.strict_rates import price_strictly, quantity_strictly
from fairlead.domain.money import times


class Source(enum.StrEnum):
    """How much is known."""

    EXACT = "exact"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


class Reason(enum.StrEnum):
    """Why nothing can be said."""

    NOT_QUOTABLE = "not_quotable"
    """The price depends on what the partner reports, or the body does not bound a quantity that is paid for."""
    UNPRICED_MODEL = "unpriced_model"
    """The rate card does not price the request."""
    BYOK = "byok"
    """A queued run with the caller's own key: nothing is charged."""
    PRICING_UNAVAILABLE = "pricing_unavailable"
    """The card is too old to quote by; a queued run is charged by it all the same."""


class Estimate(msgspec.Struct, frozen=True):
    """The least and the most a run may cost, in 10^-8 dollars; both are the price where it is exact."""

    source: Source
    least: int = 0
    most: int = 0
    reason: Reason | None = None


def is_stale(card: RateCard, today: datetime.date) -> bool:
    """Whether a card is too old to quote by."""
    return card.stale_after is not None and card.stale_after <= today


def estimate(card: RateCard, asked: Pricing) -> Estimate:
    """Estimate the price of a body."""
    least = most = 0
    is_priced = False
    for component in card.components:
        price = price_strictly(component, asked) if asked.is_strict else price_of(component, asked)
        if price == 0:
            continue
        is_priced = True
        quantity = _bounded(component, asked)
        if quantity is None:
            return Estimate(Source.UNKNOWN, reason=Reason.NOT_QUOTABLE)
        amount = times(price, quantity)
        most += amount
        least += amount if component.measured is None else 0
    if not is_priced:
        return Estimate(Source.UNKNOWN, reason=Reason.UNPRICED_MODEL)
    return Estimate(Source.EXACT if least == most else Source.ESTIMATED, least, most)


def estimate_queued(card: RateCard, asked: Pricing, today: datetime.date, *, byok: bool) -> Estimate:
    """Estimate a run that is taken into the queue whatever its estimate says (R-32)."""
    if byok:
        return Estimate(Source.UNKNOWN, reason=Reason.BYOK)
    if is_stale(card, today):
        return Estimate(Source.UNKNOWN, reason=Reason.PRICING_UNAVAILABLE)
    return estimate(card, asked)


def _bounded(component: Component, asked: Pricing) -> Decimal | None:
    """The most a component can come to for a body; None where the body does not bound it."""
    if asked.is_strict and component.strict is not None and component.strict.quantities:
        found = quantity_strictly(component, asked)
        return None if found is None else min(found, component.most_strictly)
    if component.requested is not None and not asked.is_strict:
        return quantity_asked(component, component.requested, asked)
    if component.measured is not None:
        return None
    return component.most_strictly if asked.is_strict else component.at_most
