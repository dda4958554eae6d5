"""Work counted instead of timed: the lines a call executes, and the bytes it copies."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, SupportsIndex


class TooManyStepsError(Exception):
    """A call executed more lines than it may."""


def count_steps(call: Callable[[], object], most: int) -> int:
    """The lines that a call executes, those of what it calls included; TooManyStepsError past `most`.

    ValueError of the call is an answer like any other.
    """
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        del frame, argument
        if event == "line":
            steps += 1
            if steps > most:
                raise TooManyStepsError(f"more than {most} lines were executed")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except ValueError:
        pass
    finally:
        sys.settrace(before)
    return steps


class CountedBytes(bytes):
    """Bytes that count what is copied out of them and put together from them."""

    copied = 0

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        found = super().__getitem__(key)
        return self._count(found) if isinstance(found, bytes) else found

    def __add__(self, other: Any) -> Any:
        return self._count(bytes(self) + bytes(other))

    def __radd__(self, other: Any) -> Any:
        return self._count(bytes(other) + bytes(self))

    @staticmethod
    def _count(made: bytes) -> "CountedBytes":
        CountedBytes.copied += len(made)
        return CountedBytes(made)
