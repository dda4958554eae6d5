"""Money as integers of 10^-8 US dollars, written as dollars or as platform credits."""

import functools
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

import msgspec

UNITS_PER_DOLLAR: Final = 100_000_000
CREDITS_PER_DOLLAR: Final = 211
_UNITS_PER_CENT_OF_CREDIT: Final = CREDITS_PER_DOLLAR * 100
BALANCE_MAX: Final = 100_000_000 * UNITS_PER_DOLLAR
"""The balance to which credits may lead, up or down: nearly a thousand of them add up to 64 bits."""
_AMOUNT: Final = re.compile(r"(?P<sign>-?)(?P<whole>[0-9]{1,9})(?:\.(?P<decimals>[0-9]{1,8}))?")
"""Less than a billion dollars: every sum of some of them fits into 64 bits."""


class NotAnAmountError(ValueError):
    """A text is not a dollar amount with at most eight decimals."""


def from_dollars(text: str) -> int:
    """Read a decimal dollar amount such as `"0.0042"`; NotAnAmountError for another text, or over eight decimals."""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise NotAnAmountError(f"{text!r} is not a dollar amount with at most eight decimals")
    units = int(found["whole"]) * UNITS_PER_DOLLAR + int((found["decimals"] or "").ljust(8, "0"))
    return -units if found["sign"] else units


@functools.lru_cache(maxsize=4096)
def as_dollars(amount: int) -> str:
    """Write an amount in dollars without an exponent and without trailing zeros: `"0.0042"`, `"-1.5"`, `"0"`.

    Cached: this and `as_credits` run once per answer, and most answers cost the same as an earlier one.
    """
    sign = "-" if amount < 0 else ""
    whole, fraction = divmod(abs(amount), UNITS_PER_DOLLAR)
    decimals = f"{fraction:08d}".rstrip("0")
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


@functools.lru_cache(maxsize=4096)
def as_credits(amount: int) -> str:
    """Write an amount in platform credits, rounded half up to two decimals (R-28: $1 = 211 credits).

    Computed with integers.
    """
    hundredths, rest = divmod(abs(amount) * _UNITS_PER_CENT_OF_CREDIT, UNITS_PER_DOLLAR)
    if rest * 2 >= UNITS_PER_DOLLAR:
        hundredths += 1
    whole, fraction = divmod(hundredths, 100)
    sign = "-" if amount < 0 and hundredths else ""
    decimals = f"{fraction:02d}".rstrip("0")
    return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


def times(price: int, quantity: Decimal) -> int:
    """Price a quantity: `price` units each, rounded half-even to the nearest 10^-8 dollar."""
    return round(price * quantity)  # rounds half to even for a Decimal


class Tier(msgspec.Struct, frozen=True):
    """The price (10^-8 dollars) of a quantity of at most `up_to` units."""

    up_to: Decimal
    price: int


def price_in(tiers: Sequence[Tier], quantity: Decimal, beyond: int) -> int:
    """The price of a quantity: that of the first tier it does not pass, `beyond` where it passes all."""
    return next((one.price for one in tiers if quantity <= one.up_to), beyond)
