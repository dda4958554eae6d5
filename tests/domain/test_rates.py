"""Rate cards: a charge never passes its hold, and what cannot be read is taken at its upper bound."""

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.billing.rates import (
    Component,
    Measured,
    RateCard,
    Requested,
    card_in_force,
    charge,
    quote,
)

DAY = datetime.date(2026, 11, 1)
PLACES = st.sampled_from([("n",), ("size", "w"), ("usage",), ("list", "0"), ("none",)])
SCALES = st.decimals("0.001", 1000, places=3)
NUMBERS = (
    st.integers()
    | st.floats()
    | st.booleans()
    | st.none()
    | st.text(max_size=4)
    | st.sampled_from(["NaN", "Infinity", "-1", "1e999999", "9" * 40, "3.5", "1e-999999", 10**400])
)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "n": NUMBERS,
        "size": st.fixed_dictionaries({"w": NUMBERS}),
        "usage": NUMBERS,
        "list": st.lists(NUMBERS, max_size=2),
    },
)
REQUESTED = st.builds(
    Requested,
    product=st.lists(PLACES, min_size=1, max_size=3).map(tuple),
    scale=SCALES,
    unless=st.none() | PLACES,
)
MEASURED = st.builds(Measured, answer=PLACES, scale=SCALES) | st.builds(
    Measured, header=st.sampled_from(["x-seconds", "x-none"]), scale=SCALES
)
COMPONENTS = st.builds(
    Component,
    unit=st.just("unit"),
    price=st.integers(0, 10**10),
    at_most=st.decimals(0, 10**6, places=3),
    requested=st.none() | REQUESTED,
    measured=st.none() | MEASURED,
)
CARDS = st.lists(COMPONENTS, min_size=1, max_size=3).map(lambda parts: RateCard("v1", DAY, tuple(parts)))


def card(*components: Component) -> RateCard:
    """Return a card in force."""
    return RateCard("v1", DAY, components)


def held(component: Component, body: dict[str, Any], **defaults: Any) -> int:
    """Return what a body is held for."""
    return quote(card(component), body, defaults).amount


def charged(component: Component, answer: Any, **headers: str) -> int:
    """Return what an answer is charged, when everything was asked for."""
    return charge(quote(card(component), {}, {}), answer, headers)


@pytest.mark.req("R-28", "R-29")
@given(CARDS, DOCUMENTS, DOCUMENTS, DOCUMENTS, st.dictionaries(st.just("x-seconds"), NUMBERS.map(str)))
def test_a_charge_passes_its_hold(
    prices: RateCard, body: dict[str, Any], defaults: dict[str, Any], answer: Any, headers: dict[str, str]
) -> None:
    """Whatever caller and partner say, 0 <= charge <= hold <= the card's own upper bound."""
    upper = sum(int(part.price * part.at_most) + 1 for part in prices.components)
    priced = quote(prices, body, defaults)
    assert 0 <= charge(priced, answer, headers) <= priced.amount <= upper


@given(CARDS, DOCUMENTS)
def test_an_answer_of_bytes_is_cheaper(prices: RateCard, body: dict[str, Any]) -> None:
    """An answer that reports nothing costs what was held, but for what its headers say."""
    priced = quote(prices, body, {})
    assert charge(priced, None, {}) == priced.amount


@pytest.mark.parametrize(
    ("today", "version"),
    [
        (datetime.date(2025, 12, 31), None),
        (datetime.date(2026, 1, 1), "v1"),
        (datetime.date(2026, 5, 31), "v1"),
        (datetime.date(2026, 6, 1), "v2"),
        (datetime.date(2030, 1, 1), "v2"),
    ],
)
@pytest.mark.req("R-28")
def test_another_card_is_in_force(today: datetime.date, version: str | None) -> None:
    """The newest card whose date has come, wherever it stands in the file."""
    cards = [
        RateCard("v2", datetime.date(2026, 6, 1), ()),
        RateCard("v1", datetime.date(2026, 1, 1), ()),
    ]
    found = card_in_force(cards, today)
    assert (found.version if found else None) == version


def test_a_quantity_is_not_the_product_of_its_fields() -> None:
    """Fields are multiplied and scaled; defaults stand in for what is left out."""
    part = Component("pixel", 10, Decimal(1000), Requested((("w",), ("h",)), Decimal("0.5")))
    assert held(part, {"w": 4, "h": 6}) == 120
    assert held(part, {"w": 4}, h=3) == 60
    assert held(part, {"w": "4", "h": 1.5}) == 30


@pytest.mark.parametrize("value", [None, True, False, -1, -0.5, "many", "", [], {}, "NaN", float("nan"), float("inf")])
def test_nonsense_is_a_quantity(value: Any) -> None:
    """Booleans, negatives, NaN and texts are no quantities: the upper bound is held and charged."""
    asked = Component("image", 10, Decimal(4), Requested((("n",),)))
    told = Component("image", 10, Decimal(4), measured=Measured(("n",)))
    assert held(asked, {"n": value}) == 40
    assert charged(told, {"n": value}) == 40


def test_a_quantity_passes_its_upper_bound() -> None:
    """A caller who asks for more than the card knows is held for the bound."""
    part = Component("image", 10, Decimal(4), Requested((("n",),)))
    assert [held(part, {"n": n}) for n in (0, 1, 4, 5, 10**400)] == [0, 10, 40, 40, 40]
    assert held(part, {}) == 40


def test_a_field_that_makes_a_quantity_unknown_is_overlooked() -> None:
    """`unless` takes the upper bound as soon as the field is there, whatever it says."""
    part = Component("image", 10, Decimal(4), Requested((("n",),), unless=("mode",)))
    assert held(part, {"n": 1}) == 10
    assert held(part, {"n": 1, "mode": None}) == 40


def test_a_header_is_not_measured() -> None:
    """A quantity may be told by a header, which is asked for in lower case."""
    part = Component("second", 10, Decimal(60), measured=Measured(header="x-ms", scale=Decimal("0.001")))
    assert charged(part, None, **{"x-ms": "1500"}) == 15
    assert charged(part, None, **{"x-ms": "90000"}) == 600
    assert charged(part, None) == 600


@pytest.mark.req("R-28")
def test_the_lines_of_a_card_are_not_added_up() -> None:
    """A charge is the sum of its lines."""
    prices = card(Component("call", 7), Component("image", 10, Decimal(4), Requested((("n",),)), Measured(("n",))))
    priced = quote(prices, {"n": 3}, {})
    assert priced.amount == 37
    assert charge(priced, {"n": 2}, {}) == 27
