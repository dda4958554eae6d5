"""How late the event loop is: what every caller of a server waits for, whatever it is that holds it up."""

from collections import deque
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, Histogram

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WINDOW_SECONDS: Final = 60.0


class LoopMeter:
    """Keeps the delays of the event loop, all of them in a histogram and the longest of the last minute."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Histogram(
            "fairlead_event_loop_lag_seconds",
            "How much later than it should the event loop came back to a task that sleeps.",
            buckets=_SECONDS,
            registry=registry,
        )
        longest = Gauge(
            "fairlead_event_loop_lag_max_seconds", "The longest of these in the last minute.", registry=registry
        )
        longest.set_function(self.longest)
        self._longest: deque[tuple[float, float]] = deque()
        """When and how late, each shorter than the one before: what is shorter and older can be the longest no more."""
        self._now = 0.0

    def record(self, now: float, late: float) -> None:
        """Note that it was so many seconds late, by a clock that only goes on."""
        self._now = now
        self._lag.observe(late)
        while self._longest and self._longest[-1][1] <= late:
            self._longest.pop()
        self._longest.append((now, late))
        self._forget()

    def longest(self) -> float:
        """The longest delay of the last minute, in seconds."""
        self._forget()
        return self._longest[0][1] if self._longest else 0.0

    def _forget(self) -> None:
        while self._longest and self._longest[0][0] < self._now - _WINDOW_SECONDS:
            self._longest.popleft()
