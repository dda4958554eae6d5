"""JSON Pointers: how a place in a document is named and found."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.domain.pointers import MISSING, Pointer, as_text, find, find_all, first, is_plural, parse_pointer, put

DOCUMENT = {"a": {"b": [10, {"c": None}]}, "": 1, "x/y": 2, "m~n": 3, "0": "zero", "l": [[], {}]}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~01", max_size=3), inner, max_size=3),
)


@pytest.mark.parametrize(
    ("pointer", "value"),
    [("", DOCUMENT), ("/a/b/0", 10), ("/a/b/1/c", None), ("/", 1), ("/x~1y", 2), ("/m~0n", 3), ("/0", "zero")],
)
def test_pointer_follows_names_and_numbers_and_undoes_escapes(pointer: str, value: Any) -> None:
    """A pointer follows names and numbers, and undoes its escapes."""
    assert find(DOCUMENT, parse_pointer(pointer)) == value


@pytest.mark.parametrize("pointer", ["/b", "/a/b/2", "/a/b/-1", "/a/b/-", "/a/b/x", "/a/b/\u0661", "/a/b/0/c", "/l/9"])
def test_missing_value_is_told_apart_from_null(pointer: str) -> None:
    """Where a path ends early there is nothing, and nothing else is not None."""
    found = find(DOCUMENT, parse_pointer(pointer))
    assert found is MISSING
    assert repr(found) == "MISSING"


@pytest.mark.parametrize("text", ["a", "a/b", "#/a", " /a"])
def test_text_that_is_no_pointer_is_refused(text: str) -> None:
    """A pointer is empty or begins with a slash."""
    with pytest.raises(ValueError, match="starts with"):
        parse_pointer(text)


@given(JSON, st.lists(st.text("ab/~01", max_size=3), max_size=4))
def test_pointer_leads_where_its_steps_lead(document: Any, steps: list[str]) -> None:
    """Written with its escapes and read again, a path leads where its steps lead, and never raises."""
    text = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
    assert parse_pointer(text) == tuple(steps)
    assert as_text(tuple(steps)) == text
    assert find(document, parse_pointer(text)) is find(document, tuple(steps))


MEDIA = {
    "content": [
        {"role": "first_frame", "url": "a"},
        {"url": "b"},
        {"role": "reference", "url": "c"},
        "text",
        {"role": "first_frame"},
        {"role": "", "url": "d"},
    ],
    "*": {"x": 1},
    "pic_10": "g",
    "pic_2": "f",
    "pic": "e",
    "pages": [[{"n": 1}, {"n": 2}], [], [{"n": 3}]],
}


def all_of(text: str) -> list[tuple[str, Any]]:
    """Return where a pointer leads in MEDIA, and what stands there."""
    return [(as_text(place), value) for place, value in find_all(MEDIA, parse_pointer(text))]


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        (
            "/content/*/url",
            [("/content/0/url", "a"), ("/content/1/url", "b"), ("/content/2/url", "c"), ("/content/5/url", "d")],
        ),
        ("/content/*[role=first_frame]/url", [("/content/0/url", "a")]),
        ("/content/*[role=reference]/url", [("/content/2/url", "c")]),
        ("/content/*[role=]/url", [("/content/1/url", "b"), ("/content/5/url", "d")]),
        ("/content/*[role=nobody]", []),
        ("/pages/*/*/n", [("/pages/0/0/n", 1), ("/pages/0/1/n", 2), ("/pages/2/0/n", 3)]),
        ("/*/x", [("/*/x", 1)]),
        ("/pic*", [("/pic", "e"), ("/pic_2", "f"), ("/pic_10", "g")]),
        ("/content/3", [("/content/3", "text")]),
        ("/nothing/*", []),
        ("/content/*/url/*", []),
    ],
)
def test_star_and_filter_find_every_place_in_order(pointer: str, found: list[tuple[str, Any]]) -> None:
    """`*` is every item, a filter every item that says so, a name with it every member so called, each at its place."""
    assert all_of(pointer) == found


def test_pointer_with_a_star_or_a_filter_is_plural() -> None:
    """Plural is what has a star or a filter in it."""
    texts = ("/a/b", "/a/*", "/a/*[k=v]/b", "")
    assert [is_plural(parse_pointer(text)) for text in texts] == [False, True, True, False]


def test_first_is_the_first_place_in_the_document() -> None:
    """`first` is the first place in the document, and MISSING where there is none."""
    assert first(MEDIA, parse_pointer("/content/*[role=]/url")) == "b"
    assert first(MEDIA, parse_pointer("/content/0/url")) == "a"
    assert first(MEDIA, parse_pointer("/content/*/nothing")) is MISSING
    assert first(MEDIA, parse_pointer("/nothing")) is MISSING


PARTS = st.text("ab/~", max_size=2) | st.sampled_from(["0", "1", "2"])


@given(st.lists(PARTS, min_size=1, max_size=4).map(tuple), JSON)
def test_value_that_was_put_is_found(pointer: Pointer, value: Any) -> None:
    """Put somewhere in an empty document, a value is found there; or there is no way there, and that is said."""
    document: dict[str, Any] = {}
    try:
        put(document, pointer, value)
    except ValueError:
        assume(condition=False)
    assert find(document, pointer) == value
    assert list(find_all(document, pointer)) == [(pointer, value)]


@given(st.lists(st.tuples(st.lists(PARTS, min_size=1, max_size=3).map(tuple), st.integers()), max_size=5))
def test_last_value_put_wins(puts: list[tuple[Pointer, int]]) -> None:
    """Whatever a document holds already, the last value put is found, unless the way was blocked."""
    document: dict[str, Any] = {}
    for pointer, value in puts:
        try:
            put(document, pointer, value)
        except ValueError:
            continue
        assert find(document, pointer) == value


def test_number_grows_an_array_and_a_name_an_object() -> None:
    """A number grows an array by one item, and a name an object."""
    document: dict[str, Any] = {}
    for place, value in (("/a/0/b", 1), ("/a/1", 2), ("/a/0/c", 3), ("/a/1", 4), ("/0", 5)):
        put(document, parse_pointer(place), value)
    assert document == {"a": [{"b": 1, "c": 3}, 4], "0": 5}


@pytest.mark.parametrize("place", ["/text/x", "/list/2", "/list/x", "/list/-1", "/list/0/x", "/list/\u0661"])
def test_value_with_no_room_for_it_is_refused(place: str) -> None:
    """A way through a scalar, past the end of an array or by name into one is no way."""
    document = {"text": "t", "list": [5]}
    with pytest.raises(ValueError, match="nothing can be put at"):
        put(document, parse_pointer(place), 1)
    assert document == {"text": "t", "list": [5]}
