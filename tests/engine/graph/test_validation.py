"""What is wrong with a graph is said of every node, in the shapes that editors know; what is right is made."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pytest

from engine import sample_nodes
from engine.executions import chain, n
from fairlead.engine.graph.faults import At, NodeFaults, value_not_in_list
from fairlead.engine.graph.graph import read_graph, write_graph
from fairlead.engine.graph.validation import InvalidGraphError, Validated, validate
from fairlead.engine.nodes.registry import Registry

_REGISTRY: Final = Registry(sample_nodes.NODES)


def _validate(document: Mapping[str, Any], targets: Iterable[str] | None = None) -> Validated:
    return asyncio.run(validate(read_graph(document), _REGISTRY, targets))


def _refusal_of(document: Mapping[str, Any], targets: Iterable[str] | None = None) -> InvalidGraphError:
    with pytest.raises(InvalidGraphError) as caught:
        _validate(document, targets)
    return caught.value


def _faults(found: Mapping[str, NodeFaults]) -> dict[str, list[tuple[str, str]]]:
    return {node: [(fault.type, fault.details) for fault in faults.faults] for node, faults in found.items()}


def _one(**inputs: Any) -> list[tuple[str, str]]:
    """The faults of one node of every kind of constant, some of them changed."""
    fine = {"whole": 1, "part": 0.5, "words": "w", "flag": True, "choice": "a"}
    given = {name: value for name, value in {**fine, **inputs}.items() if value is not ...}
    document = {"1": n("Every", **given), "2": n("Number", value=1), "3": n("Count", most=2)}
    return _faults(_refusal_of(document).node_faults)["1"]


def test_constants_are_read_as_their_types() -> None:
    """They are read as Python reads them: the text "false" is true; the graph then holds what was read."""
    inputs = {"whole": "7", "part": "0.25", "words": 5, "flag": "false", "choice": "b", "options": {"__value__": ["x"]}}
    graph = _validate({"1": {"class_type": "Every", "inputs": inputs}}).graph
    expected = {"whole": 7, "part": 0.25, "words": "5", "flag": True, "choice": "b", "options": {"__value__": ["x"]}}
    assert write_graph(graph)["1"]["inputs"] == expected
    assert write_graph(_validate({"1": n("Every", **{**inputs, "whole": 2.9})}).graph)["1"]["inputs"]["whole"] == 2


def test_constant_of_another_type_that_is_equal_is_converted_all_the_same() -> None:
    """7 is 7.0 and 1 is true to a comparison, and not to a node that divides or prints what it is given."""
    others = {"words": "x", "choice": "b", "options": {"__value__": ["x"]}}
    inputs = _validate({"1": n("Every", whole=7.0, part=1, flag=1, **others)}).graph["1"].inputs
    found = [(type(inputs[name]), inputs[name]) for name in ("whole", "part", "flag")]
    assert found == [(int, 7), (float, 1.0), (bool, True)]


@pytest.mark.parametrize(
    ("inputs", "type_", "details"),
    [
        ({"whole": ...}, "required_input_missing", "whole"),
        ({"whole": 11}, "value_bigger_than_max", "whole"),
        ({"whole": -1}, "value_smaller_than_min", "whole"),
        ({"part": 1.5}, "value_bigger_than_max", "part"),
        ({"choice": "c"}, "value_not_in_list", "choice: 'c' not in ['a', 'b']"),
        ({"options": {"__value__": ["x", "z"]}}, "value_not_in_list", "options: '['x', 'z']' not in ['x', 'y']"),
        ({"options": "z"}, "value_not_in_list", "options: 'z' not in ['x', 'y']"),
        ({"whole": ["2"]}, "bad_linked_input", "whole"),
        ({"whole": ["2", 0, 0]}, "bad_linked_input", "whole"),
        ({"words": ["2", 0]}, "return_type_mismatch", "words, received_type(INT) mismatch input_type(STRING)"),
        ({"whole": ["99", 0]}, "exception_during_validation", "'99'"),
        ({"whole": ["2", 1]}, "exception_during_validation", "list index out of range"),
        ({"whole": ["2", -1]}, "exception_during_validation", "list index out of range"),
    ],
)
def test_each_fault_has_its_type_and_details(inputs: dict[str, Any], type_: str, details: str) -> None:
    """Each fault has the type and the details that clients read."""
    assert _one(**inputs) == [(type_, details)]


@pytest.mark.parametrize("value", ["x", None, {}, "1" * 5000, float("inf")])
def test_constant_that_is_no_number_is_refused(value: Any) -> None:
    """Whatever cannot be read is told with what was received, shortened."""
    faults = _one(whole=value)
    assert [type_ for type_, _ in faults] == ["invalid_input_type"]
    assert len(faults[0][1]) < 3000


def test_fault_is_told_whole() -> None:
    """Type, message, details, and the facts of the input, as editors read them; and the outputs that depend on it."""
    error = _refusal_of({"1": n("Number", value=-5000), "2": n("Show", value=["1", 0]), "3": n("Pass", value=["1", 0])})
    config = ["INT", {"default": 0, "min": -1000, "max": 1_000_000}]
    assert {node: faults.as_dict() for node, faults in error.node_faults.items()} == {
        "1": {
            "errors": [
                {
                    "type": "value_smaller_than_min",
                    "message": "Value -5000 smaller than min of -1000",
                    "details": "value",
                    "extra_info": {"input_name": "value", "input_config": config, "received_value": -5000},
                }
            ],
            "dependent_outputs": ["2", "3"],
            "class_type": "Number",
        }
    }
    assert error.fault.type == "prompt_outputs_failed_validation"


def test_every_fault_is_told() -> None:
    """Every node and every input has its own; the whole's details are of the output nodes alone."""
    error = _refusal_of(
        {"1": n("Number"), "2": n("Add", b="x"), "3": n("Every", whole=["1", 0], part=["2", 0], words=1)}
    )
    assert _faults(error.node_faults) == {
        "1": [("required_input_missing", "value")],
        "2": [
            ("required_input_missing", "a"),
            ("invalid_input_type", "b, x, invalid literal for int() with base 10: 'x'"),
        ],
        "3": [
            ("return_type_mismatch", "part, received_type(INT) mismatch input_type(FLOAT)"),
            ("required_input_missing", "flag"),
            ("required_input_missing", "choice"),
        ],
    }
    assert error.fault.details.splitlines() == [
        "Return type mismatch between linked nodes: part, received_type(INT) mismatch input_type(FLOAT)",
        "Required input is missing: flag",
        "Required input is missing: choice",
    ]


def test_bad_output_leaves_the_good_ones() -> None:
    """The good ones are made, in their order, and the bad ones reported."""
    document = {
        "bad": n("Show", value=["gone", 0]),
        "good": n("Show", value=["1", 0]),
        "1": n("Number", value=1),
        "inner": n("Add", a=["gone", 0], b=1),
        "also bad": n("Show", value=["inner", 0]),
        "also good": n("Pass", value=["1", 0]),
    }
    validated = _validate(document)
    assert validated.outputs == ("good", "also good")
    assert _faults(validated.node_faults) == {
        "bad": [("exception_during_validation", "'gone'")],
        "inner": [("exception_during_inner_validation", "'gone'")],
    }
    assert validated.node_faults["inner"].dependent_outputs == ["also bad"]


def test_unneeded_nodes_are_not_validated() -> None:
    """Only its class must be there."""
    loose = {"loose": n("Add", a=["gone", 7], b="x")}
    assert _validate({**chain(1), **loose}).node_faults == {}
    assert _refusal_of({**chain(1), "loose": n("Gone")}).fault.as_dict() == {
        "type": "missing_node_type",
        "message": "Node 'Gone' is of the class 'Gone', which is not installed.",
        "details": "Node ID '#loose'",
        "extra_info": {"node_id": "loose", "class_type": "Gone", "node_title": "Gone"},
    }
    assert _refusal_of({"1": {"inputs": {}, "_meta": {"title": "Mine"}}}).fault.extra_info["node_title"] == "Mine"


@pytest.mark.parametrize(("document", "targets"), [({}, None), ({"1": n("Count", most=1)}, None), (chain(1), ["1"])])
def test_graph_with_nothing_to_make_is_refused(document: dict[str, Any], targets: list[str] | None) -> None:
    """No nodes, no output among them, or none among the targets."""
    assert _refusal_of(document, targets).fault.type == "prompt_no_outputs"


def test_only_targets_are_made() -> None:
    """Only they are validated and made."""
    document = {**chain(1), "bad": n("Show", value=["gone", 0]), "other": n("Show", value=["0", 0])}
    validated = _validate(document, ["show", "unknown"])
    assert (validated.outputs, validated.node_faults) == (("show",), {})


def test_every_node_of_a_cycle_is_told() -> None:
    """Every node on the way round has the fault, with the way; what only needs it has none of its own."""
    document = {
        "1": n("Add", a=["2", 0], b=1),
        "2": n("Add", a=["1", 0], b=1),
        "show": n("Show", value=["2", 0]),
        "self": n("Pass", value=["self", 0]),
        "fine": n("Show", value=5),
    }
    validated = _validate(document)
    assert validated.outputs == ("fine",)
    assert _faults(validated.node_faults) == {
        "1": [("dependency_cycle", "2 (Add) -> 1 (Add) -> 2 (Add)")],
        "2": [("dependency_cycle", "2 (Add) -> 1 (Add) -> 2 (Add)")],
        "self": [("dependency_cycle", "self (Pass) -> self (Pass)")],
    }
    assert validated.node_faults["1"].faults[0].extra_info == {"node_id": "1", "cycle_nodes": ["2", "1", "2"]}
    assert validated.node_faults["1"].dependent_outputs == ["show"]


def test_deep_graph_takes_no_deep_stack() -> None:
    """A chain of 5,000 nodes, one whose first node is at fault, and a long ring: Python's stack has 1,000 frames."""
    document = chain(5_000)
    assert _validate(document).outputs == ("show",)
    document["0"] = n("Number")
    assert _refusal_of(document).node_faults["0"].dependent_outputs == ["show"]
    ring = {**chain(2_500), "0": n("Add", a=["2500", 0], b=1)}
    error = _refusal_of(ring)
    assert len(error.node_faults) == 1000
    assert len(error.node_faults["0"].faults[0].extra_info["cycle_nodes"]) < 40


def test_dependent_outputs_are_bounded() -> None:
    """A node that everything depends on names the first of them; time and memory stay in bounds."""
    document = {"0": n("Pass"), **{str(index): n("Pass", value=[str(index - 1), 0]) for index in range(1, 5000)}}
    assert len(_refusal_of(document).node_faults["0"].dependent_outputs) == 32


def test_check_of_a_class_is_asked() -> None:
    """Its own check says what is wrong in its own words, and lifts the bounds of what it names."""
    assert _validate({"1": n("Even", value=100)}).outputs == ("1",)
    assert _faults(_refusal_of({"1": n("Even", value=3)}).node_faults) == {
        "1": [("custom_validation_failed", "value - 3 is odd")]
    }
    assert _validate({"1": n("Even", value=["2", 0]), "2": n("Number", value=3)}).outputs == ("1",)


def test_inputs_that_grow_are_checked() -> None:
    """The first is required, the others are not; each is checked as declared; more than may be is dropped."""
    assert _faults(_refusal_of({"1": n("Grow")}).node_faults) == {"1": [("required_input_missing", "values.value0")]}
    assert _faults(_refusal_of({"1": n("Grow", values__value0="x")}).node_faults)["1"][0][0] == "invalid_input_type"
    assert _validate({"1": n("Grow", values__value0=1, values__value9="x")}).outputs == ("1",)


def test_inputs_of_a_choice_are_checked() -> None:
    """They are those of the key that is chosen, and the key is one of those there are."""
    assert _faults(_refusal_of({"1": n("Shape", kind="circle")}).node_faults) == {
        "1": [("required_input_missing", "kind.radius")]
    }
    wrong = _faults(_refusal_of({"1": n("Shape", kind="circle", kind__radius=0)}).node_faults)
    assert wrong == {"1": [("value_smaller_than_min", "kind.radius")]}
    assert _validate({"1": n("Shape", kind="point", kind__radius=0)}).outputs == ("1",)
    unknown = _faults(_refusal_of({"1": n("Shape", kind="line")}).node_faults)
    assert unknown == {"1": [("value_not_in_list", "kind: 'line' not in ['circle', 'point']")]}
    assert _faults(_refusal_of({"1": n("Shape")}).node_faults) == {"1": [("required_input_missing", "kind")]}


def test_long_list_of_choices_is_not_repeated() -> None:
    """A list of more than twenty choices is replaced by their number, and the declaration is left out."""
    at = At("name", ["COMBO", {"options": list(range(21))}])
    fault = value_not_in_list(at, "x", list(range(21)))
    assert fault.details == "name: 'x' not in (list of length 21)"
    assert fault.extra_info["input_config"] is None
