"""Functions, files and folders stay small, and no file is too small; the lists of exceptions may only shrink."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from form.sources import ROOT, Function, Module, modules, without_docstring

_BODY_LINES_MAX: Final = 60
_BODY_LINES_LONG: Final = 35
_FILE_LINES_MAX: Final = 500
_FILE_LINES_MIN: Final = 40
_FOLDER_FILES_MAX: Final = 25

_REVISIONS: Final = "fairlead.storage.db.migrations.versions."
"""A revision is a list of statements that nobody edits after its release: its length says nothing."""

_LONG: Final = frozenset(
    {
        "fairlead.domain.faults.bucket",
        "fairlead.api.http.faults.default_answer",
    }
)
"""The functions with bodies over 35 lines that we live with. Split a new one; never add to this list."""


_LARGE_FOLDERS: Final = {
    "src/fairlead/storage/db/migrations/versions": 40,  # a module for each version of the schema
    "src/fairlead_partners/simulator/vendors": 39,  # a module for each vendor
}
"""Folders with more files than others may have, and how many they may have."""

_SMALL: Final = frozenset(
    {
        "fairlead.api.http.cursors",
        "fairlead.domain.accounts.editor_documents",
        "fairlead.domain.catalog.identifiers",
        "fairlead.domain.catalog.operations",
        "fairlead.domain.jobs.errors",
        "fairlead.domain.jobs.subscriptions",
        "fairlead.domain.origins",
        "fairlead.domain.work.states",
        "fairlead.engine.hosts.classes",
        "fairlead.engine.media.streams",
        "fairlead.engine.packs.shims.scaling",
        "fairlead.engine.packs.shims.web",
        "fairlead.engine.texts.bounds",
        "fairlead.operations.jobs.store",
        "fairlead.operations.runs.awaited_runs",
        "fairlead.storage.blobs.errors",
        "fairlead.workers.deployments",
        "fairlead_partners.procedural.pool",
        "fairlead_partners.procedural.seeds",
        "fairlead_partners.simulator.chat",
        "fairlead_partners.simulator.memory",
    }
)
"""Modules of less than forty lines that are a subject of their own. Merge a new one; never add to this list."""


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


def test_no_folder_has_too_many_files() -> None:
    """A folder holds what a reader takes in at a glance."""
    files = Counter(module.path.parent.relative_to(ROOT).as_posix() for module in modules("src"))
    large = {folder: count for folder, count in files.items() if count > _FOLDER_FILES_MAX}
    assert {name: count for name, count in large.items() if count > _LARGE_FOLDERS.get(name, 0)} == {}, "part these"
    assert {name for name in _LARGE_FOLDERS if name not in large} == set(), "remove these from the list"


def test_no_file_is_too_small_unless_listed() -> None:
    """What is less than a page stands with what it belongs to."""
    small = {module.dotted for module in modules("src") if _is_small(module)}
    assert small - _SMALL == set(), "merge these"
    assert _SMALL - small == set(), "remove these from the list"


def _is_small(module: Module) -> bool:
    """Whether a module that has a name of its own is less than a page."""
    is_named = not module.path.stem.startswith("__") and ".migrations." not in module.dotted
    return is_named and len(module.lines) < _FILE_LINES_MIN


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
