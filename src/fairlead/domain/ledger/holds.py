"""Holds that an operator bounds by what runs usually cost (D-28), and what they grow to while a run goes on.

Such a hold lies between the least that the run can cost and the most its body permits. It grows when the partner tells
that more is due, up to that most; a charge never passes the hold as it is then.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from fairlead.domain.ledger.estimates import least_of, typical_of
from fairlead.domain.ledger.money import times
from fairlead.domain.ledger.quantities import Pricing
from fairlead.domain.ledger.rates import (
    Line,
    Quote,
    Report,
    charge,
    quote_of,
)

_MULTIPLE: Final = re.compile(r"[0-9]{1,4}(\.[0-9]{1,2})?")
_MULTIPLE_MOST: Final = 1000


def read_multiple(text: str) -> Decimal:
    """Read a multiple of the typical price, such as `3` or `2.5`; ValueError."""
    multiple = Decimal(text) if _MULTIPLE.fullmatch(text) else None
    if multiple is None or not 1 <= multiple <= _MULTIPLE_MOST:
        raise ValueError(f"must be 1 to {_MULTIPLE_MOST}, with at most two decimals")
    return multiple


def most_of(held: Quote) -> int:
    """The most that a run can be charged by its card, in 10^-8 dollars: what its hold is without a bound."""
    return sum(line.held for line in held.lines)


def bounded(held: Quote, asked: Pricing, multiple: Decimal) -> Quote:
    """The same quote with a hold of at most a multiple of the typical price, but of no less than the least."""
    usual = sum(_usual(line, asked) for line in held.lines)
    least = sum(least_of(line, asked) for line in held.lines)
    return replace(held, amount=max(least, min(most_of(held), times(usual, multiple))))


def due_by(held: Quote, asked: Pricing, told: Mapping[str, str]) -> int:
    """What a run comes to by the figures that its partner has told so far, in 10^-8 dollars, at most `most_of`.

    What no figure is about counts as it is usual.
    """
    report, due = Report(None, told=told), 0
    for line in held.lines:
        measured = line.component.measured
        is_told = measured is not None and measured.told in told
        due += charge(quote_of(held.card, (line,)), report).amount if is_told else _usual(line, asked)
    return due


def _usual(line: Line, asked: Pricing) -> int:
    """What a component usually costs, or what is held for it where that is not known."""
    usual = typical_of(line, asked)
    return line.held if usual is None else usual
