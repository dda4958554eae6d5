"""A node may put a graph in its place, which is executed like any other."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest

from engine.conftest import Execute
from engine.executions import Bench, n
from fairlead.domain.jobs.events import Failed, Failure, Finished, Place, Succeeded
from fairlead.engine.graph import live
from fairlead.engine.nodes.node import Output, Result, definition_of, integer, node, socket


def _failure(execute: Execute, graph: dict[str, Any]) -> Failure:
    ending = execute(graph).outcome.ending
    assert isinstance(ending, Failed)
    return ending.failure


def test_graph_in_place_of_a_node_is_executed(execute: Execute) -> None:
    """Its nodes have ids of their own, below the node and the call, and the node ends when they have."""
    seen = execute({"t": n("Times", value=5, steps=2), "s": n("Show", value=["t", 0])})
    assert seen.output_of("s") == [7]
    assert seen.executed == ["t", "t.0.0.0", "t.0.0.1", "t.0.0.2", "s"]
    assert [event.place.node for event in seen.of(Finished)] == ["t.0.0.0", "t.0.0.1", "t.0.0.2", "t", "s"]


def test_each_call_may_give_a_graph_or_a_value(execute: Execute) -> None:
    """Each call may give a graph or a value; their order stays."""
    seen = execute(
        {
            "steps": n("Count", most=3),
            "t": n("Times", value=10, steps=["steps", 0]),
            "s": n("Show", value=["t", 0]),
        }
    )
    assert seen.output_of("s") == [10, 11, 12]
    assert {node.rpartition(".")[0] for node in seen.executed if "." in node} == {"t.1.0", "t.2.0"}


def test_nested_graphs_are_shown_where_the_first_is(execute: Execute) -> None:
    """A hundred deep, each in place of the one before; all are shown where the first is."""
    seen = execute({"c": n("Countdown", value=100), "s": n("Show", value=["c", 0])})
    assert seen.output_of("s") == [0]
    deepest = max((event.place for event in seen.of(Finished)), key=lambda place: len(place.node))
    assert (deepest.display, deepest.real_node, deepest.node.count("inner")) == ("c", "c", 100)
    assert deepest.parent == deepest.node.removesuffix(".0.0.inner")


def test_nested_expansion_is_bounded(execute: Execute) -> None:
    """After a thousand graphs within each other it is an error of the node that goes on."""
    failure = _failure(execute, {"c": n("Countdown", value=10_000), "s": n("Show", value=["c", 0])})
    assert failure.exception_type == "Exception"
    assert failure.place.real_node == "c"


def test_nodes_of_an_expansion_are_counted(execute: Execute, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nodes make counts as what was submitted does."""
    monkeypatch.setattr(live, "NODES_MAX", 100)
    failure = _failure(execute, {"t": n("Times", value=1, steps=200), "s": n("Show", value=["t", 0])})
    assert "at most 100 nodes" in failure.message


def test_output_of_an_expansion_is_shown(execute: Execute) -> None:
    """It is executed though the node's values do not need it."""
    seen = execute({"g": n("Showing", value=4), "s": n("Show", value=["g", 0])})
    assert (seen.output_of("g.0.0.show"), seen.output_of("s")) == ([4], [4])
    assert seen.outcome.places["g.0.0.show"] == Place("g.0.0.show", "g", "g", "g")


def test_replaced_node_is_cached(execute: Execute) -> None:
    """The next execution knows its result, and neither it nor its graph is executed; its parts are known as well."""
    execute({"t": n("Times", value=5, steps=3), "s": n("Show", value=["t", 0])})
    assert execute({"x": n("Times", value=5, steps=3), "y": n("Show", value=["x", 0])}).executed == []
    assert execute({"x": n("Times", value=5, steps=4), "y": n("Show", value=["x", 0])}).executed == [
        "x",
        "x.0.0.4",
        "y",
    ]


def test_cycle_made_by_an_expansion_is_an_error(execute: Execute) -> None:
    """It is a cycle that nobody could see before, and is blamed on the node that was submitted."""
    failure = _failure(execute, {"c": n("Circular"), "s": n("Show", value=["c", 0])})
    assert (failure.exception_type, failure.place.node) == ("graph.DependencyCycleError", "c")
    assert failure.message == "Nodes need each other: c -> c.0.0.inner -> c"


def _gives(graph: Any, *values: Any) -> Callable[..., Any]:
    @node("Gives", "Gives", "samples", outputs=(Output("*"),) * len(values))
    def gives(value: Annotated[Any, socket("*", rawLink=True)] = None) -> Result:
        del value
        return Result(values, expand=graph)

    return gives


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        ({"a": n("Gone")}, "node g.0.0.a is of no class there is"),
        ({"a": {"class_type": "Number"}}, "node g.0.0.a is of no class there is"),
        ({"a": "Number"}, "node g.0.0.a is of no class there is"),
        ({"a": n("Add", a=["gone", 0], b=1)}, "node g.0.0.a links to gone, which is not there"),
    ],
)
def test_malformed_expansion_is_the_nodes_error(bench: Bench, execute: Execute, graph: Any, words: str) -> None:
    """It is the node's error, in words."""
    bench.registry.add(definition_of(_gives(graph, ["a", 0])))
    failure = _failure(execute, {"g": n("Gives"), "s": n("Show", value=["g", 0])})
    assert failure.message == words


def test_link_to_a_missing_output_of_an_expansion_is_an_error(bench: Bench, execute: Execute) -> None:
    """It is an error, and not the last output."""
    for slot in (1, -1):
        made = _gives({"a": n("Number", value=1)}, ["a", slot])
        bench.registry._interfaces.pop("Gives", None)
        bench.registry.add(definition_of(made))
        failure = _failure(execute, {"g": n("Gives"), "s": n("Show", value=["g", 0])})
        assert failure.exception_type == "IndexError"


def test_raw_link_is_given_unevaluated(bench: Bench, execute: Execute) -> None:
    """The node is given the link itself, and its graph can lead there; what it leads to is executed only then."""

    @node("Lead", "Lead", "samples", outputs=(Output("INT"),))
    def lead(value: Annotated[Any, socket("*", rawLink=True)], b: Annotated[int, integer(1)]) -> Result:
        return Result((["sum", 0],), expand={"sum": n("Add", a=value, b=b)})

    bench.registry.add(definition_of(lead))
    seen = execute({"1": n("Number", value=5), "l": n("Lead", value=["1", 0], b=2), "s": n("Show", value=["l", 0])})
    assert seen.output_of("s") == [7]
    assert seen.executed == ["l", "1", "l.0.0.sum", "s"]


def test_ids_that_a_pack_has_numbered_are_kept(bench: Bench, execute: Execute) -> None:
    """An id below the node and the call stays; a node may say where it is shown; a list of other things is a value."""
    graph = {"g.0.3.a": {**n("Number", value=1), "override_display_id": "elsewhere"}}
    bench.registry.add(definition_of(_gives(graph, ["g.0.3.a", 0], ["words", 5])))
    seen = execute({"g": n("Gives"), "s": n("Show", value=["g", 0]), "t": n("Show", value=["g", 1])})
    assert (seen.output_of("s"), seen.output_of("t")) == ([1], [["words", 5]])
    assert Place("g.0.3.a", "elsewhere", "g", "g") in [event.place for event in seen.of(Finished)]
    assert isinstance(seen.outcome.ending, Succeeded)
