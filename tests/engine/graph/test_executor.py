"""A graph is executed as its nodes ask for it: lists, lazy inputs, blockers, concurrency, and what is known already."""

import asyncio
import gc
import itertools
import sys
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from conftest import Run
from engine.conftest import Execute
from engine.executions import Bench, Seen, chain, n
from fairlead.domain.jobs.events import (
    Executed,
    Executing,
    Failed,
    Finished,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.engine.media.arrays import Array
from fairlead.engine.nodes.node import Output, definition_of, node, socket


def test_long_chain_is_executed(execute: Execute) -> None:
    """Ten thousand nodes are executed one after the other, with three events each and a few in all."""
    seen = execute(chain(10_000))
    assert seen.output_of("show") == [10_000]
    assert len(seen.events) < 3 * 10_000 + 10


def _calls(work: Callable[[], object]) -> int:
    """How many functions are called in this thread, which is the event loop's."""
    counted = itertools.count()
    sys.setprofile(lambda _frame, kind, _arg: next(counted) if kind in {"call", "c_call"} else None)
    try:
        work()
    finally:
        sys.setprofile(None)
    return next(counted)


def test_work_of_a_chain_grows_linearly(execute: Execute) -> None:
    """Twice as many nodes take twice the work, at first and from the cache, which takes less of it."""
    execute(chain(1))
    first, known = [], []
    for nodes in (400, 800):
        work = partial(execute, chain(nodes) | {"0": n("Number", value=nodes)})  # that no node of the other is known
        first.append(_calls(work))
        known.append(_calls(work))
    assert max(first[1] / first[0], known[1] / known[0]) < 2.5
    assert known[1] < first[1] / 2


def test_node_two_nodes_need_is_executed_once(execute: Execute) -> None:
    """In a diamond each node is executed once, after the nodes it needs."""
    seen = execute(
        {
            "bottom": n("Add", a=["left", 0], b=["right", 0]),
            "left": n("Add", a=["top", 0], b=1),
            "right": n("Add", a=["top", 0], b=2),
            "top": n("Number", value=10),
            "show": n("Show", value=["bottom", 0]),
        }
    )
    assert seen.output_of("show") == [23]
    assert sorted(seen.executed) == ["bottom", "left", "right", "show", "top"]
    assert (seen.executed[0], seen.executed[-2:]) == ("top", ["bottom", "show"])


def test_events_come_in_their_order(execute: Execute) -> None:
    """Start, what is known, for each node begin, what it shows and end, and then how it ended."""
    seen = execute({"1": n("Number", value=1), "2": n("Show", value=["1", 0])})
    kinds = [type(event).__name__ for event in seen.events]
    assert kinds == [
        "Started", "Cached", "Executing", "Finished", "Executing", "Executed", "Finished", "Succeeded",
    ]  # fmt: skip
    assert (seen.of(Started), seen.of(Succeeded)) == ([Started()], [seen.outcome.ending])
    assert [event.place.node for event in seen.of(Finished)] == ["1", "2"]


def test_list_is_passed_item_by_item(execute: Execute) -> None:
    """A node is called for each item; the shorter list repeats its last; one that takes lists is called once."""
    seen = execute(
        {
            "long": n("Count", most=4),
            "short": n("Count", most=2),
            "sum": n("Add", a=["long", 0], b=["short", 0]),
            "show": n("Show", value=["sum", 0]),
            "all": n("ShowAll", value=["sum", 0]),
        }
    )
    assert seen.output_of("show") == [0, 2, 3, 4]
    assert seen.output_of("all") == [0, 2, 3, 4]
    assert [event.place.node for event in seen.of(Executing)].count("sum") == 1


def test_empty_list_calls_no_node(execute: Execute) -> None:
    """There is nothing to call it for, and nothing comes of it."""
    seen = execute(
        {
            "none": n("Count", most=0),
            "sum": n("Add", a=["none", 0], b=1),
            "show": n("Show", value=["sum", 0]),
            "all": n("ShowAll", value=["sum", 0]),
        }
    )
    assert isinstance(seen.outcome.ending, Succeeded)
    assert (seen.outcome.ui.get("show"), seen.output_of("all")) == (None, [])


def test_lazy_input_is_executed_only_when_asked_for(execute: Execute) -> None:
    """Only the side that is asked for is executed; the node starts again when it has it."""
    graph = {
        "yes": n("Number", value=1),
        "no": n("Fail", value="boom"),
        "choose": n("Choose", condition=True, yes=["yes", 0], no=["no", 0]),
        "show": n("Show", value=["choose", 0]),
    }
    seen = execute(graph)
    assert seen.executed == ["choose", "yes", "choose", "show"]
    assert seen.output_of("show") == [1]
    graph["choose"] = n("Choose", condition=False, yes=["yes", 0], no=["no", 0])
    assert isinstance(execute(graph).outcome.ending, Failed)


def test_list_of_conditions_asks_for_both_sides(execute: Execute) -> None:
    """Each call asks for itself, and both sides are worked out when both are asked for."""
    seen = execute(
        {
            "conditions": n("Count", most=2),
            "yes": n("Number", value=1),
            "no": n("Number", value=2),
            "choose": n("Choose", condition=["conditions", 0], yes=["yes", 0], no=["no", 0]),
            "show": n("Show", value=["choose", 0]),
        }
    )
    assert seen.output_of("show") == [2, 1]


def test_blocked_value_reaches_no_function(execute: Execute) -> None:
    """Only the blocked items of a list stop, through any number of nodes, and the block is reported once."""
    graph = {
        "all": n("Count", most=5),
        "low": n("Block", value=["all", 0], above=1, message="too big"),
        "more": n("Add", a=["low", 0], b=10),
        "most": n("Add", a=["more", 0], b=100),
        "show": n("Show", value=["most", 0]),
    }
    seen = execute(graph)
    assert seen.output_of("show") == [110, 111]
    assert [(event.place.node, event.message) for event in seen.of(Stopped)] == [("more", "too big")]
    assert isinstance(seen.outcome.ending, Succeeded)


def test_list_with_a_blocked_item_reaches_no_function(execute: Execute) -> None:
    """A node that takes lists is not called with a blocker in one, and shows nothing."""
    seen = execute(
        {
            "all": n("Count", most=2),
            "low": n("Block", value=["all", 0], above=0, message=""),
            "show": n("ShowAll", value=["low", 0]),
        }
    )
    assert (dict(seen.outcome.ui), seen.of(Stopped)) == ({}, [])


def test_concurrent_nodes_do_not_wait_for_each_other(execute: Execute) -> None:
    """Twenty nodes, and one more for each of twenty items of a list, all wait until the last of them has begun."""
    ones = {f"one {index}": n("Meet", value=index, parties=40) for index in range(20)}
    shows = {f"show {index}": n("Show", value=[f"one {index}", 0]) for index in range(20)}
    many = {
        "all": n("Count", most=20),
        "ones": n("Meet", value=["all", 0], parties=40),
        "s": n("Show", value=["ones", 0]),
    }
    seen = execute({**ones, **shows, **many})
    assert seen.output_of("s") == list(range(20))
    assert [seen.output_of(f"show {index}") for index in range(20)] == [[index] for index in range(20)]


def test_ordinary_node_does_not_hold_up_concurrent_ones(execute: Execute) -> None:
    """They go on while it works."""
    seen = execute(
        {
            "work": n("Work", steps=200),
            "nap": n("Nap", value=1, seconds=0.01),
            "show work": n("Show", value=["work", 0]),
            "show nap": n("Show", value=["nap", 0]),
        }
    )
    finished = [event.place.node for event in seen.of(Finished)]
    assert finished.index("nap") < finished.index("work")


def test_node_that_raises_is_recorded_in_full(execute: Execute) -> None:
    """The record names node, class, exception, its words, where it was raised, the inputs, and what went before."""
    seen = execute({"1": n("Number", value=7), "2": n("Fail", value=["1", 0]), "3": n("Show", value=["2", 0])})
    assert isinstance(seen.outcome.ending, Failed)
    failure = seen.outcome.ending.failure
    assert (failure.place.node, failure.node_type) == ("2", "Fail")
    assert (failure.exception_type, failure.message) == ("ArithmeticError", "no use for 7")
    assert failure.current_inputs == {"value": [7]}
    assert failure.executed == ["1"]
    assert "sample_nodes" in "".join(failure.traceback)
    assert seen.executed == ["1", "2"]


def test_work_done_before_a_failure_is_not_done_again(execute: Execute) -> None:
    """It is known to the next execution, whatever its ids are there."""
    execute({"1": n("Number", value=7), "2": n("Fail", value=["1", 0]), "3": n("Show", value=["2", 0])})
    seen = execute({"x": n("Number", value=7), "y": n("Show", value=["x", 0])})
    assert (seen.cached, seen.executed) == ({"x"}, ["y"])


def test_same_graph_under_other_ids_is_cached(execute: Execute) -> None:
    """Ids do not matter, and what a known output has shown is shown again."""
    execute({"1": n("Number", value=1), "2": n("Add", a=["1", 0], b=5), "3": n("Show", value=["2", 0])})
    seen = execute({"a": n("Show", value=["b", 0]), "b": n("Add", a=["c", 0], b=5), "c": n("Number", value=1)})
    assert (seen.executed, seen.cached) == ([], {"a", "b", "c"})
    assert [(event.place.node, event.ui) for event in seen.of(Executed)] == [("a", {"values": [6]})]


def test_twins_are_executed_once(execute: Execute) -> None:
    """Two nodes of one graph with the same inputs are executed once, and both show what came of it."""
    seen = execute({"1": n("Number", value=1), "2": n("Show", value=["1", 0]), "3": n("Show", value=["1", 0])})
    assert (seen.executed, seen.output_of("2"), seen.output_of("3")) == (["1", "2"], [1], [1])


def test_node_that_is_never_the_same_is_executed_each_time(execute: Execute) -> None:
    """One that is never the same is executed each time, and so is what needs it."""
    graph = {
        "1": n("Restless"),
        "2": n("Add", a=["1", 0], b=1),
        "3": n("Number", value=1),
        "4": n("Add", a=["2", 0], b=["3", 0]),
        "5": n("Show", value=["4", 0]),
    }
    execute(graph)
    assert execute(graph).executed == ["1", "2", "4", "5"]


def test_fingerprint_of_a_constant_counts(execute: Execute) -> None:
    """What it says of a constant counts in the signature; a link has no value yet, so that it cannot say."""
    execute({"1": n("Stamped", value=3), "2": n("Show", value=["1", 0])})
    assert execute({"1": n("Stamped", value=3), "2": n("Show", value=["1", 0])}).executed == []
    linked = {"0": n("Number", value=3), "1": n("Stamped", value=["0", 0]), "2": n("Show", value=["1", 0])}
    execute(linked)
    assert execute(linked).executed == ["1", "2"]


def test_hidden_inputs_are_given(execute: Execute) -> None:
    """Each by the name its class declares: the node's id, the graph, and what else came with it."""
    graph = {"1": n("Id"), "2": n("Show", value=["1", 0]), "3": n("Id"), "4": n("Show", value=["3", 0])}
    seen = execute(graph, hidden={"X": "extra"})
    assert seen.output_of("1", "hidden") == [{"me": "1", "prompt": graph, "x": "extra"}]
    assert (seen.output_of("2"), seen.output_of("4")) == (["1"], ["3"])


def test_inputs_that_grow_or_are_chosen_arrive_as_dicts(execute: Execute) -> None:
    """They reach the function as dicts, the choice under the input's own name."""
    seen = execute(
        {
            "grow": n("Grow", values__value0=1, values__value2=["count", 0]),
            "count": n("Count", most=2),
            "shape": n("Shape", kind="circle", kind__radius=3),
        }
    )
    assert seen.output_of("grow") == [{"value0": 1, "value2": 0}, {"value0": 1, "value2": 1}]
    assert seen.output_of("shape") == [{"kind": "circle", "radius": 3}]


def test_output_inside_a_graph_goes_on(execute: Execute) -> None:
    """What an output node gives goes on; a target alone makes no more than it needs."""
    graph = {"1": n("Number", value=4), "2": n("Pass", value=["1", 0]), "3": n("Pass", value=["2", 0])}
    assert execute(graph, targets=["2"]).executed == ["1", "2"]
    assert execute(graph).output_of("3") == [4]


@node("Picture", "Picture", "samples", outputs=(Output("IMAGE"),))
def _picture() -> Array:
    return np.zeros((1, 2, 2, 3), np.float32)


@node("Smear", "Smear", "samples", outputs=(Output("IMAGE"),))
def _smear(image: Annotated[Array, socket("IMAGE")]) -> Array:
    image += 1
    return image


def test_node_cannot_change_the_value_of_another(bench: Bench, execute: Execute) -> None:
    """An array belongs to everybody who was given it, and to the cache: writing into it is an error."""
    bench.registry.add(definition_of(_picture))
    bench.registry.add(definition_of(_smear))
    seen = execute({"1": n("Picture"), "2": n("Smear", image=["1", 0]), "3": n("Show", value=["2", 0])})
    assert isinstance(seen.outcome.ending, Failed)
    assert seen.outcome.ending.failure.current_inputs == {"image": ["float32 array [1, 2, 2, 3]"]}


class _Heavy:
    """A value whose end can be seen."""


_LIVING: "weakref.WeakSet[_Heavy]" = weakref.WeakSet()


@node("Heavy", "Heavy", "samples", outputs=(Output("*"),))
def _heavy(value: Annotated[Any, socket("*")]) -> _Heavy:
    del value
    made = _Heavy()
    _LIVING.add(made)
    assert len(_LIVING) <= 3
    return made


def test_unused_values_are_released(run: Run, tmp_path: Path) -> None:
    """Without room in the cache, a chain of a hundred values never holds more than a few."""
    bench = Bench(tmp_path, cache_bytes=0)
    bench.registry.add(definition_of(_heavy))
    graph = {"0": n("Number", value=1), **{str(i): n("Heavy", value=[str(i - 1), 0]) for i in range(1, 101)}}
    graph["show"] = n("Pass", value=["100", 0])
    seen: Seen = run(bench.run(graph))
    assert isinstance(seen.outcome.ending, Succeeded)
    assert len(seen.executed) == 102
    gc.collect()
    bench.executor.close()


def test_concurrent_executions_share_cache_and_thread(bench: Bench) -> None:
    """They may go on at the same time, and share the cache and the thread."""

    async def both() -> list[Seen]:
        return await asyncio.gather(*(bench.run(chain(50 + index)) for index in range(4)))

    assert [seen.output_of("show") for seen in asyncio.run(both())] == [[50], [51], [52], [53]]


def test_wrong_number_of_values_is_the_nodes_error(bench: Bench, execute: Execute) -> None:
    """That is the node's error, and says so."""

    @node("Odd", "Odd", "samples", outputs=(Output("INT"), Output("INT")))
    def odd() -> Any:
        return (1, 2, 3)

    @node("Unlisted", "Unlisted", "samples", outputs=(Output("INT", is_list=True),))
    def return_five() -> Any:
        return 5

    bench.registry.add(definition_of(odd))
    bench.registry.add(definition_of(return_five))
    for name, words in (("Odd", "has 2 outputs, and its function gave 3"), ("Unlisted", "not iterable")):
        ending = execute({"1": n(name), "2": n("Show", value=["1", 0])}).outcome.ending
        assert isinstance(ending, Failed)
        assert words in ending.failure.message


def test_node_that_exits_fails_alone(bench: Bench, execute: Execute) -> None:
    """It is an error of the node like any other, of an ordinary one and of a concurrent one."""

    @node("Exit", "Exit", "samples", outputs=(Output("INT"),))
    def leave() -> int:
        raise SystemExit(3)

    @node("Leave", "Leave", "samples", outputs=(Output("INT"),))
    async def leave_concurrently() -> int:
        raise SystemExit(3)

    for made in (leave, leave_concurrently):
        bench.registry.add(definition_of(made))
        ending = execute({"1": n(definition_of(made).name), "2": n("Show", value=["1", 0])}).outcome.ending
        assert isinstance(ending, Failed)
        assert ending.failure.exception_type == "SystemExit"
