"""Words that were retired stay retired: the glossary has what they are called now (docs/glossary.md, "Formerly")."""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final

from form.sources import ROOT, project_files

_EVERYWHERE: Final = {
    "anew": "again",
    "besides": "also",
    "bulletin": "broadcast, or event envelope",
    "desk": "host callbacks; in tests, what is set up",
    "hindrance": "start blocker",
    "newsroom": "event hub",
    "nought": "zero",
    "tiding": "job event",
    "whoever": "anyone who, or the one that is meant",
    "workbench": "host service",
}
"""Words that occur in no text of the project, be it code or a page."""
_IN_NAMES: Final = {
    "beside": "more, or what it is",
    "conversation": "hosted execution",
    "course": "run context",
    "faces": "http app",
    "house": "server fixture",
    "losses": "host failures",
    "marks": "label index",
    "pace": "throughput",
    "resting": "cooling down",
    "shapes": "schemas",
    "sitting": "host connection",
    "standing": "job progress, or locked row",
    "story": "scenario",
    "weather": "fault plan",
    "wish": "route options, or request to cancel",
}
"""Words that are good English, and no names in code."""
_EXEMPT: Final = frozenset({"CHANGELOG.md", "docs/glossary.md", "tests/form/test_retired_words.py"})


def _occurrences(words: Iterable[str]) -> re.Pattern[str]:
    """A pattern for some words and their plurals, also as parts of names: job_desk, JobDesk, JOB_DESK."""
    some = "|".join(sorted(words))
    lower = f"(?<![a-z])({some})(?:e?s)?(?![a-z])"
    title = f"({some.title()})(?:e?s)?(?![a-z])"
    upper = f"(?<![A-Z])({some.upper()})(?:E?S)?(?![A-Z])"
    return re.compile(f"{lower}|{title}|{upper}")


_ANYWHERE: Final = _occurrences(_EVERYWHERE)
_NAMED: Final = _occurrences(_IN_NAMES)

_TEST: Final = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
_INVERTED: Final = re.compile(
    r"test_(?:an?|the|what|who|whoever)_"  # "a bad id is looked up" told what goes wrong where the test fails
    r"|_(?:wrongly|for_ever|forever|otherwise_than|is_overlooked|without_end)(?:_|$)"
)


def test_no_retired_word_is_used() -> None:
    """No text and no name has a retired word."""
    better = {**_EVERYWHERE, **_IN_NAMES}
    found = {name: {word: better[word] for word in sorted(words)} for name, words in _retired_words() if words}
    assert found == {}


def test_every_test_is_named_by_what_holds() -> None:
    """A name is a statement that holds while its test passes, without an article: it is published as proof."""
    files = [path for path in project_files() if path.suffix == ".py" and "tests" in path.relative_to(ROOT).parts]
    tests = [(path, test) for path in files for test in _TEST.findall(path.read_text(encoding="utf-8"))]
    assert tests
    assert [f"{path.relative_to(ROOT)}: {test}" for path, test in tests if _INVERTED.search(test)] == []


def _retired_words() -> Iterator[tuple[str, set[str]]]:
    for path in project_files():
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in {".py", ".md"} and name not in _EXEMPT:
            text = path.read_text(encoding="utf-8")
            words = _find(_ANYWHERE, text)
            if path.suffix == ".py" and _NAMED.search(text):
                words |= _find(_NAMED, "\n".join([path.stem, *_names(ast.parse(text))]))
            yield name, words


def _find(pattern: re.Pattern[str], text: str) -> set[str]:
    return {word.lower() for words in pattern.findall(text) for word in words if word}


def _names(tree: ast.Module) -> Iterator[str]:
    """Every name that a module gives to something."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass  # other nodes use a name that is given elsewhere
