"""Functions and files stay small; the list of long functions may only shrink."""

from collections.abc import Iterator
from typing import Final

from form.sources import Function, modules, without_docstring

_BODY_LINES_MAX: Final = 60
_BODY_LINES_LONG: Final = 35
_FILE_LINES_MAX: Final = 500

_REVISIONS: Final = "fairlead.storage.db.migrations.versions."
"""A revision is a list of statements that nobody edits after its release: its length says nothing."""

_LONG: Final = frozenset(
    {
        "fairlead.domain.faults.bucket",
        "fairlead.api.http.faults.default_answer",
    }
)
"""The functions with bodies over 35 lines that we live with. Split a new one; never add to this list."""


def test_no_function_passes_the_line_limit() -> None:
    """No body has more than sixty lines."""
    assert {name: length for name, length in _lengths() if length > _BODY_LINES_MAX} == {}


def test_no_function_is_long_unless_listed() -> None:
    """No body has more than thirty-five lines but for those on the list."""
    long = {name: length for name, length in _lengths() if length > _BODY_LINES_LONG and name not in _LONG}
    assert long == {}, "split these"


def test_listed_functions_are_still_long() -> None:
    """The list holds only functions that are still long, so that it shrinks."""
    still_long = {name for name, length in _lengths() if length > _BODY_LINES_LONG}
    assert sorted(_LONG - still_long) == [], "remove these from the list"


def test_no_file_passes_the_line_limit() -> None:
    """No file has more than five hundred lines."""
    assert {module.name: len(module.lines) for module in modules("src") if len(module.lines) > _FILE_LINES_MAX} == {}


def _lengths() -> Iterator[tuple[str, int]]:
    return (
        (name, _body_lines(function))
        for module in modules("src")
        for name, function in module.functions()
        if not name.startswith(_REVISIONS)
    )


def _body_lines(function: Function) -> int:
    """Count the lines of a body from its first statement to its last; a docstring is not counted against it."""
    body = without_docstring(function.body)
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
