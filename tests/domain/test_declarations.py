"""Reading what people write: the mistake, and the line it stands in."""

import msgspec
import pytest

from fairlead.domain.declarations import BadFileError, line_of_json, line_of_toml, read_json, read_toml


class _Part(msgspec.Struct, forbid_unknown_fields=True):
    size: int


class _File(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    parts: list[_Part] = []
    by_name: dict[str, _Part] = {}


TOML = """\
name = "x"

[[parts]]
size = 1

[[parts]]  # the second
size = 2

[by_name.left]
size = 3

[by_name."right"]
"size" = 4
"""
JSON = """{
  "a": [
    1,
    {"b": null,
     "c": [true, "]"]}
  ],
  "d": {}
}"""


def mistake(text: str) -> tuple[int, str]:
    """Read a bad text and return line and reason."""
    with pytest.raises(BadFileError) as caught:
        read_toml(text, "x.toml", _File)
    assert str(caught.value).startswith(f"x.toml:{caught.value.line}: ")
    return caught.value.line, caught.value.reason


def test_text_that_fits_its_type_is_read_whole() -> None:
    """A text that fits its type is read whole."""
    read = read_toml(TOML, "x.toml", _File)
    assert [part.size for part in read.parts] == [1, 2]
    assert {name: part.size for name, part in read.by_name.items()} == {"left": 3, "right": 4}


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ('name = "x"', "name = x", 1, "Invalid value"),
        ('name = "x"', "name = 5", 1, "name: Expected `str`, got `int`"),
        ('name = "x"\n', "\n", 1, "missing required field `name`"),
        ("size = 1", 'size = "a"', 4, "parts.0.size: Expected `int`"),
        ("size = 2", 'size = "a"', 7, "parts.1.size: Expected `int`"),
        ("size = 2\n", "\n", 6, "parts.1: Object missing required field `size`"),
        ("size = 2", "size = 2\nx = 1", 8, "parts.1.x: Object contains unknown field `x`"),
        ("size = 3", 'size = "a"', 10, "by_name.left.size: Expected `int`"),
        ('"size" = 4', '"size" = "a"', 13, "by_name.right.size: Expected `int`"),
        ("[by_name.left]", "[by_name.left]\n[by_name.left]", 10, ""),
    ],
)
def test_mistake_is_named_at_its_line(old: str, new: str, line: int, reason: str) -> None:
    """Syntax, types, missing and unknown fields, in tables, arrays of tables and tables by name."""
    at, found = mistake(TOML.replace(old, new))
    assert reason in found
    assert at == line


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (["name"], 1),
        (["parts", "0"], 3),
        (["parts", "1", "size"], 7),
        (["parts", "1", "unknown"], 6),
        (["parts", "9"], 1),
        (["by_name", "right", "size"], 13),
        ([], 1),
        (["nothing"], 1),
    ],
)
def test_path_leads_to_the_deepest_line_the_text_has(steps: list[str], line: int) -> None:
    """The deepest part of a path that the text has."""
    assert line_of_toml(TOML, steps) == line


def test_entries_of_inner_arrays_are_counted_for_each_outer_one() -> None:
    """Each array of tables counts its own entries, and starts again for each table that holds it."""
    text = "[[a]]\n[[a.b]]\nc = 1\n[[a.b]]\nc = 2\n[[a]]\n[[a.b]]\nc = 3\n"
    places = [("0", "0"), ("0", "1"), ("1", "0")]
    assert [line_of_toml(text, ["a", outer, "b", inner, "c"]) for outer, inner in places] == [3, 5, 8]


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        ([], 1),
        (["a"], 2),
        (["a", 0], 3),
        (["a", 1, "b"], 4),
        (["a", 1, "c", 1], 5),
        (["a", 7], 2),
        (["a", 0, "x"], 3),
        (["d"], 7),
        (["e"], 1),
    ],
)
def test_path_leads_to_its_line_of_json(steps: list[str | int], line: int) -> None:
    """The value a path leads to, or the deepest part there is."""
    assert line_of_json(JSON, steps) == line


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ('{\n "a": 1,\n "a": 2\n}', 3, "the name 'a' occurs twice"),
        ('{\n "a": {"b": 1,\n "b": 2}}', 3, "the name 'b' occurs twice"),
        ('{\n "a": 1,\n}', 3, "Expecting property name"),
        ("", 1, "Expecting value"),
    ],
)
def test_mistake_in_json_is_named_at_its_line(text: str, line: int, reason: str) -> None:
    """Syntax and names that occur twice."""
    with pytest.raises(BadFileError) as caught:
        read_json(text, "x.json")
    assert caught.value.line == line
    assert reason in caught.value.reason
