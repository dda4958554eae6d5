"""Nothing in the repository depends on where it was written: no address, no index, no home folder."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from form.sources import ROOT, project_files

_LOCKS: Final = sorted((ROOT / "requirements").glob("*.txt"))
_LOCKED: Final = re.compile(r"[a-z0-9][a-z0-9._-]*(?:\[[a-z0-9,-]+\])?==[\w.!+-]+(?: ; [\w .!<>='()-]+)? \\")
_HASH: Final = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?P<more> \\)?")
_INDEX: Final = re.compile(r"(?:://[^\s/]+|\b[\w-]+(?:\.[\w-]+)+(?::\d+)?)(?:/[\w.~-]+)*/simple\b")


def test_lock_files_exist() -> None:
    """What runs, what develops and what checks the kit are locked apart."""
    assert [path.name for path in _LOCKS] == ["dev.txt", "kit.txt", "run.txt"]


@pytest.mark.parametrize("lock", _LOCKS, ids=lambda path: path.name)
def test_lock_files_hold_only_names_and_hashes(lock: Path) -> None:
    """Every line is a pinned name or one of its hashes: no address, no option, no path."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    assert lines
    assert [line for line in lines if not _LOCKED.fullmatch(line) and not _HASH.fullmatch(line)] == []


@pytest.mark.parametrize("lock", _LOCKS, ids=lambda path: path.name)
def test_every_pinned_name_has_a_hash(lock: Path) -> None:
    """A name is followed by a hash, and each line that promises another is followed by one."""
    lines = [*lock.read_text(encoding="utf-8").splitlines(), ""]
    for line, following in pairwise(lines):
        assert line.endswith("\\") == bool(_HASH.fullmatch(following)), line


def test_no_file_names_the_place_it_was_written_in() -> None:
    """Neither this checkout's location nor the home folder of anyone who runs the tests stands in any file."""
    private = re.compile("|".join(_whole_path(path) for path in (ROOT, Path.home()) if path.parts[1:]))
    assert _places(private) == []


def test_no_file_names_a_package_index() -> None:
    """Where packages come from is the business of the machine that installs them."""
    assert _places(_INDEX) == []


def test_hooks_are_the_tools_of_make_check() -> None:
    """Every hook of pre-commit is local, so it downloads nothing, and together they run what `make check` runs."""
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"repo: (.+)", hooks)) == {"local"}
    entries = re.findall(r"entry: \.venv/bin/(.+)", hooks)
    recipe = re.search(r"^check:.*\n((?:\t.+\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe is not None
    checked = [line.replace(" .", "") for line in re.findall(r"\$\(BIN\)/(.+)", recipe[1])]
    assert [line for line in checked if not any(entry.startswith(line) for entry in entries)] == []


def _whole_path(path: Path) -> str:
    """Match a path but not a longer name; one of a single part only where something is below it."""
    below = r"/\w" if len(path.parts) == 2 else r"(?![\w-])"  # `/name`
    return rf"(?<![\w.~-]){re.escape(path.as_posix())}{below}"


def _places(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in project_files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if (match := pattern.search(line))
    ]
