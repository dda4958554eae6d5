"""Strict reading of the files that people write: TOML into a checked type, with the line of a mistake."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final, TypeAlias, TypeVar

import jiter
import msgspec
import tomli

T = TypeVar("T")

_STEP: Final = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN_FIELD: Final = re.compile(r"unknown field `([^`]+)`")


class BadFileError(Exception):
    """A declarative file cannot be used: which file, which line, and what to fix there."""

    def __init__(self, file: str, line: int, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


FillIn: TypeAlias = Callable[[dict[str, object]], tuple[list[str], str] | None]
"""Completes a document before it is checked; where it cannot, the steps to the mistake and what is wrong."""


def read_toml(text: str, file: str, kind: type[T], fill_in: FillIn | None = None) -> T:
    """Read TOML text into a msgspec struct; BadFileError with the line of the first mistake."""
    try:
        document = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise BadFileError(file, error.lineno, str(error)) from error
    if fill_in is not None and (mistake := fill_in(document)) is not None:
        raise BadFileError(file, line_of_toml(text, mistake[0]), mistake[1])
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        reason, steps = _parts_of(error)
        steps = _with_names(document, kind, steps, reason)
        if unknown := _UNKNOWN_FIELD.search(reason):
            steps.append(unknown.group(1))
        raise BadFileError(file, line_of_toml(text, steps), f"{'.'.join(steps) or 'file'}: {reason}") from error


def _parts_of(error: msgspec.ValidationError) -> tuple[str, list[str]]:
    """Split msgspec's message into its reason and the steps of the path it names."""
    reason, _, path = str(error).partition(" - at `")
    return reason, [name or index for name, index in _STEP.findall(path.rstrip("`"))]


def _with_names(document: object, kind: object, steps: list[str], reason: str) -> list[str]:
    """Find the table name that msgspec hides behind `[...]`: the one that fails the same way when it stands alone."""
    if "..." not in steps:
        return steps
    cut = steps.index("...")
    for name in _at(document, steps[:cut]):
        try:
            msgspec.convert(_alone(document, steps[:cut], name), kind)
        except msgspec.ValidationError as error:
            if _parts_of(error) == (reason, steps):
                return [*steps[:cut], name, *steps[cut + 1 :]]
    return steps


def _at(document: Any, steps: list[str]) -> Any:
    for step in steps:
        document = document[int(step) if step.isdigit() else step]
    return document


def _alone(document: Any, steps: list[str], name: str) -> object:
    """A copy of a document in which the table at `steps` holds only `name`."""
    if not steps:
        return {name: document[name]}
    return {**document, steps[0]: _alone(document[steps[0]], steps[1:], name)}


def line_of_toml(text: str, steps: list[str]) -> int:
    """The line (from 1) of the deepest step of a path that can be found in TOML text.

    TOML readers keep no positions; this walks headers and keys, which is enough for files people write by hand.
    """
    best, best_depth = 1, 0
    table: list[str] = []
    entries: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if header := re.fullmatch(r"\[\[?\s*([^\]]+?)\s*\]\]?(\s*#.*)?", stripped):
            names = [part.strip(" \"'") for part in header.group(1).split(".")]
            path = table = _table_path(names, entries, is_entry=stripped.startswith("[["))
        elif key := re.match(r"([A-Za-z0-9_\-.\"']+)\s*=", stripped):
            path = table + [part.strip(" \"'") for part in key.group(1).split(".")]
        else:
            continue
        if len(path) > best_depth and steps[: len(path)] == path:
            best, best_depth = number, len(path)
    return best


def _table_path(names: list[str], entries: dict[tuple[str, ...], int], *, is_entry: bool) -> list[str]:
    """The path of a table with the number of each array's entry in it; `entries` counts them by path."""
    path: list[str] = []
    for depth, name in enumerate(names, start=1):
        path.append(name)
        array = tuple(path)
        if is_entry and depth == len(names):
            entries[array] = entries.get(array, -1) + 1
        if array in entries:
            path.append(str(entries[array]))
    return path


def read_json(text: str, file: str) -> object:
    """Read JSON text, refusing duplicate names; BadFileError with the line of the mistake."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise BadFileError(file, _line_of_second(text, twice), f"the name {twice!r} occurs twice")
        return dict(pairs)

    with suppress(ValueError):
        document: object = jiter.from_json(text.encode(), catch_duplicate_keys=True)
        return document
    try:
        return json.loads(text, object_pairs_hook=unique)  # far slower, but its errors say where the mistake is
    except json.JSONDecodeError as error:
        raise BadFileError(file, error.lineno, error.msg) from error
    except RecursionError as error:
        raise BadFileError(file, 1, "the file is nested too deeply") from error


def line_of_json(text: str, steps: list[str | int]) -> int:
    """The line (from 1) of the value a path leads to in valid JSON text, or of the deepest part that exists."""
    position = _skip_space(text, 0)
    for step in steps:
        inner = _enter(text, position, step)
        if inner is None:
            break
        position = inner
    return text.count("\n", 0, position) + 1


def _enter(text: str, position: int, step: str | int) -> int | None:
    """The position of one member of the container at `position`."""
    opener = text[position]
    if opener not in "{[":
        return None
    decoder, index = json.JSONDecoder(), 0
    position = _skip_space(text, position + 1)
    while text[position] not in "}]":
        name: str | int = index
        if opener == "{":
            name, position = scanstring(text, position + 1)
            position = _skip_space(text, _skip_space(text, position) + 1)
        if name == step:
            return position
        _, position = decoder.raw_decode(text, position)
        position = _skip_space(text, position)
        if text[position] == ",":
            position = _skip_space(text, position + 1)
        index += 1
    return None


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _line_of_second(text: str, name: str) -> int:
    quoted = json.dumps(name)
    first = text.find(quoted)
    return text.count("\n", 0, max(text.find(quoted, first + 1), 0)) + 1
