"""Texts stay within their length, and values are written within it."""

from typing import Any

import pytest

from fairlead.engine.texts.bounds import MOST_CHARACTERS, as_json, check_length


def test_text_of_the_most_characters_is_taken() -> None:
    """The bound itself is allowed, one more is not."""
    check_length(MOST_CHARACTERS)
    with pytest.raises(ValueError, match="10,000,001 characters"):
        check_length(MOST_CHARACTERS + 1)


def test_json_is_readable() -> None:
    """An indent of 0 is one line, another breaks lines, and letters stay letters."""
    assert as_json({"é": [1, True, None]}, 0) == '{"é": [1, true, null]}'
    assert as_json([1, {"a": 2}], 2) == '[\n  1,\n  {\n    "a": 2\n  }\n]'


def test_value_json_cannot_hold_is_refused() -> None:
    """Only who says how gets it written."""
    with pytest.raises(TypeError):
        as_json({1, 2}, 0)
    assert as_json([complex(1, 2)], 0, otherwise=str) == '["(1+2j)"]'


def test_text_of_a_small_value_is_bounded() -> None:
    """Depth times indent, repetition, recursion and cycles are bounded."""
    deep: Any = ["x"] * 10_000
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ValueError, match="is the most"):
        as_json(deep, 8)
    part = "x" * 1_000_000
    with pytest.raises(ValueError, match="is the most"):
        as_json([part] * 1000, 0)
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        as_json(deep, 0)
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(ValueError, match="Circular"):
        as_json(cycle, 0)
