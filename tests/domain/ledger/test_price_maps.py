"""A card beside an entry of a price map: what is the same quantity, and which of our prices is meant."""

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fairlead.domain.ledger.price_maps import Comparison, MapEntry, Verdict, compare_card
from fairlead.domain.ledger.rates import Case, Component, Multiplier, Part, RateCard
from fairlead.domain.pointers import Condition

_CENT = 10**6
_HD = Condition(("resolution",), equals=frozenset({"1080P"}))
_TIERED = Component(
    "1M tokens in",
    250 * _CENT,
    parts=(Part("cached", 25 * _CENT, (("usage",),)),),
    multipliers=(Multiplier("at the priority tier", Decimal(2)), Multiplier("beyond 272,000 tokens", Decimal("1.5"))),
)


def _compare(*components: Component, mode: str | None = None, **figures: str) -> Comparison:
    card = RateCard("v1", datetime.date(2026, 1, 1), components)
    return compare_card(card, MapEntry("a/b", {name: Decimal(text) for name, text in figures.items()}, mode))


@pytest.mark.parametrize(
    ("component", "figure", "price"),
    [
        pytest.param(_TIERED, "input_cost_per_token", "2.5e-06", id="tokens in"),
        pytest.param(_TIERED, "cache_read_input_token_cost", "2.5e-07", id="cached tokens"),
        pytest.param(_TIERED, "input_cost_per_token_priority", "5e-06", id="tier"),
        pytest.param(_TIERED, "input_cost_per_token_above_272k_tokens", "3.75e-06", id="long context"),
        pytest.param(_TIERED, "cache_read_input_token_cost_above_272k_tokens_priority", "7.5e-07", id="all of them"),
        pytest.param(
            Component("1M image tokens out", 3000 * _CENT), "output_cost_per_image_token", "3e-05", id="image"
        ),
        pytest.param(Component("image", 4 * _CENT), "output_cost_per_image", "0.04", id="images"),
        pytest.param(Component("second", 5 * _CENT), "output_cost_per_video_per_second", "0.05", id="seconds"),
        pytest.param(
            Component("hour", 22 * _CENT), "input_cost_per_second", "6.11e-05", id="hours, rounded to seconds"
        ),
        pytest.param(Component("1,000 characters", 5 * _CENT), "input_cost_per_character", "5e-05", id="characters"),
        pytest.param(
            Component("second of 1080P", 9 * _CENT), "output_cost_per_second_1080p", "0.09", id="size of a unit"
        ),
    ],
)
def test_same_quantity_is_compared_in_our_unit(component: Component, figure: str, price: str) -> None:
    """Equal where a unit of ours costs what its tokens, pictures, seconds or characters cost there, else different."""
    assert _compare(component, **{figure: price}).verdict is Verdict.EQUAL
    dearer = _compare(component, **{figure: str(Decimal(price) * 2)})
    assert (dearer.verdict, [one.unit for one in dearer.figures]) == (Verdict.DIFFERS, [component.unit])


def test_price_of_a_size_is_compared_with_its_case() -> None:
    """A figure of a size is beside the price of that size; one without is equal to any of ours."""
    clip = Component("second", 5 * _CENT, cases=(Case(8 * _CENT, when=(_HD,)),))
    assert _compare(clip, output_cost_per_second="0.08").verdict is Verdict.EQUAL
    assert _compare(clip, output_cost_per_second_1080p="0.08", output_cost_per_second_480p="0.05").left_out == ()
    (differing,) = _compare(clip, output_cost_per_second_1080p="0.05").figures
    assert (differing.ours, differing.is_equal) == ((Decimal("0.08"),), False)


def test_price_of_a_picture_given_is_not_that_of_one_made() -> None:
    """Old maps call the price of a picture that is made one of the input, and only those mean it so."""
    made, given_one = Component("image", 4 * _CENT), Component("input image", _CENT)
    old = _compare(made, given_one, mode="image_generation", input_cost_per_image="0.04")
    new = _compare(made, given_one, mode="image_edit", input_cost_per_image="0.01", output_cost_per_image="0.04")
    assert (old.verdict, new.verdict) == (Verdict.EQUAL, Verdict.EQUAL)


def test_nothing_in_common_cannot_be_compared() -> None:
    """Tokens are not seconds, a tier that we have no price for is none of ours, and why is said."""
    credit = _compare(Component("credit", _CENT), output_cost_per_second="0.01")
    assert (credit.verdict, credit.left_out) == (Verdict.NOT_COMPARABLE, ("output_cost_per_second",))
    assert credit.reason == "the map has output_cost_per_second, the card prices credit"
    tier = _compare(_TIERED, input_cost_per_token="2.5e-06", input_cost_per_token_flex="1e-06", code_cost_per_call="1")
    assert (tier.verdict, tier.left_out) == (Verdict.EQUAL, ("input_cost_per_token_flex", "code_cost_per_call"))
    assert _compare(_TIERED, input_cost_per_token_above_128k_tokens="1").verdict is Verdict.NOT_COMPARABLE
    assert _compare(_TIERED).reason == "the map has no price, the card prices 1M tokens in"


@given(some.integers(1, 10**12), some.decimals("0.0001", 10, places=4))
def test_only_rounding_is_taken_for_equal(price: int, factor: Decimal) -> None:
    """Whatever the price, a map that says it is equal, and one that is off by more than a thousandth is not."""
    theirs = Decimal(price) * factor / 10**8
    found = _compare(Component("image", price), output_cost_per_image=str(theirs))
    larger = max(Decimal(1), factor)
    assert (found.verdict is Verdict.EQUAL) == (abs(1 - factor) <= larger / 1000)
