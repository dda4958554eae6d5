"""Why a workflow was refused, within bounds (J-08)."""

import json
from typing import Any

import pytest

from fairlead.domain.jobs.faults import InvalidWorkflow
from fairlead.domain.jobs.findings import findings_of, refusal_of_engine


def details(workflow: Any, *known: str) -> dict[str, Any]:
    """Return the details of a refusal there must be."""
    found = findings_of(json.dumps(workflow).encode(), known)
    assert found is not None
    assert found.code == "invalid_workflow"
    return dict(found.details)


def node(class_type: Any = "Known", **more: Any) -> dict[str, Any]:
    """Return a node."""
    return {"class_type": class_type, "inputs": {}, **more}


@pytest.mark.req("J-08")
@pytest.mark.parametrize("bad", [[], {"class_type": 1, "inputs": {}}, {"class_type": "Known"}, None])
@pytest.mark.parametrize("count", [49, 50, 51, 500])
def test_at_most_fifty_malformed_nodes_are_named(count: int, bad: Any) -> None:
    """Fifty are named, and all are counted where there are more."""
    told = details({**{str(number): bad for number in range(count)}, "good": node()}, "Known")
    assert len(told["node_errors"]) == min(50, count)
    assert "good" not in told["node_errors"]
    assert ("node_errors_truncated" in told) == ("malformed_node_count" in told) == (count > 50)
    assert told.get("malformed_node_count", count) == count


@pytest.mark.req("J-08")
@pytest.mark.parametrize("count", [49, 50, 51])
def test_at_most_fifty_nodes_that_wait_for_a_browser_are_named(count: int) -> None:
    """The same of nodes that wait for a browser, beside their classes."""
    told = details({str(number): node("RecordAudio") for number in range(count)}, "RecordAudio")
    assert told["browser_wait_node_classes"] == ["RecordAudio"]
    assert len(told["node_errors"]) == min(50, count)
    assert told.get("browser_wait_node_count") == (51 if count > 50 else None)
    assert told.get("node_errors_truncated", False) is (count > 50)


@pytest.mark.req("J-08")
@pytest.mark.parametrize("count", [49, 50, 51])
def test_at_most_fifty_nodes_of_unknown_classes_are_named(count: int) -> None:
    """The same of nodes whose class there is not."""
    told = details({str(number): node("Nobody") for number in range(count)}, "Known")
    assert told["unknown_node_classes"] == ["Nobody"]
    assert len(told["node_errors"]) == min(50, count)
    assert told.get("unknown_node_count") == (51 if count > 50 else None)


@pytest.mark.req("J-08")
def test_at_most_ten_classes_are_named() -> None:
    """Ten classes are listed; nodes of further ones are neither named nor counted."""
    ten = {f"a{number}": node(f"Nobody{number}") for number in range(10)}
    assert len(details(ten)["unknown_node_classes"]) == 10
    told = details({**ten, "b": node("Nobody10"), "c": node("Nobody3")})
    assert told["unknown_node_classes"] == [f"Nobody{number}" for number in range(10)]
    assert set(told["node_errors"]) == {*ten, "c"}
    assert "unknown_node_count" not in told
    many = {f"d{number}": node("Nobody0") for number in range(41)} | {
        f"e{number}": node("Last") for number in range(60)
    }
    told = details({**ten, **many})
    assert (told["unknown_node_count"], told["node_errors_truncated"], len(told["node_errors"])) == (51, True, 50)


@pytest.mark.req("J-08")
def test_kinds_of_refusal_come_in_order_and_never_mixed() -> None:
    """What is not a node comes before what waits, and that before unknown classes."""
    workflow = {"1": node("Nobody"), "2": node("RecordAudio"), "3": []}
    assert set(details(workflow)["node_errors"]) == {"3"}
    del workflow["3"]
    assert set(details(workflow)["node_errors"]) == {"2"}
    del workflow["2"]
    assert set(details(workflow)["node_errors"]) == {"1"}
    assert findings_of(b'{"1": {"class_type": "Known", "inputs": {}}}', {"Known"}) is None


@pytest.mark.parametrize(
    "workflow",
    [
        b"[]",
        b'{"1": {"class_type": "A", "inputs": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}}",
        b'{"1": {"class_type": ' + b"[" * 500 + b"]" * 500 + b', "inputs": {}}}',
        b'{"1": {"class_type": "\\ud800", "inputs": {}}}',
        b'{"1": {"\\ud800": 1, "class_type": "A", "inputs": {}}}',
        b'{"\\ud800": {}}',
        b'{"1": {"class_type": "A", "inputs": {}}, "1": 7}',
    ],
)
def test_any_workflow_is_explained_or_left_to_the_engine(workflow: bytes) -> None:
    """Whatever is in a workflow, it is explained or left to the engine's words."""
    found = findings_of(workflow, ())
    assert found is None or found.details["node_errors"]


@pytest.mark.req("J-08", "J-12")
def test_missing_asset_is_told_only_when_nothing_else_is_wrong() -> None:
    """The code is that of a missing file only where nothing else is wrong; of the engine's faults fifty are named."""
    gone = {
        "type": "custom_validation_failed",
        "message": "m",
        "details": "d",
        "extra_info": {"received_value": "a.png"},
    }
    other = {"type": "required_input_missing", "message": "m", "details": "", "extra_info": {}}

    def refusal_for(node_errors: dict[str, Any], *missing: str) -> tuple[str, Any]:
        found = refusal_of_engine(InvalidWorkflow({"message": "m"}, node_errors, frozenset(missing)))
        return found.code, found.details

    one = {"class_type": "LoadImage", "errors": [gone]}
    assert refusal_for({"1": one}, "a.png")[0] == "missing_asset"
    assert (
        refusal_for({"1": one})[0]
        == refusal_for({"1": {**one, "errors": [gone, other]}}, "a.png")[0]
        == "invalid_workflow"
    )
    assert refusal_for({}, "a.png") == ("invalid_workflow", {})
    code, many = refusal_for({str(number): one for number in range(51)}, "a.png")
    assert (code, len(many["node_errors"]), many["node_errors_truncated"]) == ("missing_asset", 50, True)
