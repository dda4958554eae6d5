"""Nodes that work on texts."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from fairlead.engine.nodes import text as nodes
from fairlead.engine.texts.bounds import MOST_CHARACTERS

_HALF = "x" * (MOST_CHARACTERS // 2)


def test_texts_are_joined_with_their_delimiter() -> None:
    """The delimiter stands between the texts, and only there."""
    assert nodes.concatenate("a", "b", ", ") == "a, b"
    assert nodes.concatenate("", "", "-") == "-"


@pytest.mark.parametrize(
    ("start", "end", "part"),
    [(0, 3, "abc"), (2, 4, "cd"), (-2, 6, "ef"), (0, -1, "abcde"), (4, 2, ""), (3, 99, "def"), (0, 0, "")],
)
def test_substring_is_cut_as_python_cuts(start: int, end: int, part: str) -> None:
    """The end is left out, negative positions count from behind, and beyond the end there is nothing."""
    assert nodes.substring("abcdef", start, end) == part


def test_length_is_counted_in_characters() -> None:
    """A length is in characters."""
    assert [nodes.length(text) for text in ("", "é", "\U0001f600", "a\nb")] == [0, 1, 1, 3]


def test_named_end_is_trimmed() -> None:
    """White space goes from the end that is named."""
    trimmed = [nodes.trim(" \ta b\n", mode) for mode in ("Both", "Left", "Right")]
    assert trimmed == ["a b", "a b\n", " \ta b"]


def test_letters_change_as_the_mode_says() -> None:
    """Each mode changes letters as its name is written."""
    modes = ("UPPERCASE", "lowercase", "Capitalize", "Title Case")
    changed = [nodes.convert_case("an OLD straße", mode) for mode in modes]
    assert changed == ["AN OLD STRASSE", "an old straße", "An old straße", "An Old Straße"]


@pytest.mark.parametrize(
    ("substring", "exactly", "loosely"),
    [("cat", False, True), ("Cat", True, True), ("", True, True), ("t c", False, False)],
)
def test_contained_text_is_found(substring: str, exactly: bool, loosely: bool) -> None:  # noqa: FBT001 -- a row of a table
    """Case counts when it is to count."""
    assert nodes.contains("A Cat", substring, case_sensitive=True) is exactly
    assert nodes.contains("A Cat", substring, case_sensitive=False) is loosely


@pytest.mark.parametrize(
    ("second", "mode", "exactly", "loosely"),
    [
        ("Hello", "Starts With", True, True),
        ("hello", "Starts With", False, True),
        ("World", "Starts With", False, False),
        ("World", "Ends With", True, True),
        ("WORLD", "Ends With", False, True),
        ("Hello World", "Equal", True, True),
        ("hello world", "Equal", False, True),
        ("Hello", "Equal", False, False),
    ],
)
def test_texts_are_compared_as_the_mode_says(second: str, mode: str, exactly: bool, loosely: bool) -> None:  # noqa: FBT001 -- same
    """The second text is looked for at the start, at the end, or as the whole of the first."""
    assert nodes.compare("Hello World", second, mode, case_sensitive=True) is exactly
    assert nodes.compare("Hello World", second, mode, case_sensitive=False) is loosely


def test_every_occurrence_is_replaced() -> None:
    """Every occurrence goes, from the left; an empty one stands before each character and at the end."""
    assert nodes.replace("aaa", "aa", "b") == "ba"
    assert nodes.replace("a.c", ".", "") == "ac"
    assert nodes.replace("ab", "", "-") == "-a-b-"


_GROWING: Final[Mapping[str, Callable[[], object]]] = {
    "joined": lambda: nodes.concatenate(_HALF, _HALF, "-"),
    "replaced": lambda: nodes.replace("a" * 100_000, "a", "b" * 100_000),
    "filled between": lambda: nodes.replace("a" * 100_000, "", "b" * 100_000),
    "replaced in captions": lambda: nodes.replace_text("a" * 100_000, "a", "b" * 100_000),
    "begun": lambda: nodes.add_prefix(_HALF, _HALF + "x"),
    "ended": lambda: nodes.add_suffix(_HALF, _HALF + "x"),
}


@pytest.mark.parametrize("way", _GROWING)
def test_replaced_text_is_bounded(way: str) -> None:
    """What would be longer than a text may be is refused before it is made."""
    with pytest.raises(ValueError, match="is the most"):
        _GROWING[way]()


# --- Regular expressions ----------------------------------------------------------------------------------------------


def _match(string: str, pattern: str, **flags: bool) -> bool:
    return nodes.match_pattern(
        string, pattern, **{"case_insensitive": True, "multiline": False, "dotall": False, **flags}
    )


def _extract(string: str, pattern: str, mode: str, group_index: int = 1) -> str:
    return nodes.extract_pattern(
        string, pattern, mode, case_insensitive=True, multiline=False, dotall=False, group_index=group_index
    )


def test_pattern_matches_by_its_flags() -> None:
    """A pattern matches anywhere, by its flags; a faulty one does not match."""
    assert _match("one Two", "two")
    assert not _match("one Two", "two", case_insensitive=False)
    assert not _match("a\nb", "^b$")
    assert _match("a\nb", "^b$", multiline=True)
    assert not _match("a\nb", "a.b")
    assert _match("a\nb", "a.b", dotall=True)
    assert not _match("text", "(")


@pytest.mark.parametrize(
    ("pattern", "mode", "group", "found"),
    [
        (r"\d+", "First Match", 1, "12"),
        (r"\d+", "All Matches", 1, "12\n7\n30"),
        (r"(\d+)(px|cm)", "First Match", 1, "12px"),
        (r"(\d+)(px|cm)", "All Matches", 1, "12\n30"),
        (r"(\d+)(px|cm)", "First Group", 1, "12"),
        (r"(\d+)(px|cm)", "First Group", 2, "px"),
        (r"(\d+)(px|cm)", "First Group", 0, "12px"),
        (r"(\d+)(px|cm)", "First Group", 3, ""),
        (r"(\d+)(px|cm)", "All Groups", 2, "px\ncm"),
        (r"(\d+)(px|cm)", "All Groups", 0, "12px\n30cm"),
        (r"(\d+)(px|cm)", "All Groups", 3, ""),
        (r"(\d+)(px|cm)?", "All Groups", 2, "px\n\ncm"),
        (r"\d+", "First Group", 1, ""),
        ("none", "First Match", 1, ""),
        ("none", "All Matches", 1, ""),
        ("(", "All Matches", 1, ""),
    ],
)
def test_pattern_extracts_what_is_asked_for(pattern: str, mode: str, group: int, found: str) -> None:
    """The whole, every match on its line, or a group; what there is not is empty."""
    assert _extract("a 12px, b 7, c 30cm", pattern, mode, group) == found


def test_pattern_replaces_its_matches() -> None:
    """All matches go, or as many as are asked for; groups can be put back; flags not given have their defaults."""
    assert nodes.replace_pattern("A1 b2", r"([a-z])(\d)", r"\2\1") == "1A 2b"
    assert nodes.replace_pattern("A1 b2", "[a-z]", "-", case_insensitive=False) == "A1 -2"
    assert nodes.replace_pattern("aaa", "a", "b", count=2) == "bba"
    assert nodes.replace_pattern("a\nb", "^", "> ", multiline=True) == "> a\n> b"
    assert nodes.replace_pattern("a\nb", "a.b", "x", dotall=True) == "x"
    assert nodes.replace_pattern("a\nb", "a.b", "x") == "a\nb"


def test_replacing_with_a_faulty_pattern_is_an_error() -> None:
    """Replacing with a pattern that is none is an error."""
    with pytest.raises(ValueError, match="The pattern cannot be used"):
        nodes.replace_pattern("text", "(", "")


# --- Values as text ---------------------------------------------------------------------------------------------------


def test_template_is_filled_by_its_letters() -> None:
    """Places are filled with values by their letters."""
    assert nodes.fill_template({"a": 1, "b": "x"}, "{b}_{a:04d}") == "x_0001"
    assert nodes.fill_template({}, "plain") == "plain"


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ('{"key": "value", "other": 1}', "value"),
        ('{"key": 1.5}', "1.5"),
        ('{"key": true}', "True"),
        ('{"key": ""}', ""),
        ('{"key": null}', ""),
        ('{"other": 1}', ""),
        ('[{"key": 1}]', ""),
        ('"key"', ""),
        ("", ""),
        ("no JSON", ""),
        ('Here it is:\n```json\n{"key": "fenced"}\n```', "fenced"),
        ('{not this} but {"key": "that"}', "that"),
        ('{"key": "cut', ""),
    ],
)
def test_key_is_found_in_json(written: str, found: str) -> None:
    """The value of the key is text; no object, no key and null are empty; words around an object are passed over."""
    assert nodes.extract_from_json(written, "key") == found


def test_broken_json_is_given_up() -> None:
    """Ten thousand beginnings without an end, and brackets without number, are given up."""
    assert nodes.extract_from_json('{"a":' * 10_000, "a") == ""
    assert nodes.extract_from_json("[" * 100_000, "a") == ""
    assert nodes.extract_from_json('{"a": ' + "1" * 5000 + "}", "a") == ""


def test_values_are_written_as_json() -> None:
    """Lists and dictionaries are JSON, on one line with an indent of 0."""
    assert nodes.array_to_text([1, "a", None], 0) == '[1, "a", null]'
    assert nodes.array_to_text([1], 2) == "[\n  1\n]"
    assert nodes.dictionary_to_text({"a": [True]}, 0) == '{"a": [true]}'
    assert nodes.dictionary_to_text({"a": 1}, 4) == '{\n    "a": 1\n}'


# --- Captions of data sets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (nodes.add_prefix("cat", "a "), ["a cat"]),
        (nodes.add_suffix("cat", "s"), ["cats"]),
        (nodes.replace_text("a cat", "cat", "dog"), ["a dog"]),
        (nodes.strip_whitespace(" cat\n"), ["cat"]),
        (nodes.to_lowercase("Cat"), ["cat"]),
        (nodes.to_uppercase("Cat"), ["CAT"]),
        (nodes.truncate("caterpillar", 3), ["cat"]),
        (nodes.truncate("cat", 10000), ["cat"]),
        (nodes.merge_lists(["a", "b"]), [["a", "b"]]),
    ],
)
def test_caption_nodes_answer_a_list(given: Any, expected: Any) -> None:
    """Each node does to a caption what it is called, and answers one value that is a list."""
    assert given == expected
