"""Subscriptions: how many jobs of a workspace may be executed at a time (C-13)."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

_PAIR: Final = re.compile(r"([a-z][a-z0-9_-]{0,31})=(-1|[0-9]{1,6})")
_MOST: Final = 50

DEFAULT: Final = "pro"
"""The subscription of a workspace to which none was given."""
SUBSCRIPTIONS: Final = (("free", 0), ("standard", 1), ("creator", 3), (DEFAULT, 5))
"""The tiers unless a setting says otherwise, with their parallel jobs: 0 is inactive, -1 has no limit."""


def first_of(tiers: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """The subscription of a workspace to which none was given: `pro` where there is such a tier, else the last."""
    return next((tier for tier in tiers if tier[0] == DEFAULT), tiers[-1])


def beyond(tiers: Iterable[tuple[str, int]], places: int) -> tuple[tuple[str, int], ...]:
    """The tiers that promise more parallel jobs than there are places, with their number of jobs."""
    return tuple((name, jobs) for name, jobs in tiers if jobs > places)


def read_subscriptions(text: str) -> tuple[tuple[str, int], ...]:
    """Read tiers as `name=jobs,…`; ValueError."""
    pairs = [_PAIR.fullmatch(part.strip()) for part in text.split(",")]
    if len(pairs) > _MOST or not all(pairs):
        raise ValueError(f"must be at most {_MOST} tiers as name=jobs, separated by commas; -1 means no limit")
    return tuple((pair[1], int(pair[2])) for pair in pairs if pair is not None)
