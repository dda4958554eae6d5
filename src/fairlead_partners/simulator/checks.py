"""Checks of a request's fields that vendors share; each raises Problem `invalid` naming the field.

A field that is missing or null passes all of them but `text(..., required=True)` and `present`.
`path` in a field's name is dotted, as in `input.prompt`; the same name is what the problem names.
"""

from collections.abc import Collection, Mapping
from typing import Any

from .vendor import Problem


def at(body: Mapping[str, object], name: str) -> Any:
    """Return a field by its dotted name, or None."""
    value: object = body
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def present(body: Mapping[str, object], *names: str) -> None:
    """Require fields, empty strings and arrays excepted."""
    for name in names:
        if at(body, name) in (None, "", [], {}):
            raise Problem("invalid", f"Missing required parameter: '{name}'.", field=name, code="missing")


def text(body: Mapping[str, object], name: str, limit: int = 1_000_000, *, required: bool = False) -> str:
    """Return a string of at most `limit` characters, or the empty one."""
    value = at(body, name)
    if required:
        present(body, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Problem("invalid", f"'{name}' must be a string.", field=name, code="type")
    if len(value) > limit:
        raise Problem("invalid", f"'{name}' must have at most {limit} characters.", field=name, code="too_long")
    return value


def one_of(body: Mapping[str, object], name: str, allowed: Collection[object], default: object = None) -> Any:
    """Return one of some values."""
    value = at(body, name)
    if value is None:
        return default
    if isinstance(value, dict | list) or isinstance(value, bool) not in {isinstance(one, bool) for one in allowed}:
        raise Problem("invalid", f"'{name}' has the wrong type.", field=name, code="type")
    if value not in allowed:
        choices = ", ".join(repr(one) for one in sorted(allowed, key=str))
        raise Problem("invalid", f"'{name}' must be one of {choices}.", field=name, code="enum")
    return value


def number(body: Mapping[str, object], name: str, low: float, high: float, default: float = 0) -> float:
    """Return a number within bounds, both included."""
    value = at(body, name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Problem("invalid", f"'{name}' must be a number.", field=name, code="type")
    if not low <= value <= high:
        raise Problem("invalid", f"'{name}' must be between {low:g} and {high:g}.", field=name, code="range")
    return value


def integer(body: Mapping[str, object], name: str, low: int, high: int, default: int = 0) -> int:
    """Return a whole number within bounds, both included."""
    value = number(body, name, low, high, default)
    if value != int(value):
        raise Problem("invalid", f"'{name}' must be an integer.", field=name, code="type")
    return int(value)


def items(body: Mapping[str, object], name: str, most: int = 10_000, *, required: bool = False) -> list[Any]:
    """Return an array of at most `most` elements, or the empty one."""
    value = at(body, name)
    if required:
        present(body, name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise Problem("invalid", f"'{name}' must be an array.", field=name, code="type")
    if len(value) > most:
        raise Problem("invalid", f"'{name}' must have at most {most} elements.", field=name, code="too_long")
    return value
