"""Rate cards in words: what a unit costs, for people who look for a model."""

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from fairlead.domain.ledger.markups import NO_MARKUP
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.ledger.rates import Component, RateCard

_WHOLE: Final = Decimal(100)


def price_lines(card: RateCard, markup: Decimal = NO_MARKUP) -> Iterator[str]:
    """The prices of a card in dollars, a text a component, such as `0.03 to 0.2 per image`.

    They are the vendor's list prices with `markup` percent on top. Multipliers are named behind them.
    """
    for component in card.components:
        yield f"{_range(component, markup)} per {component.unit}"
        for part in component.parts:
            yield f"{_dollars(part.price, markup)} {part.unit}"
    yield from dict.fromkeys(f"x {one.times:f} {one.name}" for part in card.components for one in part.multipliers)


def _range(component: Component, markup: Decimal) -> str:
    """Every price a unit may have, from the lowest to the highest."""
    amounts = sorted({component.price, *(case.price for case in component.cases)})
    least = _dollars(amounts[0], markup)
    return least if len(amounts) == 1 else f"{least} to {_dollars(amounts[-1], markup)}"


def _dollars(price: int, markup: Decimal) -> str:
    if not markup:
        return as_dollars(price)
    return as_dollars(int((price * (_WHOLE + markup) / _WHOLE).to_integral_value(ROUND_HALF_UP)))
