"""docs/differences.md: every entry is whole, its tests exist, and what refers to one leads to it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest

from form.sources import DOCS, ROOT, project_files

pytestmark = pytest.mark.req("X-01")

_PARTS: Final = re.compile(
    r'- Text: "(?P<text>.+)" \((?P<section>.+)\)\n'
    r"- Ours: (?P<ours>.+)\n- Reason: (?P<reason>.+)\n- Tests: (?P<tests>.+)\n"
)
_HEADING: Final = re.compile(r"^### D-(\d+)\n\n(.+?\n)(?=\n|\Z)", re.MULTILINE | re.DOTALL)
_TEST: Final = re.compile(r"`(tests/\S+\.py)::(\w+)`")
_REFERENCE: Final = re.compile(r"\bD-(\d+)\b")
_READ: Final = frozenset({".py", ".md", ".toml"})


def _page() -> str:
    return (DOCS / "differences.md").read_text(encoding="utf-8")


def _entries() -> dict[int, str]:
    return {int(number): entry for number, entry in _HEADING.findall(_page())}


def test_numbers_are_consecutive() -> None:
    """Each entry has the number after the one before, so that none is used twice or taken away."""
    numbers = [int(number) for number in re.findall(r"^### D-(\d+)$", _page(), re.MULTILINE)]
    assert numbers == [*_entries()] == list(range(1, len(numbers) + 1))
    assert numbers


def test_every_entry_has_its_five_parts() -> None:
    """The text with its section, ours, the reason, and the tests, one after another and nothing else."""
    assert [number for number, entry in _entries().items() if _PARTS.fullmatch(entry) is None] == []


def test_every_test_of_an_entry_exists() -> None:
    """Each entry names tests that are there; a list has nothing but names of tests."""
    wrong = []
    for number, entry in _entries().items():
        _, _, listed = entry.partition("- Tests: ")
        if re.fullmatch(rf"{_TEST.pattern}(, {_TEST.pattern})*", listed.strip()) is None:
            wrong.append((number, listed))
        wrong += [(number, f"{path}::{name}") for path, name in _TEST.findall(listed) if name not in _tests_of(path)]
    assert wrong == []


def test_every_reference_to_an_entry_leads_to_one() -> None:
    """Wherever a number of an entry stands, there is such an entry."""
    assert [(name, number) for name, number in _references() if number not in _entries()] == []


@cache
def _tests_of(path: str) -> frozenset[str]:
    file = ROOT / path
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module([], [])
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


def _references() -> Iterator[tuple[str, int]]:
    for file in project_files():
        if file.suffix in _READ and file.parts[len(ROOT.parts)] in {"src", "docs", "tests"}:
            for number in _REFERENCE.findall(file.read_text(encoding="utf-8")):
                yield file.relative_to(ROOT).as_posix(), int(number)
