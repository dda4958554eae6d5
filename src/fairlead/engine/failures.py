"""An error of a node as a record that is safe to keep and to show: nothing in it is long."""

import traceback
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from fairlead.domain.jobs.events import Failure, Place
from fairlead.engine.schedule import DependencyCycleError

_TEXT_LENGTH_MAX: Final = 10_000
_VALUE_LENGTH_MAX: Final = 200
_VALUES_MAX: Final = 100
_FRAMES_MAX: Final = 50
_CYCLE_TYPE: Final = "graph.DependencyCycleError"
"""The name by which clients know it (engine-wire, 2.8)."""


def failure(
    place: Place, node_type: str, error: BaseException, inputs: Mapping[str, Any], executed: Sequence[str]
) -> Failure:
    """The record of an error that a node raised, or that came of it."""
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-_FRAMES_MAX)
    return Failure(
        place,
        node_type,
        _type_name(error),
        _shortened(_message(error), _TEXT_LENGTH_MAX),
        [_shortened(line, _TEXT_LENGTH_MAX) for line in lines[: 2 * _FRAMES_MAX]],
        {name: _shown_list(value) for name, value in inputs.items()},
        executed,
    )


def _type_name(error: BaseException) -> str:
    """Built-in errors by their bare names, others with their module."""
    kind = type(error)
    if isinstance(error, DependencyCycleError):
        return _CYCLE_TYPE
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    """What the error says; an error may even fail at that."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 -- written by strangers
        return ""


def _shown_list(value: Any) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    return [_shown(item) for item in values[:_VALUES_MAX]]


def _shown(value: Any) -> Any:
    """Small values as they are, arrays by their shape, anything else by its type: it may be endless."""
    match value:
        case None | bool() | float():
            return value
        case int():
            return value if value.bit_length() <= _VALUE_LENGTH_MAX else f"int of {value.bit_length()} bits"
        case str():
            return _shortened(value, _VALUE_LENGTH_MAX)
        case np.ndarray():
            return f"{value.dtype} array {list(value.shape)}"
        case _:
            return type(value).__name__


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
