"""How many synchronous runs wait for a place at this server, and how many have got none."""

from collections.abc import Callable, Iterator

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class PlaceFigures(msgspec.Struct, frozen=True):
    """The runs that wait, those that were refused since the start, and whether the server is under pressure."""

    waiting: int
    refused: int
    is_pressed: bool


class PlaceMeter(Collector):
    """Tells the figures of the places.

    Their `sources` are asked when somebody reads the metrics; a worker has none.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.sources: list[Callable[[], PlaceFigures]] = []
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Make the samples, as a registry asks for them."""
        for figures in (source() for source in self.sources):
            yield GaugeMetricFamily(
                "fairlead_runs_waiting", "Synchronous runs that wait for a place at this server.", figures.waiting
            )
            yield CounterMetricFamily(
                "fairlead_runs_refused", "Synchronous runs that were refused for want of a place.", figures.refused
            )
            yield GaugeMetricFamily(
                "fairlead_under_pressure",
                "Whether more synchronous runs come than this server can do, so that some are refused at once.",
                float(figures.is_pressed),
            )
