"""JSON Pointers: how a place in a document is named and found."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.pointers import MISSING, find, parse_pointer

DOCUMENT = {"a": {"b": [10, {"c": None}]}, "": 1, "x/y": 2, "m~n": 3, "0": "zero", "l": [[], {}]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~01", max_size=3), inner, max_size=3),
)


@pytest.mark.parametrize(
    ("pointer", "value"),
    [("", DOCUMENT), ("/a/b/0", 10), ("/a/b/1/c", None), ("/", 1), ("/x~1y", 2), ("/m~0n", 3), ("/0", "zero")],
)
def test_a_value_is_not_found(pointer: str, value: Any) -> None:
    """A pointer follows names and numbers, and undoes its escapes."""
    assert find(DOCUMENT, parse_pointer(pointer)) == value


@pytest.mark.parametrize("pointer", ["/b", "/a/b/2", "/a/b/-1", "/a/b/-", "/a/b/x", "/a/b/\u0661", "/a/b/0/c", "/l/9"])
def test_a_value_is_made_up(pointer: str) -> None:
    """Where a path ends early there is nothing, and nothing else is not None."""
    found = find(DOCUMENT, parse_pointer(pointer))
    assert found is MISSING
    assert repr(found) == "MISSING"


@pytest.mark.parametrize("text", ["a", "a/b", "#/a", " /a"])
def test_a_text_that_is_no_pointer_is_read(text: str) -> None:
    """A pointer is empty or begins with a slash."""
    with pytest.raises(ValueError, match="starts with"):
        parse_pointer(text)


@given(JSON, st.lists(st.text("ab/~01", max_size=3), max_size=4))
def test_a_pointer_leads_elsewhere_than_its_steps(document: Any, steps: list[str]) -> None:
    """Written with its escapes and read again, a path leads where its steps lead, and never raises."""
    text = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
    assert parse_pointer(text) == tuple(steps)
    assert find(document, parse_pointer(text)) is find(document, tuple(steps))
