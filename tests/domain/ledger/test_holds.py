"""What runs usually cost, and the holds that are bounded by it."""

from dataclasses import replace
from decimal import Decimal
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.ledger.test_rates import ASKED, CARDS, DOCUMENTS, card
from fairlead.domain.ledger.estimates import Estimate, Source, estimate, price_lines
from fairlead.domain.ledger.holds import bounded, due_by, most_of, read_multiple
from fairlead.domain.ledger.money import Tier
from fairlead.domain.ledger.quantities import Factor, Pricing, Requested
from fairlead.domain.ledger.rates import (
    Component,
    Measured,
    Multiplier,
    RateCard,
    Report,
    StrictPointers,
    StrictQuantity,
    charge,
    quote,
)
from fairlead.domain.pointers import Condition

REPORTED: Final = Measured(answer=(("usage", "seconds"),))
_SECONDS: Final = Requested((Factor(("seconds",)),))
_LIMIT: Final = Requested((Factor(("seconds",), otherwise=Decimal(100)),), is_bound=True)
_CHOSEN: Final = Requested((Factor(("seconds",), values={"-1": Decimal(12)}),))
_LEAST_CHOSEN: Final = Requested((Factor(("seconds",), values={"-1": Decimal(2)}),))


def _second(wanted: Requested | None, **changes: object) -> Component:
    usual = Component("second", 10, Decimal(100), wanted, REPORTED, at_least=Decimal(1), typical=Decimal(5))
    return replace(usual, **changes)  # type: ignore[arg-type]


_CLIP: Final = _second(_CHOSEN, at_least=None, fewest=_LEAST_CHOSEN)


@pytest.mark.req("X-02")
@pytest.mark.parametrize(
    ("component", "body", "told"),
    [
        (_second(None), {}, Estimate(Source.ESTIMATED, 10, 1000, typical=50)),
        (_second(_LIMIT), {}, Estimate(Source.ESTIMATED, 10, 1000, typical=50)),
        (_second(_LIMIT), {"seconds": 3}, Estimate(Source.ESTIMATED, 10, 30, typical=30)),
        (_second(_SECONDS, at_least=None), {"seconds": 7}, Estimate(Source.ESTIMATED, 70, 70)),
        (_CLIP, {"seconds": -1}, Estimate(Source.ESTIMATED, 20, 120, typical=50)),
        (_CLIP, {"seconds": 7}, Estimate(Source.ESTIMATED, 70, 70)),
        (_second(None, typical=None), {}, Estimate(Source.ESTIMATED, 10, 1000)),
    ],
    ids=["not said", "limited by the card", "limited by the body", "asked for", "chosen", "not chosen", "not known"],
)
def test_typical_price_is_told_where_the_body_leaves_the_quantity_open(
    component: Component, body: dict[str, object], told: Estimate
) -> None:
    """It is of the usual quantity, or of a lower limit; neither the least nor the most is made of it."""
    assert estimate(card(component), Pricing(body)) == told


def test_component_without_a_typical_quantity_counts_whole_beside_one_that_has_it() -> None:
    """The typical price of a card is the sum over its components: 50 of one, and the 300 held of the other."""
    other = Component("token", 3, Decimal(100), None, REPORTED, at_least=Decimal(0))
    assert estimate(card(_second(None), other), Pricing({})).typical == 350


def test_typical_price_has_the_multipliers_that_the_body_asks_for() -> None:
    """A tier that was asked for is taken for granted, a long context that a large body may have is not."""
    tier = Multiplier("priority", Decimal(2), (Condition(("tier",)),), answered=(Condition(("tier",)),))
    long = Multiplier("long", Decimal(3), size_above=10, answered=(Condition(("long",)),))
    asked = Pricing({"tier": "priority"}, size=20)
    assert estimate(card(_second(None, multipliers=(tier, long))), asked).typical == 100


def test_typical_price_of_tiers_is_that_of_the_usual_tier() -> None:
    """A quantity that has one price for all of it has it for the usual quantity."""
    assert estimate(card(_second(None, tiers=(Tier(Decimal(8), 30),))), Pricing({})).typical == 30


def test_typical_price_of_a_strict_body_is_read_from_its_own_fields() -> None:
    """Where the provider's own fields say how much is asked for, that counts, and otherwise what is usual."""
    own = StrictPointers((StrictQuantity(Requested((Factor(("own",)),))),), (), Decimal(100))
    component = _second(_SECONDS, strict=own)
    assert estimate(card(component), Pricing({"own": 7}, is_strict=True)).typical is None


def test_price_lines_name_the_typical_quantity() -> None:
    """The words of a price say how much of it is usual."""
    assert list(price_lines(card(_second(None)))) == ["0.0000001 per second, usually 5"]


def with_typical(found: RateCard, part: Decimal) -> RateCard:
    """A card whose measured components usually have a part of their largest quantity."""
    return replace(
        found,
        components=tuple(
            one if one.measured is None else replace(one, typical=one.at_most * part) for one in found.components
        ),
    )


KNOWING_CARDS: Final = st.builds(with_typical, CARDS, st.decimals("0.01", 1, places=2))


@pytest.mark.req("X-02")
@given(KNOWING_CARDS, ASKED)
def test_typical_price_always_lies_between_the_least_and_the_most(found: RateCard, asked: Pricing) -> None:
    """And without it the same card tells the same bounds."""
    told, plain = estimate(found, asked), estimate(with_typical(found, Decimal(0)), asked)
    assert told.typical is None or told.least <= told.typical <= told.most
    assert (told.source, told.least, told.most, told.reason) == (plain.source, plain.least, plain.most, plain.reason)


def test_hold_is_a_multiple_of_the_typical_price_within_its_bounds() -> None:
    """Three times 50 of 10 to 1000; never below the least, and never beyond the most."""
    cards, asked = card(_second(None)), Pricing({})
    held = quote(cards, asked)
    assert [bounded(held, asked, Decimal(one)).amount for one in (3, "1.5", 30)] == [150, 75, 1000]
    sure = quote(card(_second(None), Component("run", 500)), asked)
    assert bounded(sure, asked, Decimal(1)).amount == 550
    dear = quote(card(_second(None, at_least=Decimal(5))), asked)
    assert bounded(dear, asked, Decimal(1)).amount == 50


def test_component_that_knows_no_typical_quantity_leaves_the_hold_as_it_is() -> None:
    """Its whole maximum counts."""
    held = quote(card(_second(None, typical=None)), Pricing({}))
    assert bounded(held, Pricing({}), Decimal(1)) == held


@pytest.mark.req("X-02")
@given(KNOWING_CARDS, ASKED, st.decimals(1, 1000, places=2))
def test_bounded_hold_always_lies_between_the_least_and_the_most(
    found: RateCard, asked: Pricing, multiple: Decimal
) -> None:
    """The most is what is held without a bound, and the estimate keeps telling it."""
    held = quote(found, asked)
    hold, told = bounded(held, asked, multiple), estimate(found, asked)
    assert hold.least <= hold.amount <= held.amount == most_of(hold)
    assert told.source is Source.UNKNOWN or told.least <= hold.amount <= told.most
    assert hold.lines == held.lines


@pytest.mark.parametrize(
    ("told", "due"),
    [({"cost": "7"}, 70 + 50), ({"cost": "500"}, 1000 + 50), ({"cost": "x"}, 1000 + 50), ({}, 50 + 50)],
    ids=["told", "more than there can be", "not readable", "not told"],
)
def test_price_by_the_figures_told_so_far_takes_the_rest_as_usual(told: dict[str, str], due: int) -> None:
    """A figure counts up to the most there can be, and a component that none is about as it usually is."""
    costs = _second(None, measured=Measured(told="cost"))
    cards, asked = card(costs, _second(None)), Pricing({})
    assert due_by(quote(cards, asked), asked, told) == due


@pytest.mark.parametrize("text", ["0.9", "1001", "-3", "3.333", "x", "", "NaN"])
def test_multiple_that_is_none_is_refused(text: str) -> None:
    """It is from 1 to 1000, with at most two decimals."""
    with pytest.raises(ValueError, match="must be 1 to 1000"):
        read_multiple(text)
    assert read_multiple("2.5") == Decimal("2.5")


@pytest.mark.req("X-02")
@given(KNOWING_CARDS, ASKED, st.decimals(1, 10, places=1), DOCUMENTS, st.booleans())
def test_charge_with_raises_is_always_that_without_a_bound(
    found: RateCard,
    asked: Pricing,
    multiple: Decimal,
    answer: object,
    is_paid: bool,  # noqa: FBT001 -- drawn
) -> None:
    """Where each raise is paid for; where one is refused the charge is the hold, and never below the least."""
    report, plain = Report(answer), quote(found, asked)
    held = bounded(plain, asked, multiple)
    due = charge(held, report)
    hold = max(held.amount, due.amount) if is_paid else held.amount
    assert hold <= most_of(held)
    charged = min(hold, due.amount)
    assert charged == charge(plain, report).amount if is_paid else charged <= held.amount
    assert charged >= min(held.least, hold)
