"""Work in turn over its owners: each served once before any is served twice, within a bound on what waits."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.work.round_robin import RoundRobin

pytestmark = pytest.mark.req("S-03")


@given(st.lists(st.sampled_from("abc") | st.none(), max_size=80))
def test_waiting_owner_is_served_before_another_is_served_twice(steps: list[str | None]) -> None:
    """Items come and are taken in any order; while an owner waits, each other one is served at most once."""
    turns = RoundRobin(1_000)
    waiting: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    since: dict[str, Counter[str]] = {}
    for number, owner_id in enumerate(steps):
        if owner_id is not None:
            turns.push(f"{owner_id}{number}", owner_id)
            waiting[owner_id].append(f"{owner_id}{number}")
            since.setdefault(owner_id, Counter())
        elif turns:
            served = next(iter(turns.owners))
            assert turns.pop(served) == waiting[served].pop(0), "items of one owner are taken in their order"
            since.pop(served)
            for passed in since.values():
                passed[served] += 1
                assert passed[served] == 1
            if waiting[served]:
                since[served] = Counter()
    assert len(turns) == sum(map(len, waiting.values()))


@given(st.integers(0, 6), st.lists(st.sampled_from("aaab"), max_size=30))
def test_longest_crowd_is_dropped_first(most: int, owners: list[str]) -> None:
    """Never more wait than may, and an owner with fewer than another loses nothing."""
    turns, held = RoundRobin(most), Counter[str]()
    for number, owner_id in enumerate(owners):
        dropped = turns.push(f"{owner_id}{number}", owner_id)
        held[owner_id] += 1
        if dropped is not None:
            assert held[dropped[0]] == max(held.values())
            held[dropped[0]] -= 1
        assert len(turns) == held.total() <= most


def test_removed_item_is_not_taken() -> None:
    """What is no longer wanted makes room, and its owner has no turn for it."""
    turns = RoundRobin(2)
    for item in ("a1", "b1"):
        turns.push(item, item[0])
    assert (turns.remove("a1", "a"), turns.remove("a1", "a")) == (True, False)
    assert (*turns.owners, turns.pop("b"), len(turns)) == ("b", "b1", 0)
