"""When a child that has ended may be started again: later each time, until one has lasted."""

from typing import Final

_FIRST: Final = 0.1
_MOST: Final = 10.0
_STEADY: Final = 10.0


class Restarts:
    """The pauses between the starts of one child: none after one that has lasted for `steady` seconds."""

    def __init__(self, first: float = _FIRST, most: float = _MOST, steady: float = _STEADY) -> None:
        self._first: Final = first
        self._most: Final = most
        self._steady: Final = steady
        self._pause = 0.0

    def pause_after(self, lasted: float) -> float:
        """How many seconds to wait before the next start, given how long the last child has lasted."""
        self._pause = 0.0 if lasted > self._steady else min(max(2 * self._pause, self._first), self._most)
        return self._pause
