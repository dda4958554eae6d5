"""Whole workflows of texts, numbers and decisions, as editors write them, executed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine.executions import n
from fairlead.domain.jobs.events import Event, Executing, Failed, Succeeded
from fairlead.engine.graph.cache import ResultCache
from fairlead.engine.graph.executor import Executor, Outcome, Work
from fairlead.engine.graph.graph import read_graph
from fairlead.engine.graph.validation import InvalidGraphError, validate
from fairlead.engine.nodes import logic, text, utilities
from fairlead.engine.nodes.files import Folders
from fairlead.engine.nodes.registry import Registry

_REGISTRY = Registry(text.NODES, logic.NODES, utilities.NODES)


def _execute(document: dict[str, Any]) -> tuple[Outcome, list[Event]]:
    """Validate and execute a workflow that reads and writes no files."""
    events: list[Event] = []

    async def run() -> Outcome:
        validated = await validate(read_graph(document), _REGISTRY)
        executor = Executor(_REGISTRY, ResultCache(1 << 20))
        try:
            work = Work(validated.graph, validated.outputs, Folders(Path(), Path(), Path()))
            return await executor.run(work, events.append)
        finally:
            executor.close()

    return asyncio.run(run()), events


def _output_of(document: dict[str, Any], node: str = "show") -> Any:
    outcome, _ = _execute(document)
    assert isinstance(outcome.ending, Succeeded), outcome.ending
    return outcome.ui[node]["text"]


def test_inputs_that_grow_arrive_by_their_letters() -> None:
    """Numbers reach an expression, and its result a template, by their letters."""
    document = {
        "width": n("PrimitiveInt", value=680),
        "sum": n("ComfyMathExpression", expression="round(a / b) * b", values__a=["width", 0], values__b=16),
        "text": n("StringFormat", f_string="{b}:{a:.1f}", values__a=["sum", 0], values__b=["sum", 1]),
        "show": n("PreviewAny", source=["text", 0]),
    }
    assert _output_of(document) == ["672:672.0"]


def test_template_without_values_is_filled_in() -> None:
    """A node whose inputs may grow, and did not, is given none."""
    document = {"text": n("StringFormat", f_string="plain"), "show": n("PreviewAny", source=["text", 0])}
    assert _output_of(document) == ["plain"]


def test_index_of_a_choice_reaches_the_node() -> None:
    """What an editor sends along with a choice of its user reaches the node, though it is not declared."""
    document = {
        "choice": n("CustomCombo", choice="b", option1="a", option2="b", index=1),
        "text": n("StringFormat", f_string="{a}{b}", values__a=["choice", 0], values__b=["choice", 1]),
        "show": n("PreviewAny", source=["text", 0]),
    }
    assert _output_of(document) == ["b1"]


@pytest.mark.parametrize(
    ("nodes", "shown"),
    [
        ({"last": n("TextToUppercase", texts="a")}, ['["A"]']),
        ({"last": n("TextToUppercase", texts=["list", 0])}, ['["ONE"]', '["TWO"]']),
        ({"last": n("MergeTextLists", texts=["list", 0])}, ['[["one", "two"]]']),
        (
            {"last": n("MergeTextLists", texts=["upper", 0]), "upper": n("TextToUppercase", texts=["list", 0])},
            ['[[["ONE"], ["TWO"]]]'],
        ),
        (
            {"last": n("StringLength", string=["prefixed", 0]), "prefixed": n("AddTextPrefix", texts="cat", prefix="")},
            ["1"],
        ),
    ],
)
def test_caption_nodes_hand_on_one_list_a_call(nodes: dict[str, Any], shown: list[str]) -> None:
    """Such a list is one value for the next node; ComfyUI 0.8.0 shows the same."""
    document = {
        "list": n("CreateList", inputs__input0="one", inputs__input1="two"),
        **nodes,
        "show": n("PreviewAny", source=["last", 0]),
    }
    assert [json.loads(each) for each in _output_of(document)] == [json.loads(each) for each in shown]


def test_caption_node_behind_another_fails() -> None:
    """It expects one text and is given a list, as in ComfyUI 0.8.0."""
    document = {
        "prefixed": n("AddTextPrefix", texts="cat", prefix="a "),
        "lower": n("TextToLowercase", texts=["prefixed", 0]),
        "show": n("PreviewAny", source=["lower", 0]),
    }
    outcome, _ = _execute(document)
    assert isinstance(outcome.ending, Failed)
    assert "'list' object has no attribute 'lower'" in str(outcome.ending)


def test_list_goes_on_one_by_one() -> None:
    """The items of a list pass the next node one by one, and are shown in order."""
    document = {
        "list": n("CreateList", inputs__input1=["second", 0], inputs__input0="first"),
        "second": n("PrimitiveString", value="second"),
        "upper": n("CaseConverter", string=["list", 0], mode="UPPERCASE"),
        "show": n("PreviewAny", source=["upper", 0]),
    }
    assert _output_of(document) == ["FIRST", "SECOND"]


@pytest.mark.parametrize(("words", "shown"), [("a red cat", "warm"), ("a blue cat", "cold")])
def test_switch_executes_one_side(words: str, shown: str) -> None:
    """Only the side that a pattern decides for is executed."""
    flags = {"case_insensitive": True, "multiline": False, "dotall": False}
    document = {
        "red": n("RegexMatch", string=words, regex_pattern=r"\bred\b", **flags),
        "warm": n("PrimitiveString", value="warm"),
        "cold": n("PrimitiveString", value="cold"),
        "switch": n("ComfySwitchNode", switch=["red", 0], on_true=["warm", 0], on_false=["cold", 0]),
        "show": n("PreviewAny", source=["switch", 0]),
    }
    outcome, events = _execute(document)
    assert outcome.ui["show"]["text"] == [shown]
    begun = {event.place.node for event in events if isinstance(event, Executing)}
    assert begun & {"warm", "cold"} == {shown}


def test_decisions_are_combined() -> None:
    """`And`, `Or` and `Not` take the results of comparisons."""
    compared = {"string_a": "Fairlead", "case_sensitive": False}
    document = {
        "starts": n("StringCompare", **compared, string_b="fair", mode="Starts With"),
        "ends": n("StringCompare", **compared, string_b="fair", mode="Ends With"),
        "and": n("ComfyAndNode", values__value0=["starts", 0], values__value1=["ends", 0]),
        "or": n("ComfyOrNode", values__value0=["starts", 0], values__value1=["ends", 0]),
        "not": n("ComfyNotNode", value=["and", 0]),
        "two": n("StringFormat", f_string="{a} {b}", values__a=["and", 0], values__b=["or", 0]),
        "text": n("StringFormat", f_string="{a} {b}", values__a=["two", 0], values__b=["not", 0]),
        "show": n("PreviewAny", source=["text", 0]),
    }
    assert _output_of(document) == ["False True True"]


def test_fault_of_an_expression_ends_the_job_with_its_reason() -> None:
    """What cannot be worked out ends the job at its node, with the sentence that says why."""
    document = {
        "sum": n("ComfyMathExpression", expression="a / 0", values__a=1),
        "show": n("PreviewAny", source=["sum", 0]),
    }
    outcome, _ = _execute(document)
    assert isinstance(outcome.ending, Failed)
    failure = outcome.ending.failure
    assert (failure.place.node, failure.node_type) == ("sum", "ComfyMathExpression")
    assert failure.exception_type == "ValidationError"
    assert "The expression divides by zero." in failure.message


def test_expression_needs_its_first_value() -> None:
    """At least one input must have grown."""
    document = {"sum": n("ComfyMathExpression", expression="1"), "show": n("PreviewAny", source=["sum", 0])}
    with pytest.raises(InvalidGraphError) as raised:
        _execute(document)
    (fault,) = raised.value.node_faults["sum"].faults
    assert (fault.type, fault.details) == ("required_input_missing", "values.a")
