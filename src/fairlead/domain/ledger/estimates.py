"""What a run will cost (R-30, R-31): exactly, within bounds, or unknown.

Both bounds hold whatever the partner reports (X-02): a charge never passes its hold (rates.py), and the lower bound is
the least the vendor permits for the body, such as one picture where four are asked for. A quantity that the body does
not fix is never told as exact, even where it is charged as it is assumed.
"""

import datetime
import enum
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

import msgspec

from fairlead.domain.ledger.markups import NO_MARKUP
from fairlead.domain.ledger.money import as_dollars, price_in, times
from fairlead.domain.ledger.quantities import Pricing
from fairlead.domain.ledger.rates import (
    Component,
    Line,
    RateCard,
    billable,
    line_of,
    price_of,
    quantity_asked,
)
from fairlead.domain.ledger.strict_rates import price_strictly, quantity_strictly


class Source(enum.StrEnum):
    """How precise an estimate is."""

    EXACT = "exact"
    ESTIMATED = "estimated"
    UNKNOWN = "unknown"


class Reason(enum.StrEnum):
    """Why there is no estimate."""

    NOT_QUOTABLE = "not_quotable"
    """The price depends on the partner's report, or the body does not bound a quantity that is paid for."""
    UNPRICED_MODEL = "unpriced_model"
    """The rate card does not price the request."""
    BYOK = "byok"
    """A queued run with the caller's own key: nothing is charged."""
    PRICING_UNAVAILABLE = "pricing_unavailable"
    """The card is too old to quote by; a queued run is nevertheless charged by it."""


class Caution(enum.StrEnum):
    """Why the prices of a card deserve an operator's attention."""

    STALE = "stale"
    """Past its `stale_after`: nothing is estimated by it."""
    OVERDUE = "overdue"
    """Past its `check_by`: somebody should compare it with the vendor's list."""
    DERIVED = "derived"
    """Worked out from a reseller's prices."""


class Estimate(msgspec.Struct, frozen=True):
    """The least and the most a run may cost, in 10^-8 dollars; both are the price where it is exact.

    `typical` is what it usually costs, between them; None where the body says it, or the card does not know. It is an
    assumption, and no part of the bounds.
    """

    source: Source
    least: int = 0
    most: int = 0
    reason: Reason | None = None
    typical: int | None = None

    @property
    def is_by_card(self) -> bool:
        """Whether the prices of a card were used: otherwise the age of prices is not shown (R-31)."""
        return self.reason in (None, Reason.UNPRICED_MODEL)


def is_stale(card: RateCard, today: datetime.date) -> bool:
    """Whether a card is too old to quote by."""
    return card.stale_after is not None and card.stale_after <= today


def cautions_of(card: RateCard, today: datetime.date) -> tuple[Caution, ...]:
    """What an operator should know of a card on a day; it is overdue from the day after `check_by`."""
    is_overdue = card.check_by is not None and card.check_by < today
    found = ((Caution.STALE, is_stale(card, today)), (Caution.OVERDUE, is_overdue), (Caution.DERIVED, card.is_derived))
    return tuple(caution for caution, is_so in found if is_so)


def estimate_on(today: datetime.date, card: RateCard, asked: Pricing) -> Estimate:
    """Estimate the price of a body on a day. The age of a card matters only where its prices are used."""
    found = estimate(card, asked)
    if found.is_by_card and is_stale(card, today):
        return Estimate(Source.UNKNOWN, reason=Reason.PRICING_UNAVAILABLE)
    return found


def estimate(card: RateCard, asked: Pricing) -> Estimate:
    """Estimate the price of a body by a card of any age."""
    least = most = assumed = 0
    is_priced, is_fixed, is_assumed = False, True, False
    for component in card.components:
        price = price_strictly(component, asked) if asked.is_strict else price_of(component, asked)
        if price == 0 and not any(part.price for part in component.parts):
            continue
        is_priced = True
        quantity = _upper_bound(component, asked)
        if quantity is None:
            return Estimate(Source.UNKNOWN, reason=Reason.NOT_QUOTABLE)
        line = line_of(card, component, quantity, price, asked)
        most += line.held
        least += least_of(line, asked)
        usual = typical_of(line, asked)
        assumed += line.held if usual is None else usual
        is_assumed |= usual is not None
        if component.is_settled_before:
            is_fixed &= _is_said(component, quantity, asked)
        elif line.held:
            is_fixed = False
    if not is_priced:
        return Estimate(Source.UNKNOWN, reason=Reason.UNPRICED_MODEL)
    source = Source.EXACT if is_fixed and not card.is_derived else Source.ESTIMATED
    return Estimate(source, least, most, typical=assumed if is_assumed else None)


def estimate_queued(card: RateCard, asked: Pricing, today: datetime.date, *, byok: bool) -> Estimate:
    """Estimate a run that is taken into the queue whatever its estimate says (R-32)."""
    return Estimate(Source.UNKNOWN, reason=Reason.BYOK) if byok else estimate_on(today, card, asked)


def _is_said(component: Component, quantity: Decimal, asked: Pricing) -> bool:
    """Whether the body, or the card for every body, says how much of a component there is."""
    if asked.is_strict:
        return True  # what is not read there is not quotable
    if component.requested is None:
        return component.at_most in (1, component.at_least)
    if component.requested.is_bound:
        return quantity == 0
    return component.fewest is None or quantity_asked(component, component.fewest, asked) == quantity


def typical_of(line: Line, asked: Pricing) -> int | None:
    """What a component usually costs; None where the body fixes its quantity, or the card does not know.

    A multiplier that the answer decides counts where the body asks for it, such as a service tier.
    """
    component = line.component
    if component.typical is None or not line.held or not _is_open(line, asked):
        return None
    quantity, factor = min(component.typical, line.quantity), line.factor
    for one in line.open:
        if one.when and one.size_above is None:
            factor *= one.times
    if component.tiers and line.price:
        usual = times(price_in(component.tiers, quantity, line.price), factor)
    else:
        usual = times(line.price, quantity * factor)
    return max(least_of(line, asked), min(usual, line.held))


def _is_open(line: Line, asked: Pricing) -> bool:
    """Whether the body leaves open how much of a component there is, or only bounds it."""
    component, wanted = line.component, line.component.requested
    if wanted is None or wanted.is_bound:
        return True
    if asked.is_strict:
        return quantity_strictly(component, asked) is None
    if component.fewest is not None and quantity_asked(component, component.fewest, asked) != line.quantity:
        return True
    return quantity_asked(component, wanted, asked) is None


def least_of(line: Line, asked: Pricing) -> int:
    """The price of the fewest units of a component, at the lowest price that can apply."""
    component = line.component
    if component.is_settled_before or not line.held:
        return line.held
    fewest = min(_fewest(line, asked), line.quantity)
    if component.tiers and line.price:
        return times(price_in(component.tiers, fewest, line.price), line.factor)
    cheapest = min((line.price, *(part.price for part in component.parts)))
    factor = line.factor
    for one in line.open:
        factor *= min(one.times, Decimal(1))
    return times(cheapest, fewest * factor)


def _fewest(line: Line, asked: Pricing) -> Decimal:
    """The fewest units of a component that the vendor may make for a body."""
    component, measured = line.component, line.component.measured
    if measured is None:
        return line.quantity
    if component.at_least is not None:
        return component.at_least
    if measured.is_counted:  # an answer without any of them is no result
        return billable(component, measured.scale * line.each)
    wanted = component.fewest or component.requested
    if wanted is None or wanted.is_bound or asked.is_strict:
        return Decimal(0)
    return quantity_asked(component, wanted, asked) or Decimal(0)


def _upper_bound(component: Component, asked: Pricing) -> Decimal | None:
    """The highest price of a component for a body; None where neither the body nor the card bounds it."""
    if asked.is_strict and component.strict is not None and component.strict.quantities:
        found = quantity_strictly(component, asked)
        return None if found is None else min(found, component.most_strictly)
    if component.requested is not None and not asked.is_strict:
        found = quantity_asked(component, component.requested, asked)
        if found is not None or component.at_least is None:
            return found
    if component.measured is not None and component.at_least is None:
        return None
    return component.most_strictly if asked.is_strict else component.at_most


_WHOLE: Final = Decimal(100)


def price_lines(card: RateCard, markup: Decimal = NO_MARKUP) -> Iterator[str]:
    """The prices of a card in dollars, a text a component, such as `0.03 to 0.2 per image`.

    They are the vendor's list prices with `markup` percent on top. Where a card knows how many units are usual, that
    follows the unit. Multipliers are named after them, and last whether the prices were derived.
    """
    for component in card.components:
        usual = "" if component.typical is None else f", usually {component.typical:f}"
        yield f"{_range(component, markup)} per {component.unit}{usual}"
        for part in component.parts:
            yield f"{_dollars(part.price, markup)} {part.unit}"
    yield from dict.fromkeys(f"x {one.times:f} {one.name}" for part in card.components for one in part.multipliers)
    if card.is_derived:
        yield "derived from a reseller's price"


def _range(component: Component, markup: Decimal) -> str:
    """Every price a unit may have, from the lowest to the highest."""
    others = [case.price for case in component.cases] + [tier.price for tier in component.tiers]
    amounts = sorted({component.price, *others})
    least = _dollars(amounts[0], markup)
    return least if len(amounts) == 1 else f"{least} to {_dollars(amounts[-1], markup)}"


def _dollars(price: int, markup: Decimal) -> str:
    if not markup:
        return as_dollars(price)
    return as_dollars(int((price * (_WHOLE + markup) / _WHOLE).to_integral_value(ROUND_HALF_UP)))
