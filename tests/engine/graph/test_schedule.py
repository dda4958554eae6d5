"""The schedule hands out each node once, after what it needs, and those near an output first."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.engine.graph.cycles import sort_topologically, way_round
from fairlead.engine.graph.schedule import DependencyCycleError, Schedule

Needs = dict[int, list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Needs:
    """Graphs without cycles: each node needs some of those with lower numbers."""
    size = draw(st.integers(1, 20))
    return {node: draw(st.lists(st.integers(0, node - 1), unique=True)) if node else [] for node in range(size)}


def _names(numbers: Sequence[int]) -> list[str]:
    return [str(number) for number in numbers]


@given(graphs(), st.randoms(use_true_random=False), st.integers(1, 4))
def test_every_node_is_executed_once_after_what_it_needs(needs: Needs, chance: random.Random, hands: int) -> None:
    """The order in which nodes are added and finished, and how many run at once, make no difference."""
    schedule, order = Schedule(), [*needs]
    chance.shuffle(order)
    for node in order:
        is_concurrent, is_output = chance.random() < 0.3, chance.random() < 0.2
        schedule.add(str(node), _names(needs[node]), is_output=is_output, is_concurrent=is_concurrent)
    done: list[str] = []
    taken: list[str] = []
    while schedule:
        while len(taken) < hands and (
            node_id := schedule.take(is_concurrent=True) or schedule.take(is_concurrent=False)
        ):
            assert set(_names(needs[int(node_id)])) <= set(done)
            taken.append(node_id)
        done.append(taken.pop(chance.randrange(len(taken))))
        schedule.finish(done[-1])
    assert sorted(done) == sorted(map(str, needs))


@given(graphs(), st.randoms(use_true_random=False))
def test_node_that_asks_for_more_comes_again(needs: Needs, chance: random.Random) -> None:
    """Half of what a node needs is only asked for when it is taken; it comes again, after that."""
    schedule, done, asked = Schedule(), set[str](), set[str]()
    late = {node: [need for need in found if chance.random() < 0.5] for node, found in needs.items()}
    for node, found in needs.items():
        schedule.add(str(node), _names([need for need in found if need not in late[node]]))
    while schedule:
        taken = schedule.take(is_concurrent=False)
        assert taken is not None
        if taken not in asked:
            asked.add(taken)
            schedule.wait(taken, [need for need in _names(late[int(taken)]) if need not in done])
            continue
        assert set(_names(needs[int(taken)])) <= done
        done.add(taken)
        schedule.finish(taken)
    assert done == set(map(str, needs))


def _drain(schedule: Schedule) -> list[str]:
    order = []
    while (node := schedule.take(is_concurrent=False)) is not None:
        order.append(node)
        schedule.finish(node)
    return order


def test_nodes_that_feed_an_output_come_first() -> None:
    """Outputs come first, then what feeds one, then what feeds that, and else the first that was added."""
    schedule = Schedule()
    schedule.add("far", [])
    schedule.add("other", [])
    schedule.add("second", [])
    schedule.add("first", [])
    schedule.add("needs second", ["second"])
    schedule.add("output 1", ["needs second", "far"], is_output=True)
    schedule.add("output 2", ["first"], is_output=True)
    schedule.add("output 3", [], is_output=True)
    assert _drain(schedule) == [
        "output 3", "far", "first", "output 2", "second", "needs second", "output 1", "other",
    ]  # fmt: skip


def test_nodes_that_need_each_other_are_reported() -> None:
    """Nothing is ready, and the way round is told."""
    schedule = Schedule()
    schedule.add("x", ["a"])
    schedule.add("a", ["b"])
    schedule.add("b", ["c"])
    schedule.add("c", ["a"])
    assert schedule.take(is_concurrent=False) is None
    error = schedule.cycle()
    assert isinstance(error, DependencyCycleError)
    assert error.nodes == ("a", "b", "c")
    assert str(error) == "Nodes need each other: a -> b -> c -> a"


@given(st.lists(st.lists(st.integers(0, 11), unique=True, max_size=4), min_size=12, max_size=12))
def test_every_cycle_is_found(sources: list[list[int]]) -> None:
    """Held against the definition: two nodes are in one knot when each can be reached from the other."""
    reach = {start: _reachable(start, sources) for start in range(12)}
    order, knots = sort_topologically(["0"], lambda node: _names(sources[int(node)]))
    assert sorted(map(int, order)) == sorted({0} | reach[0])
    expected = {
        frozenset(other for other in reach[node] if node in reach[other])
        for node in {0} | reach[0]
        if node in reach[node]
    }
    assert {frozenset(map(int, knot)) for knot in knots} == expected
    place = {int(node): index for index, node in enumerate(order)}
    for node, index in place.items():
        for source in sources[node]:
            assert place[source] < index or node in reach[source]
    for knot in knots:
        way = way_round(knot, lambda node: _names(sources[int(node)]))
        for node_id, following in zip(way, [*way[1:], way[0]], strict=True):
            assert int(following) in sources[int(node_id)]


def _reachable(start: int, sources: list[list[int]]) -> set[int]:
    """What a node needs, by brute force; itself only when it can be come back to."""
    found: set[int] = set()
    waiting = list(sources[start])
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting.extend(sources[node])
    return found


def test_asking_for_a_cycle_where_there_is_none_fails() -> None:
    """Asked for a way round where there is none, it says so instead of going on forever."""
    with pytest.raises(AssertionError):
        way_round(["a"], lambda _: [])
