"""Fair shares: every owner gets a place in turn, nobody holds or waits beyond a bound, and no place is lost."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Run
from fairlead.fair_shares import FairShares, NoRoomError

_OWNERS: Final = "abcd"
_STEPS: Final = st.lists(
    st.tuples(st.sampled_from(("take", "take", "take", "end", "cancel")), st.sampled_from(_OWNERS), st.integers(0, 9)),
    max_size=60,
)


class _Callers:
    """Callers that take places, and hold each until they are told to end."""

    def __init__(self, shares: FairShares) -> None:
        self._shares = shares
        self.holding: list[tuple[str, asyncio.Event, asyncio.Task[None]]] = []
        self.waiting: list[tuple[str, asyncio.Task[None]]] = []
        self.granted: list[str] = []
        self.refused: list[str] = []

    async def come(self, owner_id: str, seconds: float | None = None) -> None:
        """Have a caller of an owner ask for a place."""
        self.waiting.append((owner_id, asyncio.create_task(self._hold(owner_id, seconds))))
        await self.settle()

    async def end(self, which: int) -> None:
        """Let one of those that hold a place give it back."""
        if self.holding:
            _, ended, _ = self.holding[which % len(self.holding)]
            ended.set()
            await self.settle()

    async def cancel(self, which: int) -> None:
        """Cancel one of those that wait."""
        if self.waiting:
            self.waiting[which % len(self.waiting)][1].cancel()
            await self.settle()

    async def settle(self) -> None:
        """Let everything happen that can."""
        for _ in range(6):
            await asyncio.sleep(0)

    async def leave(self) -> None:
        """Let all of them end."""
        tasks = [task for _, task in self.waiting] + [task for *_, task in self.holding]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _hold(self, owner_id: str, seconds: float | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        mine = None
        try:
            async with self._shares.place(owner_id, seconds):
                self.waiting.remove((owner_id, task))
                mine = (owner_id, asyncio.Event(), task)
                self.holding.append(mine)
                self.granted.append(owner_id)
                await mine[1].wait()
        except NoRoomError:
            self.refused.append(owner_id)
        finally:
            if mine is not None:
                self.holding.remove(mine)
            with suppress(ValueError):
                self.waiting.remove((owner_id, task))


async def _play(places: int, waiting_max: int, share_max: int | None, steps: Sequence[tuple[str, str, int]]) -> None:
    shares = FairShares(places, waiting_max, share_max)
    callers = _Callers(shares)
    try:
        for doing, owner_id, which in steps:
            poor = {waiting for waiting, _ in callers.waiting if not shares.count_held(waiting)}
            before = len(callers.granted)
            match doing:
                case "take":
                    await callers.come(owner_id)
                case "end":
                    await callers.end(which)
                case _:
                    await callers.cancel(which)
            _check_bounds(shares, callers, places, waiting_max, share_max)
            newly = set(callers.granted[before:])
            still_poor = poor & {waiting for waiting, _ in callers.waiting}
            rich = {granted for granted in newly if shares.count_held(granted) > 1}
            assert not (still_poor and rich), "an owner got its second place while another waited for its first"
    finally:
        await callers.leave()
    assert shares.in_use == shares.waiting == 0
    assert all(shares.count_held(owner_id) == 0 for owner_id in _OWNERS)


def _check_bounds(shares: FairShares, callers: _Callers, places: int, waiting_max: int, share_max: int | None) -> None:
    held = Counter(owner_id for owner_id, *_ in callers.holding)
    most = places if share_max is None else min(share_max, places)
    assert shares.in_use == held.total() <= places
    assert all(shares.count_held(owner_id) == held[owner_id] <= most for owner_id in _OWNERS)
    assert shares.waiting == len(callers.waiting) <= waiting_max
    may_have_one = [owner_id for owner_id, _ in callers.waiting if held[owner_id] < most]
    assert shares.in_use == places or not may_have_one, "a place is free, and somebody waits who may have it"


@pytest.mark.req("S-03")
@given(st.integers(1, 4), st.integers(0, 6), st.none() | st.integers(1, 3), _STEPS)
def test_places_are_bounded_never_lost_and_shared_before_they_are_doubled(
    places: int, waiting_max: int, share_max: int | None, steps: list[tuple[str, str, int]]
) -> None:
    """Callers come, end or are cancelled: bounds hold, no place is idle while one may have it, each gets one first."""
    asyncio.run(_play(places, waiting_max, share_max, steps))


@pytest.mark.req("S-03")
@given(st.integers(1, 4), st.lists(st.sampled_from(_OWNERS), max_size=40))
def test_waiting_owner_is_served_within_one_round(places: int, crowd: list[str]) -> None:
    """Who waits without a place sees every other owner served at most once before it, whatever else comes."""

    async def scenario() -> None:
        callers = _Callers(FairShares(places, 1_000))
        try:
            for owner_id in ["a"] * places + crowd:
                await callers.come(owner_id)
            await callers.come("z")
            seen = len(callers.granted)
            while "z" not in callers.granted:
                await callers.end(0)
                await callers.come("a")
                await callers.come("b")
            passed = Counter(callers.granted[seen : callers.granted.index("z")])
            assert all(times == 1 for times in passed.values())
        finally:
            await callers.leave()

    asyncio.run(scenario())


@pytest.mark.req("S-03")
def test_owner_may_use_every_place_while_nobody_waits(run: Run) -> None:
    """A share is a bound only while others wait; the next free places are theirs."""

    async def scenario() -> list[str]:
        callers = _Callers(FairShares(4, 10))
        for owner_id in "aaaaaabbb":
            await callers.come(owner_id)
        assert callers.granted == ["a", "a", "a", "a"]
        for _ in range(3):
            await callers.end(0)
        granted = callers.granted[4:]
        await callers.leave()
        return granted

    assert run(scenario()) == ["b", "b", "a"]


@pytest.mark.req("S-03")
def test_place_is_left_for_the_next_owner_where_shares_are_capped(run: Run) -> None:
    """No owner holds more than its cap, so the next one need not wait."""

    async def scenario() -> list[str]:
        callers = _Callers(FairShares(4, 10, share_max=3))
        for owner_id in "aaaaab":
            await callers.come(owner_id)
        granted = callers.granted[:]
        await callers.leave()
        return granted

    assert run(scenario()) == ["a", "a", "a", "b"]


@pytest.mark.req("S-03")
def test_crowd_of_one_owner_is_refused_before_another_that_waits(run: Run) -> None:
    """When too many wait, the last of the owner with the most is refused, not the one that comes."""

    async def scenario() -> tuple[list[str], list[str]]:
        callers = _Callers(FairShares(1, 3))
        for owner_id in "aaaab":
            await callers.come(owner_id)
        refused, waiting = callers.refused[:], [owner_id for owner_id, _ in callers.waiting]
        await callers.leave()
        return refused, waiting

    assert run(scenario()) == (["a"], ["a", "a", "b"])


def test_caller_that_waits_too_long_is_refused(run: Run) -> None:
    """The caller says how long it waits; its turn is nobody's afterwards."""

    async def scenario() -> None:
        shares = FairShares(1, 10)
        async with shares.place("a"):
            with pytest.raises(NoRoomError):
                await shares.take("b", seconds=0.01)
            assert shares.waiting == 0
        assert shares.in_use == 0

    run(scenario())


def test_place_granted_to_a_cancelled_caller_is_given_to_the_next(run: Run) -> None:
    """A caller may be cancelled in the very moment in which a place becomes its own."""

    async def scenario() -> None:
        shares = FairShares(1, 10)
        await shares.take("a")
        cancelled, patient = asyncio.create_task(shares.take("b")), asyncio.create_task(shares.take("c"))
        await asyncio.sleep(0)
        shares.give_back("a")
        cancelled.cancel()
        await patient
        assert (shares.count_held("b"), shares.count_held("c"), shares.in_use) == (0, 1, 1)

    run(scenario())


def test_place_that_nobody_holds_cannot_be_given_back(run: Run) -> None:
    """Giving back twice would let more in than there is room for."""

    async def scenario() -> None:
        shares = FairShares(1, 0)
        await shares.take("a")
        shares.give_back("a")
        with pytest.raises(RuntimeError, match="no place is held"):
            shares.give_back("a")

    run(scenario())


def test_place_passes_by_a_caller_that_was_cancelled_and_has_not_noticed() -> None:
    """As when a server stops, and cancels all calls at once: the place goes to who is next, and none is lost."""

    async def scenario() -> None:
        shares = FairShares(1, 10)
        await shares.take("a")
        cancelled, next_one = (asyncio.create_task(shares.take(owner_id)) for owner_id in ("a", "b"))
        await asyncio.sleep(0)
        cancelled.cancel()
        shares.give_back("a")
        await asyncio.gather(cancelled, next_one, return_exceptions=True)
        assert (shares.count_held("a"), shares.count_held("b"), shares.in_use, shares.waiting) == (0, 1, 1, 0)

    asyncio.run(scenario())


def test_fewer_places_take_none_away_and_more_are_given_at_once() -> None:
    """Who holds a place keeps it; the next one is free when fewer are held than there are, or when there are more."""

    async def scenario() -> None:
        shares = FairShares(3, 10)
        for owner_id in "abc":
            await shares.take(owner_id)
        shares.resize(1)
        waiting = [asyncio.create_task(shares.take(owner_id)) for owner_id in "de"]
        await asyncio.sleep(0)
        shares.give_back("a")
        shares.give_back("b")
        assert (shares.in_use, shares.waiting) == (1, 2)
        shares.give_back("c")
        assert (shares.count_held("d"), shares.in_use, shares.waiting) == (1, 1, 1)
        shares.resize(2)
        assert (shares.count_held("e"), shares.in_use, shares.waiting) == (1, 2, 0)
        await asyncio.gather(*waiting)

    asyncio.run(scenario())


def test_owner_counts_with_what_it_holds_and_waits_for() -> None:
    """One that does neither is forgotten."""

    async def scenario() -> None:
        shares = FairShares(1, 10)
        await shares.take("a")
        tasks = [asyncio.create_task(shares.take(owner_id)) for owner_id in "abb"]
        await asyncio.sleep(0)
        assert [shares.count_held_and_awaited(owner_id) for owner_id in "abz"] == [2, 2, 0]
        assert shares.owners == 2
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (shares.owners, shares.count_held_and_awaited("a"), shares.waiting) == (1, 1, 0)

    asyncio.run(scenario())
