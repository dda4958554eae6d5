"""Rate cards in words, as the catalog shows them."""

import datetime
from decimal import Decimal
from typing import Final

from fairlead.domain.ledger.estimates import price_lines
from fairlead.domain.ledger.rates import Case, Component, Multiplier, Part, RateCard

_CARD: Final = RateCard(
    "v1",
    datetime.date(2026, 1, 1),
    (
        Component("image", 6_000_000, cases=(Case(3_000_000), Case(20_000_000))),
        Component(
            "1M tokens in",
            200_000_000,
            parts=(Part("cached", 20_000_000, (("cached",),)),),
            multipliers=(Multiplier("in a batch", Decimal("0.5")),),
        ),
    ),
)


def test_prices_are_told_from_the_lowest_to_the_highest() -> None:
    """A text a component, one for each part of it, and multipliers behind."""
    assert list(price_lines(_CARD)) == [
        "0.03 to 0.2 per image",
        "2 per 1M tokens in",
        "0.2 cached",
        "x 0.5 in a batch",
    ]


def test_markup_is_on_every_price() -> None:
    """An operator's percentage is in what callers see, rounded to the smallest amount there is."""
    assert list(price_lines(_CARD, Decimal("7.5")))[:3] == [
        "0.03225 to 0.215 per image",
        "2.15 per 1M tokens in",
        "0.215 cached",
    ]
    assert list(price_lines(RateCard("v", datetime.date(2026, 1, 1), (Component("call", 1),)), Decimal(50))) == [
        "0.00000002 per call"
    ]
