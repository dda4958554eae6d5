"""Prices of strict bodies: read from the provider's own fields, and the dearest wherever they say nothing clear."""

import datetime
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.ledger.estimates import Reason, Source, estimate
from fairlead.domain.ledger.quantities import Factor, Pricing, Reading, Requested
from fairlead.domain.ledger.rates import (
    Case,
    Component,
    Measured,
    RateCard,
    StrictPointers,
    StrictQuantity,
    quote,
)
from fairlead.domain.ledger.strict_rates import beyond_card, quote_strict
from fairlead.domain.pointers import Condition

COUNT: Final = Requested((Factor(("num",), otherwise=Decimal(1)),))
STRICT: Final = StrictPointers(
    quantities=(
        StrictQuantity(
            Requested((Factor(("seconds",), values={"auto": Decimal(4)}),)), when=(Condition(("seconds",)),)
        ),
        StrictQuantity(COUNT),
    ),
    cases=(
        Case(10, None, (Condition(("size",), frozenset({"small"})), Condition(("loud",), frozenset({"false"})))),
        Case(15, frozenset({"edit"}), (Condition(("loud",), frozenset({"false"})),)),
    ),
    at_most=Decimal(4),
)
NATIVE: Final = Component(
    "image",
    12,
    at_most=Decimal(2),
    requested=Requested((Factor(("n",), otherwise=Decimal(1)),)),
    cases=(Case(20, None, (Condition(("quality",), frozenset({"high"})),)),),
)
STRICTLY: Final = Component(
    NATIVE.unit, NATIVE.price, NATIVE.at_most, NATIVE.requested, None, NATIVE.cases, strict=STRICT
)
CHEAP: Final = {"size": "small", "loud": False}


def card(*components: Component) -> RateCard:
    """Return a card of some components."""
    return RateCard("v1", datetime.date(2026, 1, 1), components)


def hold_of(body: dict[str, Any], component: Component = STRICTLY, operation: str = "run") -> int:
    """Return what is held for a strict body."""
    return quote_strict(card(component), pricing_of(body, operation)).amount


def pricing_of(body: dict[str, Any], operation: str = "run") -> Pricing:
    """Return a strict body as a price looks at it."""
    return Pricing(body, operation=operation, is_strict=True)


@pytest.mark.req("S-01")
def test_strict_prices_ignore_the_native_fields() -> None:
    """The quantity and the price come from the provider's own fields, and the schema's defaults from nowhere."""
    assert hold_of({**CHEAP, "n": 2}) == 10
    assert hold_of({**CHEAP, "num": 3}) == 30
    assert hold_of({"loud": False, "num": 3}, operation="edit") == 45
    assert quote(card(STRICTLY), Pricing({"n": 2})).amount == 24
    defaults = Pricing(CHEAP, {"num": 4}, is_strict=True)
    assert quote_strict(card(STRICTLY), defaults).amount == 10


@pytest.mark.req("S-01")
@pytest.mark.parametrize("size", [None, "large", ["small"], "SMALL", 1])
def test_price_that_no_case_settles_is_the_dearest(size: Any) -> None:
    """Where no strict case surely applies, the dearest price of the component is held, be it a native one."""
    assert hold_of({"size": size, "loud": False}) == 20


@pytest.mark.req("S-01")
@pytest.mark.parametrize("loud", [True, "false", 0, None, "", ["false"], [False]])
def test_text_that_spells_a_boolean_is_not_believed(loud: Any) -> None:
    """A cheaper price by `false` takes a JSON false: some partners take the text for true."""
    assert hold_of({"size": "small", "loud": loud}) == 20


@pytest.mark.req("S-01")
@pytest.mark.parametrize(
    "num", [0, -1, 0.5, 1.5, True, False, "", " 1", "1.0", "+1", "1_0", "٣", "one", [1], {"a": 1}, "01"]
)
def test_quantity_that_cannot_be_read_is_held_at_the_most(num: Any) -> None:
    """Anything but a whole number above zero may be read otherwise by the partner: `at_most` is held."""
    assert hold_of({**CHEAP, "num": num}) == 40
    assert beyond_card(card(STRICTLY), pricing_of({**CHEAP, "num": num})) == ()


@pytest.mark.req("S-01")
def test_factor_with_values_takes_only_these() -> None:
    """Where a file lists the values of a field, another one is not read as a number."""
    assert hold_of({**CHEAP, "seconds": "auto"}) == 40
    assert hold_of({**CHEAP, "seconds": 1}) == 40
    assert hold_of({**CHEAP, "num": 2.0}) == 20
    assert hold_of({**CHEAP, "num": "3"}) == 30
    assert hold_of({**CHEAP, "num": None}) == 10


@pytest.mark.req("S-01")
@pytest.mark.parametrize("num", [5, 10**30, "5", 1e200])
def test_more_than_the_card_prices_is_refused_at_its_field(num: Any) -> None:
    """A run can be charged for `at_most`, so a body that surely asks for more is not sent."""
    (violation,) = beyond_card(card(STRICTLY), pricing_of({**CHEAP, "num": num}))
    assert (violation.loc, violation.type, violation.ctx) == (("body", "num"), "less_than_equal", {"le": 4.0})


@pytest.mark.req("S-01")
def test_component_without_strict_pointers_is_held_whole() -> None:
    """A card that says nothing of strict bodies holds the most at the dearest price."""
    assert hold_of({"num": 1}, NATIVE) == 40
    told = estimate(card(NATIVE), pricing_of({"num": 1}))
    assert (told.source, told.least, told.most) == (Source.EXACT, 40, 40)


@pytest.mark.req("S-01", "R-31")
def test_estimate_of_a_strict_body_is_what_is_held() -> None:
    """An estimate reads the provider's own fields as well, and tells nothing where they cannot be read."""
    told = estimate(card(STRICTLY), pricing_of({**CHEAP, "num": 3}))
    assert (told.source, told.most) == (Source.EXACT, 30)
    assert estimate(card(STRICTLY), pricing_of({**CHEAP, "num": "x"})).reason is Reason.NOT_QUOTABLE
    measured = Component("s", 5, Decimal(3), None, Measured((("n",),)), strict=STRICT)
    assert estimate(card(measured), pricing_of({**CHEAP, "num": 3})).source is Source.ESTIMATED


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@pytest.mark.req("S-01")
@given(
    body=st.dictionaries(
        st.sampled_from(["num", "size", "loud", "seconds", "n"]), _SCALARS | st.lists(_SCALARS) | st.booleans()
    ),
    reading=st.sampled_from(Reading),
)
def test_hold_of_a_strict_body_stays_within_the_card(body: dict[str, Any], reading: Reading) -> None:
    """Whatever a body says, between nothing and the whole card at its dearest is held, and nothing breaks."""
    quantity = StrictQuantity(Requested((Factor(("num",), reading),), unless=(Condition(("n",)),)))
    part = Component("image", 12, strict=StrictPointers((quantity,), STRICT.cases, Decimal(4)))
    assert 0 <= hold_of(body, part) <= 15 * 4
