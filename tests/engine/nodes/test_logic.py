"""Nodes that decide."""

from typing import Any

import pytest

from fairlead.engine.nodes.logic import both, choose_side, either, negate
from fairlead.engine.nodes.node import definition_of


@pytest.mark.parametrize(
    ("values", "all_true", "any_true"),
    [
        ([True], True, True),
        ([False], False, False),
        ([True, False], False, True),
        ([1, "text", [0]], True, True),
        ([0, "", [], None, 0.0], False, False),
    ],
)
def test_and_and_or_combine_truth_values(values: list[Any], all_true: bool, any_true: bool) -> None:  # noqa: FBT001 -- a row of a table
    """`And` is true when all values are true, `Or` when one is; zero and empty values are false."""
    grown = {f"value{number}": value for number, value in enumerate(values)}
    assert (both(grown), either(grown)) == (all_true, any_true)


def test_not_negates_truth() -> None:
    """What is true becomes false, what is empty true; the answer is a boolean."""
    values: list[Any] = [True, False, 0, "x", []]
    assert [negate(value) for value in values] == [False, True, True, False, True]


def test_switch_takes_the_side_it_is_set_to() -> None:
    """The switch gives the side it is set to."""
    assert (choose_side(True, "no", "yes"), choose_side(False, "no", "yes")) == ("yes", "no")  # noqa: FBT003 -- a node's input


def test_switch_needs_only_one_side() -> None:
    """Only the side that is taken is needed, and none once it is known."""
    needed = definition_of(choose_side).needed
    assert needed is not None
    assert needed(switch=True, on_false=None, on_true=None) == ["on_true"]
    assert needed(switch=False, on_false=None, on_true=None) == ["on_false"]
    assert needed(switch=True, on_false=None, on_true=1) == []
    assert needed(switch=False, on_false=0, on_true=None) == []


def test_sides_of_the_switch_are_lazy() -> None:
    """Both sides are lazy; the switch itself is not."""
    lazy = {given.name: given.is_lazy for given in definition_of(choose_side).inputs}
    assert lazy == {"switch": False, "on_false": True, "on_true": True}
