"""The delay of the event loop, for which every caller of a server waits."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.observing.run_meters import Times

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WINDOW_SECONDS: Final = 60.0


class LoopMeter(Collector):
    """Keeps the delays of the event loop, all of them in a histogram and the longest of the last minute.

    They are plain figures until somebody reads them: forty times a second, a histogram of the library would cost as
    much as the measurement itself.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lag = Times(_SECONDS)
        self._longest: deque[tuple[float, float]] = deque()
        """When and how late, each shorter than the one before: what is shorter and older can be the longest no more."""
        registry.register(self)

    def record(self, now: float, late: float) -> None:
        """Record a delay (seconds) at a time of the monotonic clock."""
        self._lag.add(late)
        longest = self._longest
        while longest and longest[-1][1] <= late:
            longest.pop()
        longest.append((now, late))
        while longest[0][0] < now - _WINDOW_SECONDS:
            longest.popleft()

    def longest(self) -> float:
        """The longest delay of the last minute, in seconds."""
        return self._longest[0][1] if self._longest else 0.0

    def collect(self) -> Iterator[Metric]:
        """The samples, for a registry of metrics."""
        buckets, total = self._lag.sample()
        yield HistogramMetricFamily(
            "fairlead_event_loop_lag_seconds",
            "How much later than it should the event loop came back to a task that sleeps.",
            buckets=buckets,
            sum_value=total,
        )
        yield GaugeMetricFamily(
            "fairlead_event_loop_lag_max_seconds", "The longest of these in the last minute.", self.longest()
        )
