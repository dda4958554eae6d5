"""What an operator adds to the vendors' list prices, in percent: for all models, those of a provider, or one.

A negative percentage is a discount.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec

NO_MARKUP: Final = Decimal(0)
EVERYTHING: Final = "*"
"""Stands for every model."""
PERCENT_MIN: Final = -90
PERCENT_MAX: Final = 1000
PERCENT_PATTERN: Final = r"-?[0-9]{1,4}(\.[0-9]{1,2})?"
"""A percentage as people write it."""
_PERCENT: Final = re.compile(PERCENT_PATTERN)
_ENTRY: Final = re.compile(r"(?P<name>\*|[a-z0-9_-]+(/[A-Za-z0-9._-]+)?)=(?P<percent>.+)")
_MOST: Final = 1000


class Markups(msgspec.Struct, frozen=True):
    """Percentages by `*`, the name of a provider, or the id of a model; the most specific one counts."""

    percent: Mapping[str, Decimal] = msgspec.field(default_factory=dict)

    def of(self, model_id: str, provider: str) -> Decimal:
        """What is added to the prices of a model at a provider."""
        for name in (model_id, provider, EVERYTHING):
            if name in self.percent:
                return self.percent[name]
        return NO_MARKUP


def read_markups(text: str) -> Markups:
    """Read `*=5,openai=10,openai/gpt-image-2=0`; ValueError. Of a name that occurs twice the last counts."""
    entries = [_ENTRY.fullmatch(part.strip()) for part in text.split(",")] if text else []
    if len(entries) > _MOST or not all(entries):
        raise ValueError("must be name=percent with commas between, a name being *, a provider or a model's id")
    return Markups({entry["name"]: read_percent(entry["percent"]) for entry in entries if entry is not None})


def read_percent(text: str) -> Decimal:
    """Read a markup, or a discount, such as `7.5` or `-10`; ValueError."""
    percent = Decimal(text) if _PERCENT.fullmatch(text) else None
    if percent is None or not PERCENT_MIN <= percent <= PERCENT_MAX:
        raise ValueError(f"must be {PERCENT_MIN} to {PERCENT_MAX} percent, with at most two decimals")
    return percent.normalize() + 0  # of -0 and 10.00 nothing is left but 0 and 10
