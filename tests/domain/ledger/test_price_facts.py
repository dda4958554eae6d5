"""What is kept of a run prices it again: the same by its own card, and never by guesses."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from catalog_samples import asked_for, samples, shipped_catalog
from domain.ledger.test_rates import ASKED, CARDS, DOCUMENTS, NUMBERS, TOKENS, asks, card, n
from domain.ledger.test_strict_rates import CHEAP, STRICTLY
from fairlead.domain.ledger.price_facts import FACTS_MAX, UnknownFactsError, captures_of, price_again
from fairlead.domain.ledger.quantities import Factor, Pricing, Reading
from fairlead.domain.ledger.rates import (
    Case,
    Component,
    Measured,
    Multiplier,
    RateCard,
    Report,
    charge,
    quote,
)
from fairlead.domain.ledger.strict_rates import quote_strict
from fairlead.domain.pointers import Captured, Condition, Pointer, capture

pytestmark = pytest.mark.req("M-07")


def facts_of(by: RateCard, asked: Pricing, report: Report) -> str | None:
    """What is kept of a run."""
    return capture(captures_of(by.components), {**asdict(asked), **asdict(report)}, FACTS_MAX)


def read(text: str) -> Captured:
    """What is kept, as it is stored."""
    return msgspec.json.decode(text, type=Captured)


def again(by: RateCard, asked: Pricing, report: Report, other: RateCard | None = None) -> int:
    """Price a run again by what is kept of it, by its own card or another."""
    text = facts_of(by, asked, report)
    assert text is not None
    return price_again(read(text), other or by)


@given(
    CARDS,
    ASKED,
    DOCUMENTS | st.none() | st.lists(NUMBERS, max_size=3),
    st.dictionaries(st.just("x-seconds"), NUMBERS.map(str)),
)
def test_own_card_comes_to_the_charge_of_before(by: RateCard, asked: Pricing, answer: Any, headers: Any) -> None:
    """Whatever the body and the answer say, unless it cannot be kept."""
    report = Report(answer, headers)
    if (text := facts_of(by, asked, report)) is not None:
        assert price_again(read(text), by) == charge(quote(by, asked), report).amount


def test_every_sample_of_the_catalog_can_be_priced_again() -> None:
    """By every card of its legs, in both forms of a body, and in little room."""
    sizes = []
    for model in shipped_catalog().models.values():
        for sample in samples(model):
            asked = asked_for(sample)
            for leg in sample.legs():
                for one in leg.rate_cards:
                    for report in (Report({}), Report(None)):
                        text = facts_of(one, asked, report)
                        assert text is not None, sample.id
                        sizes.append(len(text))
                        assert price_again(read(text), one) == charge(quote(one, asked), report).amount, sample.id
    assert sorted(sizes)[len(sizes) // 2] < 250
    assert max(sizes) < FACTS_MAX / 2


@pytest.mark.parametrize("changes", [{}, {"num": 3}, {"num": "many"}])
def test_body_in_the_form_of_a_provider_is_priced_again(changes: dict[str, object]) -> None:
    """By the pointers of that form."""
    asked = Pricing({**CHEAP, **changes}, operation="run", is_strict=True)
    by = card(STRICTLY)
    assert again(by, asked, Report({})) == charge(quote_strict(by, asked), Report({})).amount


@pytest.mark.parametrize("sizes", [["2.5", "4"], ["2.5", None], [None, None]])
def test_files_that_were_measured_are_priced_again(sizes: list[str | None]) -> None:
    """By what was known of each; the links themselves are not kept."""
    for reading in (Reading.SECONDS, Reading.LONGEST):
        wanted = asks(Factor(("clips", "*", "url"), reading, otherwise=Decimal(30)))
        by = card(Component("second", 10, Decimal(100), wanted))
        body = {"clips": [{"url": "https://a.example/1"}, {"url": "https://a.example/2"}]}
        known: dict[Pointer, dict[str, str]] = {
            ("clips", str(at), "url"): {"longest": size} for at, size in enumerate(sizes) if size is not None
        }
        asked = Pricing(body, given=known)
        text = facts_of(by, asked, Report({}))
        assert text is not None
        assert "example" not in text
        assert price_again(read(text), by) == charge(quote(by, asked), Report({})).amount


def test_other_card_prices_what_was_kept() -> None:
    """Other prices, other cases at the same place, and a component that needs nothing of the run."""
    high = Case(30, when=(Condition(("size",), frozenset({"high"})),))
    by = card(Component("picture", 10, Decimal(9), asks(n()), cases=(high,)))
    asked = Pricing({"n": 2, "size": "low", "prompt": "a lighthouse"})
    assert again(by, asked, Report({})) == 20
    low = Case(4, when=(Condition(("size",), frozenset({"low"})),))
    other = card(Component("picture", 10, Decimal(9), asks(n()), cases=(high, low)), Component("run", 5))
    assert again(by, asked, Report({}), other) == 2 * 4 + 5


@pytest.mark.parametrize(
    ("component", "lacks"),
    [
        (Component("second", 10, Decimal(9), asks(Factor(("seconds",)))), "seconds"),
        (Component("run", 10, cases=(Case(1, when=(Condition(("n",)),)),)), "present:/body/n"),
        (Component("token", 10, Decimal(9), measured=Measured((("usage",),))), "/answer/usage"),
        (Component("second", 10, Decimal(9), measured=Measured(header="x-seconds")), "x-seconds"),
        (Component("cost", 10, Decimal(9), measured=Measured(told="cost")), "cost"),
        (Component("pixel", 10, Decimal(9), measured=Measured(result="pixels")), "pixels"),
        (
            Component("run", 1, multipliers=(Multiplier("fast", Decimal(2), answered=(Condition(("t",)),)),)),
            "present:/answer/t",
        ),
    ],
)
def test_card_that_needs_more_than_was_kept_is_refused(component: Component, lacks: str) -> None:
    """Though the body may have had nothing there: that is not known."""
    with pytest.raises(UnknownFactsError, match=lacks):
        again(card(Component("picture", 10, Decimal(9), asks(n()))), Pricing({"n": 2}), Report({}), card(component))


def test_texts_are_not_kept() -> None:
    """Of a prompt its length, whether it is there, and whether it has a word that changes the price."""
    prompt = "a secret lighthouse --rs 1080p"
    at = ("prompt",)
    by = card(
        Component("character", 1, Decimal(100), asks(Factor(at, Reading.LENGTH))),
        Component("run", 5, cases=(Case(7, when=(Condition(at),)),)),
        Component("run", 5, cases=(Case(9, when=(Condition(at, contains=("--rs 1080p",)),)),)),
        Component("run", 5, cases=(Case(11, when=(Condition(("style",), frozenset({"plain"})),)),)),
    )
    asked = Pricing({"prompt": prompt, "style": "s" * 200})
    text = facts_of(by, asked, Report({}))
    assert text is not None
    assert "secret" not in text
    assert "ssss" not in text
    assert price_again(read(text), by) == len(prompt) + 7 + 9 + 5


def test_what_is_too_much_is_not_kept() -> None:
    """A list that is too long, a length, and a number that JSON cannot write."""
    sizes = card(Component("picture", 1, cases=(Case(2, when=(Condition(("all", "*"), frozenset({"high"})),)),)))
    assert facts_of(sizes, Pricing({"all": list(range(2000))}), Report({})) is None
    counted = card(Component("picture", 1, Decimal(9), measured=Measured((("all", "*"),), is_counted=True)))
    assert facts_of(counted, Pricing({}), Report({"all": [0] * 100_001})) is None
    assert facts_of(card(TOKENS), Pricing({}), Report({"usage": {"in": float("inf")}})) is None


def test_what_is_kept_is_read_as_it_was_written() -> None:
    """The names are those in rows of before: a change of them must read these too."""
    high = Case(30, when=(Condition(("mode",), frozenset({"high"})),))
    pictures = asks(Factor(("images", "*"), Reading.COUNT), n(), Factor(("prompt",), Reading.LENGTH))
    by = card(Component("picture", 10, Decimal(9000), pictures, Measured((("usage", "n"),), told="cost"), (high,)))
    facts: Captured = {
        "/size": [20], "/operation": ["edit"], "/is_strict": [False], "/answer": [{}], "/defaults/n": [2],
        "/body/n": [], "count:/body/images/~2": [3], "length:/body/prompt": [12], "/body/mode": ["high"],
        "/answer/usage/n": ["5"], "/told/cost": [],
    }  # fmt: skip
    asked = Pricing({"mode": "high", "prompt": "a lighthouse", "images": ["a", "b", "c"]}, {"n": 2}, 20, "edit")
    text = facts_of(by, asked, Report({"usage": {"n": "5"}}))
    assert text is not None
    assert read(text) == facts
    assert price_again(facts, by) == 5 * 30
    assert price_again({**facts, "/answer/usage/n": []}, by) == 2 * 3 * 12 * 30
