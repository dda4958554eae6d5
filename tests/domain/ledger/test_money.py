"""Money: integers inside, exact decimals outside."""

import re
from decimal import ROUND_HALF_UP, Context, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.domain.ledger.money import NotAnAmountError, as_credits, as_dollars, from_dollars, times

AMOUNTS = st.integers(-(10**17) + 1, 10**17 - 1)
EXACT = Context(prec=100)


@pytest.mark.req("R-28")
@given(AMOUNTS)
def test_amount_written_in_dollars_is_read_back_unchanged(amount: int) -> None:
    """What is written in dollars is read back as it was."""
    assert from_dollars(as_dollars(amount)) == amount


@given(st.integers(-(2**63), 2**63 - 1))
def test_amounts_are_plain_decimals_without_needless_zeros(amount: int) -> None:
    """Dollars and credits are plain decimals without needless zeros, however large."""
    for text in (as_dollars(amount), as_credits(amount)):
        assert re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?", text)
        assert text != "-0"


@given(st.integers(-(2**63), 2**63 - 1))
def test_dollars_say_exactly_the_amount(amount: int) -> None:
    """The text says exactly the amount."""
    assert Decimal(as_dollars(amount)) == EXACT.divide(Decimal(amount), Decimal(10**8))


@pytest.mark.req("R-28")
@given(st.integers(-(2**63), 2**63 - 1))
@example(0)
@example(1)
@example(2_500_000_000)
@example(-2_369_668)
def test_credits_are_rounded_half_up(amount: int) -> None:
    """A dollar is 211 credits, rounded to two decimals, a half away from zero."""
    credits_ = EXACT.divide(Decimal(amount) * 211, Decimal(10**8))
    assert Decimal(as_credits(amount)) == credits_.quantize(Decimal("0.01"), ROUND_HALF_UP, EXACT)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0"),
        (100_000_000, "211"),
        (1_000_000, "2.11"),
        (500_000, "1.06"),
        (1_500_000, "3.17"),
        (2_500_000, "5.28"),
        (50_000_000, "105.5"),
        (-1_000_000, "-2.11"),
        (1, "0"),
        (-1, "0"),
    ],
)
@pytest.mark.req("R-28")
def test_known_prices_come_to_the_specified_credits(amount: int, text: str) -> None:
    """Some prices everybody knows."""
    assert as_credits(amount) == text


@pytest.mark.parametrize(
    "text",
    ["", "-", ".", "1.", ".5", "+1", "1e3", "1E-3", "1_000", "1,5", " 1", "1 ", "NaN", "Infinity", "-Infinity", "0x1",
     "0.000000001", "1.00000000000000000000000000000000001", "1e999999", "1" * 10, "\u0661", "1\n", "$1"],
)  # fmt: skip
def test_text_that_is_no_amount_is_refused(text: str) -> None:
    """Only plain decimals with at most eight places, below a billion, are amounts."""
    with pytest.raises(NotAnAmountError):
        from_dollars(text)


@given(st.text(alphabet="0123456789.-+eE_ ", max_size=12))
def test_any_text_is_an_amount_or_refused(text: str) -> None:
    """Any text is an amount that is written back as itself, or none."""
    try:
        amount = from_dollars(text)
    except NotAnAmountError:
        return
    assert Decimal(as_dollars(amount)) == Decimal(text)


@given(st.integers(0, 10**12), st.decimals(0, 10**9, places=6))
def test_price_of_a_quantity_is_exact_to_half_a_unit(price: int, quantity: Decimal) -> None:
    """A price for a quantity is exact but for half a unit."""
    assert abs(EXACT.multiply(Decimal(price), quantity) - times(price, quantity)) <= Decimal("0.5")
