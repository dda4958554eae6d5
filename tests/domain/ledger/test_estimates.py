"""What a run will cost, told before: exactly, within bounds, or not at all."""

import datetime
from dataclasses import replace
from decimal import Decimal

import pytest

from fairlead.domain.ledger.estimates import (
    Caution,
    Estimate,
    Reason,
    Source,
    cautions_of,
    estimate,
    is_stale,
    price_lines,
)
from fairlead.domain.ledger.quantities import Factor, Pricing, Requested
from fairlead.domain.ledger.rates import (
    Case,
    Component,
    Measured,
    Multiplier,
    Part,
    RateCard,
    Report,
    charge,
    quote,
)
from fairlead.domain.pointers import Condition

_SECONDS = Requested((Factor(("seconds",)),))
_TEXT = Pricing({"seconds": 4})
_BOUND = Requested((Factor(("seconds",)),), is_bound=True)
_REPORTED = Measured(answer=(("usage", "seconds"),))


def card(*components: Component, stale_after: datetime.date | None = None) -> RateCard:
    """A card of some components."""
    return RateCard("v1", datetime.date(2026, 1, 1), components, stale_after)


def test_fixed_price_is_estimated_exactly() -> None:
    """What no quantity changes is told to the last digit."""
    assert estimate(card(Component("image", 300)), _TEXT) == Estimate(Source.EXACT, 300, 300)


def test_quantity_fixed_by_the_body_is_estimated_exactly() -> None:
    """A quantity that is paid for as asked makes an exact price, rounded as the charge is."""
    assert estimate(card(Component("second", 25, Decimal(10), _SECONDS)), _TEXT) == Estimate(Source.EXACT, 100, 100)


@pytest.mark.req("R-31")
@pytest.mark.parametrize(
    ("reported", "least"),
    [
        pytest.param(Component("second", 25, Decimal(10), _SECONDS, _REPORTED), 100, id="as many as were asked for"),
        pytest.param(
            Component("second", 25, Decimal(4), None, _REPORTED, at_least=Decimal(4)), 100, id="always so many"
        ),
        pytest.param(
            Component("second", 25, Decimal(10), _BOUND, _REPORTED), 0, id="at most as many as were asked for"
        ),
        pytest.param(
            Component("second", 25, Decimal(10), _BOUND, _REPORTED, at_least=Decimal(1)),
            25,
            id="between one and as many",
        ),
    ],
)
def test_lower_bound_is_what_was_asked_for_or_the_card_knows(reported: Component, least: int) -> None:
    """What the partner reports is charged, so a price is not exact; what was asked for is the least."""
    told = estimate(card(Component("run", 7), reported), _TEXT)
    assert told == Estimate(Source.ESTIMATED, 7 + least, 107)


def test_estimate_spans_parts_and_multipliers() -> None:
    """The least is the cheapest part at the lowest multiplier, the most the dearest at the highest, both marked up."""
    halved = Multiplier("flex", Decimal("0.5"), answered=(Condition(("tier",), frozenset({"flex"})),))
    dear = Part("written", 50, (("usage", "written"),))
    cheap = Part("cached", 10, (("usage", "cached"),))
    part = Component("second", 25, Decimal(10), _SECONDS, _REPORTED, parts=(dear, cheap), multipliers=(halved,))
    assert estimate(card(part), _TEXT) == Estimate(Source.ESTIMATED, 20, 200)
    assert estimate(replace(card(part), markup=Decimal(10)), _TEXT) == Estimate(Source.ESTIMATED, 22, 220)


@pytest.mark.parametrize(
    "component",
    [
        Component("second", 25, Decimal(10), _SECONDS),
        Component("second", 25, Decimal(10), _SECONDS, _REPORTED),
        Component("token", 25, Decimal(10), None, _REPORTED),
        Component("second", 25, Decimal(10), Requested((Factor(("seconds",)),), unless=(Condition(("clip",)),))),
    ],
    ids=["not said", "not said, reported", "reported alone", "ruled out"],
)
def test_unbounded_quantity_has_no_estimate(component: Component) -> None:
    """Where the body does not bound what is paid for, nothing is told, rather than the most there can be."""
    body = Pricing({"clip": "x"})
    assert estimate(card(Component("run", 7), component), body) == Estimate(Source.UNKNOWN, reason=Reason.NOT_QUOTABLE)


def test_unpriced_request_is_unknown_and_never_free() -> None:
    """A request no component prices is unknown: an absent amount never means free."""
    parts = (Component("image", 5, cases=(Case(0, frozenset({"edit"})),)),)
    told = estimate(card(*parts), Pricing({}, operation="edit"))
    assert told == Estimate(Source.UNKNOWN, reason=Reason.UNPRICED_MODEL)
    assert estimate(card(*parts), Pricing({}, operation="other")).source is Source.EXACT


def test_estimate_uses_the_price_of_the_operation_that_is_meant() -> None:
    """The price of the operation that is meant is the one that is told."""
    parts = Component("image", 5, cases=(Case(9, frozenset({"edit"})),))
    assert estimate(card(parts), Pricing({}, operation="edit")) == Estimate(Source.EXACT, 9, 9)


@pytest.mark.parametrize(("day", "stale"), [(30, False), (31, True)])
def test_rate_card_is_stale_from_its_day_on(day: int, *, stale: bool) -> None:
    """A card is good until its day has come."""
    old = card(Component("image", 5), stale_after=datetime.date(2026, 10, 31))
    assert is_stale(old, datetime.date(2026, 10, day)) is stale
    assert not is_stale(card(Component("image", 5)), datetime.date(2099, 1, 1))


_CHOSEN = Factor(("seconds",), values={"-1": Decimal(12)})
_CHOSEN_LEAST = Requested((Factor(("seconds",), values={"-1": Decimal(2)}),))


@pytest.mark.req("X-02")
@pytest.mark.parametrize(
    ("seconds", "measured", "told"),
    [
        (-1, _REPORTED, Estimate(Source.ESTIMATED, 50, 300)),
        (4, _REPORTED, Estimate(Source.ESTIMATED, 100, 100)),
        (-1, None, Estimate(Source.ESTIMATED, 300, 300)),
        (4, None, Estimate(Source.EXACT, 100, 100)),
    ],
    ids=["measured, chosen", "measured, asked", "assumed", "asked"],
)
def test_quantity_that_the_vendor_chooses_is_never_exact(
    seconds: int, measured: Measured | None, told: Estimate
) -> None:
    """Of a range the least is taken for granted where the answer is measured; what is assumed is not called exact."""
    part = Component("second", 25, Decimal(12), Requested((_CHOSEN,)), measured, fewest=_CHOSEN_LEAST)
    assert estimate(card(part), Pricing({"seconds": seconds})) == told


@pytest.mark.req("X-02")
def test_assumed_quantity_is_never_exact() -> None:
    """A clip that counts as the longest, because nobody measures it, has no exact price."""
    assert estimate(card(Component("second", 25, Decimal(60))), _TEXT).source is Source.ESTIMATED


@pytest.mark.req("X-02")
def test_counted_results_are_as_long_as_was_asked() -> None:
    """One clip that came of two is paid for at its own length, which is also the least that a result costs."""
    counted = Measured((("clips", "*"),), is_counted=True, each=_SECONDS)
    two = Requested((Factor(("n",)), Factor(("seconds",))))
    asked, cards = Pricing({"n": 2, "seconds": 6}), card(Component("second", 25, Decimal(16), two, counted))
    assert estimate(cards, asked) == Estimate(Source.ESTIMATED, 150, 300)
    dues = [charge(quote(cards, asked), Report({"clips": [""] * number})).amount for number in (0, 1, 2)]
    assert dues == [0, 150, 300]


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        pytest.param(29, (), id="before both"),
        pytest.param(30, (), id="by which it is to be checked"),
        pytest.param(31, (Caution.STALE, Caution.OVERDUE), id="past both"),
    ],
)
def test_card_past_its_days_is_cautioned(day: int, expected: tuple[Caution, ...]) -> None:
    """From `stale_after` on, and after `check_by`; a derived card always is."""
    old = replace(
        card(Component("image", 5), stale_after=datetime.date(2026, 10, 31)), check_by=datetime.date(2026, 10, 30)
    )
    assert cautions_of(old, datetime.date(2026, 10, day)) == expected
    assert cautions_of(replace(old, is_derived=True), datetime.date(2026, 10, day)) == (*expected, Caution.DERIVED)


@pytest.mark.req("X-02")
def test_derived_price_is_never_exact() -> None:
    """A price that was worked out from a reseller's is told as an estimate, and its lines say what it is."""
    derived = replace(card(Component("image", 5)), is_derived=True)
    assert estimate(derived, _TEXT) == Estimate(Source.ESTIMATED, 5, 5)
    assert list(price_lines(derived)) == ["0.00000005 per image", "derived from a reseller's price"]
