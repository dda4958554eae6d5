"""How a server stops: which parts are notified, what is waited for, and how long all of that may take together."""

import time
from collections.abc import Callable
from typing import Final


class Drain:
    """Counts the `seconds` that a stopping server waits for work in progress, from the moment it begins to stop.

    Before that it announces the stop for `pause_seconds` and still takes calls, because load balancers need that long
    to notice. Parts of the server register functions for both moments, and whether they have work in progress.
    """

    def __init__(self, seconds: float, pause_seconds: float = 0.0) -> None:
        self.pause_seconds: Final = pause_seconds
        self.is_announced = False
        """Whether the server was asked to stop."""
        self._seconds = seconds
        self._until: float | None = None
        self._told_first: list[Callable[[], None]] = []
        self._told: list[Callable[[], None]] = []
        self._busy: list[Callable[[], bool]] = []

    def tell_first(self, announce: Callable[[], None]) -> None:
        """Call `announce` as soon as the server is asked to stop, before the pause."""
        self._told_first.append(announce)

    def tell(self, stop: Callable[[], None], is_busy: Callable[[], bool] = lambda: False) -> None:
        """Call `stop` when the server begins to stop, and wait while `is_busy`."""
        self._told.append(stop)
        self._busy.append(is_busy)

    def announce(self) -> None:
        """Announce that the server is about to stop; doing it again changes nothing."""
        if not self.is_announced:
            self.is_announced = True
            for announce in self._told_first:
                announce()

    def begin(self) -> None:
        """Begin the stop, and notify all parts; doing it again changes nothing."""
        if self._until is None:
            self.announce()
            self._until = time.monotonic() + self._seconds
            for stop in self._told:
                stop()

    @property
    def is_busy(self) -> bool:
        """Whether there is work in progress."""
        return any(is_busy() for is_busy in self._busy)

    def seconds_left(self) -> float:
        """The rest of the time, in seconds; begins the stop, if it has not begun."""
        self.begin()
        return max(0.0, (self._until or 0.0) - time.monotonic())

    @property
    def is_half_over(self) -> bool:
        """Whether it is time to take no more calls, so that those in progress can end."""
        return self.seconds_left() <= self._seconds / 2
