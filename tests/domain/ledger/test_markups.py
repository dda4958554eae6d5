"""What an operator adds to list prices: read from the setting, and the most specific percentage counts."""

from decimal import Decimal

import pytest

from fairlead.domain.ledger.markups import read_markups, read_percent


@pytest.mark.req("R-28")
def test_most_specific_markup_counts() -> None:
    """A model's id comes before its provider, and that before `*`; without any, nothing is added."""
    markups = read_markups("*=5, openai=10,openai/gpt-image-2=0")
    assert markups.of("openai/gpt-image-2", "openai") == 0
    assert markups.of("openai/gpt-5", "openai") == 10
    assert markups.of("openai/gpt-5", "fal") == 5
    assert read_markups("bfl=7.25").of("openai/gpt-5", "openai") == 0
    assert read_markups("bfl=7.25").of("bfl/flux-2-pro", "bfl") == Decimal("7.25")
    assert read_markups("").of("bfl/flux-2-pro", "bfl") == 0


@pytest.mark.parametrize(
    "text", ["openai", "openai=", "openai=--5", "openai=1.234", "=5", "a=5;b=6", "*=1000.01", "*=-90.01", "a=1e3"]
)
def test_malformed_markup_is_refused(text: str) -> None:
    """A percentage is between -90 and 1000, with two decimals at most, and belongs to a name."""
    with pytest.raises(ValueError, match="must be"):
        read_markups(text)


@pytest.mark.req("R-28")
def test_discount_is_a_negative_markup() -> None:
    """It is read like a markup, and what is written in several ways is one number."""
    assert read_markups("*=-10,bfl=-7.25").of("bfl/flux-2-pro", "bfl") == Decimal("-7.25")
    told = {text: f"{read_percent(text):f}" for text in ("-90", "-0", "0.00", "10.50", "1000.00", "007")}
    assert told == {"-90": "-90", "-0": "0", "0.00": "0", "10.50": "10.5", "1000.00": "1000", "007": "7"}
