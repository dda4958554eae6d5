"""How a server comes to its stop: who is told, what is waited for, and how long all of that may take together."""

import time
from collections.abc import Callable


class Drain:
    """Counts the `seconds` that a stopping server waits for what is under way, from the moment it was told to stop.

    Parts of the server say what they do at that moment, and whether they have something under way.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None
        self._told: list[Callable[[], None]] = []
        self._busy: list[Callable[[], bool]] = []

    def tell(self, stop: Callable[[], None], is_busy: Callable[[], bool] = lambda: False) -> None:
        """Have `stop` called when the server is told to stop, and wait while `is_busy`."""
        self._told.append(stop)
        self._busy.append(is_busy)

    def begin(self) -> None:
        """Begin to count, and tell everybody; doing it again changes nothing."""
        if self._until is None:
            self._until = time.monotonic() + self._seconds
            for stop in self._told:
                stop()

    @property
    def is_busy(self) -> bool:
        """Whether something is under way."""
        return any(is_busy() for is_busy in self._busy)

    def left(self) -> float:
        """What is left of the time, in seconds; it begins where it has not."""
        self.begin()
        return max(0.0, (self._until or 0.0) - time.monotonic())

    @property
    def is_half_over(self) -> bool:
        """Whether it is time to take no more calls, so that those under way can end."""
        return self.left() <= self._seconds / 2
