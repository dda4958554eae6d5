"""An error of a node as a record that is safe to keep and to show: nothing in it is long."""

import errno
import math
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from fairlead.domain.jobs import errors
from fairlead.domain.jobs.events import Failure, Place
from fairlead.engine.graph.schedule import DependencyCycleError
from fairlead.engine.graph.validation import InvalidGraphError

_TEXT_LENGTH_MAX: Final = 10_000
_VALUE_LENGTH_MAX: Final = 200
_VALUES_MAX: Final = 100
_FRAMES_MAX: Final = 50
_NAME_LENGTH_MAX: Final = 200
_CYCLE_TYPE: Final = "graph.DependencyCycleError"
"""The name by which clients know it (engine-wire, 2.8)."""
_OURS: Final = __name__.partition(".")[0]
_CV_NO_MEMORY: Final = -4
_NO_MEMORY: Final = ("out of memory", "can't allocate memory")
"""What tensor libraries say in a RuntimeError."""
_MODEL_LIBRARY: Final = "huggingface_hub"
"""Any error of it is about a model that could not be fetched."""
_CAUSES_MAX: Final = 10
_INTEGER_BITS_MAX: Final = 53
"""The integers that every JSON reader represents exactly."""


def failure(
    place: Place, node_type: str, error: BaseException, inputs: Mapping[str, object], executed: Sequence[str]
) -> Failure:
    """The record of an error that a node raised, or that its result caused."""
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-_FRAMES_MAX)
    return Failure(
        place,
        node_type,
        _type_name(error),
        _shorten(_message(error), _TEXT_LENGTH_MAX),
        [_shorten(line, _TEXT_LENGTH_MAX) for line in lines[: 2 * _FRAMES_MAX]],
        {shown_text(name): _shown_list(value) for name, value in inputs.items()},
        executed,
    )


def shown_text(value: object) -> str:
    """A text of a node as it can be sent: no longer than a message, and only valid characters."""
    return _shorten(str(value), _TEXT_LENGTH_MAX)


def _type_name(error: BaseException) -> str:
    """One of the six names of C-12 where its cause fits; else built-in errors by their bare names, others in full."""
    kind, given = type(error), getattr(error, "exception_type", None)
    if isinstance(given, str):
        return _shorten(given, _NAME_LENGTH_MAX)
    named = next(filter(None, map(_known_name, _causes(error))), None)
    if named is not None:
        return named
    if isinstance(error, DependencyCycleError):
        return _CYCLE_TYPE
    # An error of ours is named by the built-in error that it derives from: our modules mean nothing to clients.
    told = next(each for each in kind.__mro__ if each.__module__.partition(".")[0] != _OURS)
    return told.__qualname__ if told.__module__ == "builtins" else f"{told.__module__}.{told.__qualname__}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it was explicitly raised from."""
    cause: BaseException | None = error
    for _ in range(_CAUSES_MAX):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


def _known_name(error: BaseException) -> str | None:
    """Which of the six an error is by itself; None for none of them."""
    given = getattr(error, "exception_type", None)
    if given in errors.OF_THE_SPECIFICATION:
        return str(given)
    if _is_out_of_memory(error):
        return errors.OUT_OF_MEMORY
    if isinstance(error, InvalidGraphError) or _is_refused_value(error):
        return errors.VALIDATION
    if any(each.__module__.partition(".")[0] == _MODEL_LIBRARY for each in type(error).__mro__):
        return errors.MODEL_DOWNLOAD
    return None


def _is_out_of_memory(error: BaseException) -> bool:
    """The errors of Python, numpy, OpenCV, tensor libraries, and the system that mean a lack of memory."""
    kind = type(error)
    match error:
        case MemoryError():
            return True
        case OSError(errno=errno.ENOMEM):
            return True
        case RuntimeError() if any(words in _message(error).lower() for words in _NO_MEMORY):
            return True
        case _ if kind.__module__ == "cv2" and kind.__name__ == "error":
            return getattr(error, "code", None) == _CV_NO_MEMORY
        case _:
            return any(each.__name__ == "OutOfMemoryError" for each in kind.__mro__)


def _is_refused_value(error: BaseException) -> bool:
    """Whether one of the engine's own nodes refuses a value that it was given; a pack may have raised any other."""
    if not isinstance(error, ValueError):
        return False
    modules = [
        str(frame.f_globals.get("__name__")).partition(".")[0] for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    return modules[-1:] == [_OURS] and all(each == _OURS or each in sys.stdlib_module_names for each in modules)


def _message(error: BaseException) -> str:
    """The message of an error; getting it may fail, too."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 -- written by strangers
        return ""


def _shown_list(value: object) -> list[object]:
    values = value if isinstance(value, list) else [value]
    return [_show(item) for item in values[:_VALUES_MAX]]


def _show(value: object) -> object:
    """Small values as they are, arrays by their shape, anything else by its type, as it may be infinite."""
    match value:
        case None | bool():
            return value
        case float():
            return float(value) if math.isfinite(value) else str(value)
        case int():
            return value if value.bit_length() <= _INTEGER_BITS_MAX else _large(value)
        case str():
            return _shorten(value, _VALUE_LENGTH_MAX)
        case np.ndarray():
            return f"{value.dtype} array {list(value.shape)}"
        case _:
            return type(value).__name__


def _large(value: int) -> str:
    return str(value) if value.bit_length() <= _VALUE_LENGTH_MAX else f"int of {value.bit_length()} bits"


def _shorten(text: str, length: int) -> str:
    """Without surrogates, which cannot be encoded."""
    short = text if len(text) <= length else f"{text[:length]}…"
    return short if short.isascii() else short.encode("utf-8", "replace").decode()
