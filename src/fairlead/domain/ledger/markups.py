"""What an operator adds to the vendors' list prices, in percent: for all models, those of a provider, or one."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

import msgspec

NO_MARKUP: Final = Decimal(0)
EVERYTHING: Final = "*"
"""Stands for every model."""
_ENTRY: Final = re.compile(r"(?P<name>\*|[a-z0-9_-]+(/[A-Za-z0-9._-]+)?)=(?P<percent>[0-9]{1,4}(\.[0-9]{1,2})?)")
_MOST: Final = 1000
_PERCENT_MAX: Final = 1000


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
    percent = {entry["name"]: Decimal(entry["percent"]) for entry in entries if entry is not None}
    if any(one > _PERCENT_MAX for one in percent.values()):
        raise ValueError(f"must be at most {_PERCENT_MAX} percent")
    return Markups(percent)
