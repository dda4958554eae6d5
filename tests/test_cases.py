"""A test of many cases runs all of them, and names those that fail."""

import inspect

import pytest

from cases import for_each


def test_every_case_is_run_and_each_that_fails_is_named() -> None:
    """Decorators add up, fixtures pass through, and marks stay."""
    seen = []

    @for_each("left", [1, 2])
    @for_each(("right", "more"), [pytest.param(3, "a", id="three"), (4, "b")])
    @pytest.mark.usefixtures("tmp_path")
    def test(fixture: str, left: int, right: int, more: str) -> None:
        seen.append((fixture, left, right, more))
        assert left + right != 6

    assert [*inspect.signature(test).parameters] == ["fixture"]
    assert [mark.name for mark in getattr(test, "pytestmark", ())] == ["usefixtures"]
    with pytest.raises(ExceptionGroup, match="1 of 2 cases") as raised:
        test(fixture="f")
    assert seen == [("f", 1, 3, "a"), ("f", 1, 4, "b"), ("f", 2, 3, "a"), ("f", 2, 4, "b")]
    [outer] = raised.value.exceptions
    assert isinstance(outer, ExceptionGroup)
    assert outer.__notes__ == ["case 2"]
    assert outer.exceptions[0].__notes__ == ["case (4, 'b')"]
