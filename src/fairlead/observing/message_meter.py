"""The outcomes of messages between servers, where there is a messenger."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.observing.deliveries import MessengerConnected, MessengerLost


class MessageMeter(Collector):
    """Says whether the messenger is there, once that was observed, and how many messages had which outcome.

    The `sources` of the counts are asked when somebody reads the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.sources: list[Callable[[], Mapping[str, int]]] = []
        self._is_connected: bool | None = None
        registry.register(self)

    def observe(self, observation: MessengerConnected | MessengerLost) -> None:
        """Take note of the connection."""
        self._is_connected = isinstance(observation, MessengerConnected)

    def collect(self) -> Iterator[Metric]:
        """Make the samples, as a registry asks for them."""
        if self._is_connected is None:
            return
        yield GaugeMetricFamily(
            "fairlead_messenger_connected", "Whether there is a connection to NATS.", float(self._is_connected)
        )
        outcomes = CounterMetricFamily(
            "fairlead_messages", "Messages between servers, by what became of them.", labels=("outcome",)
        )
        for source in self.sources:
            for outcome, count in source().items():
                outcomes.add_metric((outcome,), count)
        yield outcomes
