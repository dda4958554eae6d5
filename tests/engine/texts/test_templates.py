"""Templates filled in as Python's format method does it, without its ways into the program."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.engine.texts.templates import fill

_VALUES = {"a": 3, "b": 2.5, "c": "text", "d": [10, 20], "e": {"key": "held", "7": "seven"}, "f": True, "w": 6}
_DEEP: list[Any] = []
for _ in range(100_000):
    _DEEP = [_DEEP]
_HOSTILE = {**_VALUES, "minus": -1, "huge": 10**5000, "deep": _DEEP}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("", ""),
        ("no place", "no place"),
        ("{a}", "3"),
        ("{a}{b}", "32.5"),
        ("{{a}}", "{a}"),
        ("{{{a}}}", "{3}"),
        ("{a:03d}", "003"),
        ("{b:.2f}", "2.50"),
        ("{c:>6}|", "  text|"),
        ("{c:*^8}", "**text**"),
        ("{c:>{w}}", "  text"),
        ("{c!r}", "'text'"),
        ("{d}", "[10, 20]"),
        ("{d[1]}", "20"),
        ("{e[key]}", "held"),
        ("{c[0]}", "t"),
        ("{f}", "True"),
        ("line\n{a}\n", "line\n3\n"),
    ],
)
def test_places_are_filled_as_python_fills_them(template: str, filled: str) -> None:
    """Names, formats, conversions, indexes and doubled braces have Python's meaning."""
    assert fill(template, _VALUES) == filled


@given(st.text(alphabet="{}ab:!0.<>[]d x", max_size=12))
def test_template_is_read_as_python_reads_it(template: str) -> None:
    """What Python fills in without attributes is filled in the same, or refused with a ValueError."""
    values = {"a": 1, "b": "x"}
    try:
        expected = template.format(**values)
    except (ValueError, LookupError, TypeError, AttributeError):
        expected = None
    try:
        assert fill(template, values) == expected
    except ValueError:
        assert expected is None or "." in template


@pytest.mark.parametrize(
    "template",
    [
        "{a.__class__}",
        "{d.append}",
        "{e[key].upper}",
        "{d[0].real}",
        "{a[0]}",
        "{d[2]}",
        "{d[x]}",
        "{e[none]}",
        "{q}",
        "{}",
        "{0}",
        "{a",
        "a}",
        "{a!x}",
        "{a:q}",
        "{d:5}",
        "{c:>{w:{a}}}",
        "{c:>{q}}",
        "{minus:c}",
        "{huge:f}",
        "{huge!r}",
        "{deep}",
        "{a" + "[0]" * 1_000 + "}",
        "{a" + "[" * 1_000 + "}",
        "{" * 1_001,
    ],
)
def test_place_never_opens_into_the_program(template: str) -> None:
    """Attributes, whatever there is not, and what cannot be shown are a short ValueError."""
    with pytest.raises(ValueError, match=r"\w") as refused:
        fill(template, _HOSTILE)
    assert len(str(refused.value)) < 1_000


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("{a:1000000000}", {"a": 1}),
        ("{a:.1000000000f}", {"a": 1.0}),
        ("{a:{b}}", {"a": 1, "b": 10**9}),
        ("{a:" + "9" * 5000 + "}", {"a": 1}),
        ("{a:1000}" * 20_000, {"a": 1}),
        ("{a}" * 200, {"a": "x" * 100_000}),
    ],
)
def test_result_of_a_template_is_bounded(template: str, values: Mapping[str, Any]) -> None:
    """Widths and repetitions are bounded before memory is."""
    with pytest.raises(ValueError, match="characters"):
        fill(template, values)
