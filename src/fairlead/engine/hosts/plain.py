"""Turns outputs for display into JSON: nodes return numbers of numpy, sets, paths, and anything else."""

import math
from typing import Final

import numpy as np

_DEPTH_MAX: Final = 64
_TEXT_LENGTH_MAX: Final = 1_000
_ITEM_BYTES: Final = 2
PACKED: Final = range(-(2**63), 2**64)
"""The integers that MessagePack has."""
WRITTEN: Final = range(-(2**1_000), 2**1_000)
"""The integers for values that are encoded as JSON directly, which has all."""


def plain(value: object, bytes_max: int, integers: range = PACKED) -> object:
    """A value as JSON: numbers and lists stay, and other objects become texts.

    NaN and infinities become null, integers outside the given range texts. TooManyBytesError when it would take more
    than about `bytes_max`.
    """
    return PlainValues(bytes_max, integers).add(value)


class TooManyBytesError(ValueError):
    """Values take more than they may."""


class PlainValues:
    """Makes values plain, as `plain` does, as long as all of them together take no more than about `bytes_max`."""

    def __init__(self, bytes_max: int, integers: range = PACKED) -> None:
        self._integers = integers
        self._bytes_max = bytes_max
        self._left = bytes_max

    def add(self, value: object) -> object:
        """The value as JSON has it; TooManyBytesError, which leaves no room for others either."""
        return self._of(value, 0)

    def _of(self, value: object, depth: int) -> object:
        self._take(_ITEM_BYTES)
        value = value.item() if isinstance(value, np.generic) else value
        match value:
            case None | bool():
                return value
            case int() if value in self._integers:
                return int(value)
            case float():
                return float(value) if math.isfinite(value) else None
            case dict() if depth < _DEPTH_MAX:
                return {self._text(_words(key)): self._of(item, depth + 1) for key, item in value.items()}
            case list() | tuple() | set() | frozenset() if depth < _DEPTH_MAX:
                return [self._of(item, depth + 1) for item in value]
            case _:
                return self._text(_words(value))

    def _text(self, text: str) -> str:
        self._take(len(text))
        return str.__str__(text) if text.isascii() else text.encode("utf-8", "replace").decode()

    def _take(self, bytes_: int) -> None:
        self._left -= bytes_
        if self._left < 0:
            raise TooManyBytesError(f"a node shows at most {self._bytes_max} bytes at once")


def _words(value: object) -> str:
    """A value as a text: arrays by their shape, long texts shortened; making the text may fail."""
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        return f"{value.dtype} array {list(value.shape)}"
    try:
        words = str(value)
    except Exception:  # noqa: BLE001 -- written by strangers
        return type(value).__name__
    return words if len(words) <= _TEXT_LENGTH_MAX else f"{words[:_TEXT_LENGTH_MAX]}…"
