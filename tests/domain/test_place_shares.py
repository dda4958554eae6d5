"""Places are shared by how many each owner holds, and by how long it has held them."""

import math
from collections import Counter
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.work.place_shares import HALF_LIFE_SECONDS, PlaceShares

pytestmark = pytest.mark.req("T-05")

_OWNERS: Final = "abcd"


class _Office:
    """Owners that have more work than there are places for, as the worker of a queue serves them."""

    def __init__(self, most: int, extra: int) -> None:
        self.shares = PlaceShares(most, extra)
        self.now = 0.0
        self.held = Counter[str]()
        self.used = Counter[str]()
        self.waiting: dict[str, None] = {}

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        for owner_id, held in self.held.items():
            self.used[owner_id] += int(held * seconds)

    def serve(self) -> str | None:
        """Give the next place to whose turn it is."""
        chosen = self.shares.choose(self.waiting, self.now)
        if chosen is not None:
            self.shares.take(chosen, self.now)
            self.held[chosen] += 1
            del self.waiting[chosen]
            self.waiting[chosen] = None
        return chosen

    def end(self, owner_id: str) -> None:
        """End one piece of an owner's work."""
        self.shares.give_back(owner_id, self.now)
        self.held[owner_id] -= 1


_steps = st.lists(
    st.tuples(st.sampled_from(["come", "leave", "serve", "end", "wait"]), st.sampled_from(_OWNERS), st.integers(1, 99)),
    max_size=80,
)


@given(st.integers(0, 3), st.integers(0, 2), _steps)
def test_place_goes_to_who_holds_the_fewest(most: int, extra: int, steps: list[tuple[str, str, int]]) -> None:
    """Whoever is served holds the fewest of all who wait; extra places are for those who hold none; nobody idles."""
    office = _Office(most, extra)
    for what, owner_id, seconds in steps:
        if what == "come":
            office.waiting[owner_id] = None
        elif what == "leave":
            office.waiting.pop(owner_id, None)
        elif what == "wait":
            office.wait(seconds)
        elif what == "end" and office.held[owner_id]:
            office.end(owner_id)
        elif what == "serve":
            before, waiting = office.held.copy(), list(office.waiting)
            served = office.serve()
            room = most - before.total()
            if served is None:
                has_room = room > 0 or (room > -extra and any(not before[one] for one in waiting))
                assert not (waiting and has_room)
            else:
                assert before[served] == min(before[one] for one in waiting)
                assert room > 0 or (room > -extra and before[served] == 0)
        assert office.shares.held == office.held.total() <= most + extra


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 6))
def test_owner_without_a_place_finds_one_at_once(most: int, extra: int, crowd: int) -> None:
    """However much one owner has waited for, and for how long it has held all places, the next owners are served."""
    office = _Office(most, extra)
    office.waiting["a"] = None
    for _ in range(most + crowd):
        office.serve()
    office.wait(3_600)
    assert office.held["a"] == most
    served = []
    for owner_id in "bcd":
        office.waiting[owner_id] = None
        served.append(office.serve())
    assert served == [*"bcd"[:extra], *[None] * (3 - extra)]
    office.end("b")
    assert office.serve() == ("d" if extra == 2 else "c" if extra == 1 else "b")


@given(st.lists(st.integers(1, 60), min_size=2, max_size=4), st.integers(1, 400))
def test_place_is_held_for_the_same_time(lengths: list[int], turns: int) -> None:
    """Owners whose work never ends, of one the longer and of another the shorter, hold a place for the same time.

    What counts differs by one piece of work at most, and what no longer counts by as much in each lifetime.
    """
    office = _Office(1, 0)
    owners = dict(zip(_OWNERS, lengths, strict=False))
    office.waiting |= dict.fromkeys(owners)
    for _ in range(turns):
        served = office.serve()
        assert served is not None
        office.wait(owners[served])
        office.end(served)
    used = [office.used[owner_id] for owner_id in owners]
    lifetimes = office.now * math.log(2) / HALF_LIFE_SECONDS
    assert max(used) - min(used) <= max(lengths) * (1 + lifetimes)


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=10))
def test_what_was_held_is_forgotten(waits: list[int]) -> None:
    """After each half-life it counts half as much, in however many pieces the time passes."""
    office = _Office(1, 0)
    office.waiting |= {"a": None}
    office.serve()
    office.wait(HALF_LIFE_SECONDS)
    office.end("a")
    use = office.shares._uses["a"]
    seen = [use.seconds_at(office.now)]
    for seconds in waits:
        office.wait(seconds)
        use.change(0, office.now)
        seen.append(use.seconds)
    assert seen[-1] == pytest.approx(seen[0] * 2 ** (-sum(waits) / HALF_LIFE_SECONDS))
    assert all(later < earlier for earlier, later in pairwise(seen))


def test_place_that_is_not_there_is_not_taken() -> None:
    """Who takes a place without asking is told; nothing is counted."""
    shares = PlaceShares(1)
    shares.take("a", 0.0)
    with pytest.raises(RuntimeError, match="no place for b"):
        shares.take("b", 0.0)
    assert shares.held == 1


def test_owners_are_forgotten_that_have_held_the_least() -> None:
    """The memory of many owners is bounded; those that hold places or have held them for long are kept."""
    shares = PlaceShares(2)
    shares.take("holder", 0.0)
    shares.take("long", 0.0)
    shares.give_back("long", 100.0)
    for number in range(5_000):
        shares.take(f"{number}", 100.0)
        shares.give_back(f"{number}", 101.0)
    assert len(shares._uses) <= 1_000
    assert shares.choose(["holder", "long", "0"], 102.0) == "0"
    assert shares.choose(["holder", "long"], 102.0) == "long"
    shares.give_back("holder", 103.0)
    assert shares.held == 0
