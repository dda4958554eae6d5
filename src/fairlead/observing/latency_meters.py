"""How long calls over HTTP and transactions of the database take: plain figures until the metrics are read."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.observing.run_meters import Times, TimesSample

RouteName: TypeAlias = tuple[str, str]
"""A route as the metrics name it: its method, and its path with the names of parameters instead of their values."""
UNMATCHED: Final[RouteName] = ("other", "unmatched")
"""What is counted as one route: calls that no route has answered, whatever their methods and paths."""
LEFT: Final = 499
"""The status that a call is counted with whose caller left before the answer began."""

_HTTP_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_DATABASE_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class HttpMeter(Collector):
    """Counts and times calls over HTTP by route and status; `connections` counts open connections by their kind.

    `answered` is written by the web server itself: a call costs a look-up and one call of a function.
    """

    def __init__(self, connections: Callable[[], Mapping[str, int]]) -> None:
        self.answered: Final[defaultdict[tuple[RouteName, int], Times]] = defaultdict(lambda: Times(_HTTP_SECONDS))
        self._connections = connections

    def collect(self) -> Iterator[Metric]:
        """Make the samples, as a registry asks for them."""
        calls = CounterMetricFamily(
            "fairlead_http_requests", "Calls that were answered.", labels=("method", "route", "status")
        )
        times = HistogramMetricFamily(
            "fairlead_http_request_seconds",
            "Time of a call, from the end of its head to the end of its answer.",
            labels=("method", "route"),
        )
        by_route: defaultdict[RouteName, list[TimesSample]] = defaultdict(list)
        for (name, status), answered in self.answered.items():
            buckets, _ = sample = answered.sample()
            calls.add_metric((*name, str(status)), buckets[-1][1])
            by_route[name].append(sample)
        for name, samples in by_route.items():
            times.add_metric(name, *_sum(samples))
        connections = GaugeMetricFamily("fairlead_connections_open", "Open connections.", labels=("kind",))
        for kind, count in self._connections().items():
            connections.add_metric((kind,), count)
        yield from (calls, times, connections)


def _sum(samples: Sequence[TimesSample]) -> TimesSample:
    """The histogram of all times that several histograms of the same bounds have counted."""
    rows = zip(*(buckets for buckets, _ in samples), strict=True)
    buckets = [(row[0][0], sum(count for _, count in row)) for row in rows]
    return buckets, sum(total for _, total in samples)


class DatabaseMeter(Collector):
    """Times transactions that read, those that write, and of these the commits that wait for the disk."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.read: Final = Times(_DATABASE_SECONDS)
        self.write: Final = Times(_DATABASE_SECONDS)
        self.commit: Final = Times(_DATABASE_SECONDS)
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Make the samples, as a registry asks for them."""
        times = HistogramMetricFamily(
            "fairlead_database_seconds",
            "Time of a transaction that reads or writes, with its wait for a connection; of a write, also its commit.",
            labels=("operation",),
        )
        for name in ("read", "write", "commit"):
            times.add_metric((name,), *getattr(self, name).sample())
        yield times
