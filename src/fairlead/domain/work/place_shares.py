"""Who gets the next place for work: whoever holds the fewest, and of several whoever has held places the least (T-05).

What an owner has held counts half as much after `HALF_LIFE_SECONDS`, so long jobs are paid for, and forgotten.
"""

import heapq
import math
from collections.abc import Iterable
from typing import Final

import msgspec

HALF_LIFE_SECONDS: Final = 600.0
_OWNERS_MAX: Final = 1_000
"""Of how many owners it is known what they have held; of more, those that have held the least count as new ones."""


class _Use(msgspec.Struct, eq=False):
    """What an owner holds, and the place-seconds that counted for it at a time."""

    held: int
    seconds: float
    at: float

    def seconds_at(self, now: float) -> float:
        """The place-seconds that count at a time: of each moment half as many after a half-life."""
        kept = math.exp2(-max(0.0, now - self.at) / HALF_LIFE_SECONDS)
        return self.seconds * kept + self.held * HALF_LIFE_SECONDS * (1.0 - kept)

    def change(self, more: int, now: float) -> None:
        """Hold more places, or fewer, from a time on."""
        self.seconds, self.at = self.seconds_at(now), now
        self.held += more


class PlaceShares:
    """A number of places, and `extra` ones for owners that hold none; an owner is a workspace's id, for example.

    Times are seconds of a clock that does not go back. Nothing is taken from who holds it, so an owner may hold all
    `most` places for as long as its work lasts; `extra` bounds how many others are served meanwhile.
    """

    def __init__(self, most: int, extra: int = 0) -> None:
        self.most = most
        self.extra = extra
        self.held = 0
        """How many places are held."""
        self._uses: dict[str, _Use] = {}

    def has_place(self, owner_id: str) -> bool:
        """Whether an owner may take a place now."""
        use = self._uses.get(owner_id)
        extra = self.extra if use is None or not use.held else 0
        return self.held < self.most + extra

    def choose(self, owners: Iterable[str], now: float) -> str | None:
        """Whose turn it is among owners that wait; of equals the first of them. None where no place is for them."""
        found, least = None, (0, 0.0)
        if self.held >= self.most + self.extra:
            return None
        for owner_id in owners:
            if not self.has_place(owner_id):
                continue
            use = self._uses.get(owner_id)
            if use is None:
                return owner_id  # nobody has held less
            share = use.held, use.seconds_at(now)
            if found is None or share < least:
                found, least = owner_id, share
        return found

    def take(self, owner_id: str, now: float) -> None:
        """Note that an owner holds one place more, for which there must be one."""
        if not self.has_place(owner_id):
            message = f"there is no place for {owner_id}"
            raise RuntimeError(message)
        if (use := self._uses.get(owner_id)) is None:
            if len(self._uses) >= _OWNERS_MAX:
                self._forget_some(now)
            use = self._uses[owner_id] = _Use(0, 0.0, now)
        use.change(1, now)
        self.held += 1

    def give_back(self, owner_id: str, now: float) -> None:
        """Note that an owner holds one place less."""
        self._uses[owner_id].change(-1, now)
        self.held -= 1

    def _forget_some(self, now: float) -> None:
        """Forget those that hold nothing and have held the least: half of all, or as many as there are."""
        idle = ((use.seconds_at(now), owner_id) for owner_id, use in self._uses.items() if not use.held)
        for _, owner_id in heapq.nsmallest(_OWNERS_MAX // 2, idle):
            del self._uses[owner_id]
