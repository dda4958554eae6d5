"""The figures of an installation for /metrics: those of the last look, or none where it did not come to an end."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fairlead.observing.installation import InstallationSeen


class InstallationMeter(Collector):
    """Shows what was seen last. What was not seen has no sample, so that no old figure is taken for a new one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seen = InstallationSeen()
        registry.register(self)

    def note(self, seen: InstallationSeen) -> None:
        """Show this from now on."""
        self._seen = seen

    def collect(self) -> Iterator[Metric]:
        """Make the samples, as a registry asks for them."""
        yield from self._backlogs()
        yield from self._pools()
        yield from self._servers()
        yield from self._database()
        yield from self._problems()
        yield from self._cautions()
        disk = self._seen.disk
        yield _gauge(
            "fairlead_disk_free_bytes",
            "Free bytes on the disk of the data directory.",
            None if disk is None else disk.free,
        )
        yield _gauge("fairlead_disk_size_bytes", "All bytes of that disk.", None if disk is None else disk.size)

    def _backlogs(self) -> Iterator[Metric]:
        labels = ("kind", "subscription", "state")
        waiting = GaugeMetricFamily("fairlead_backlog", "Runs and jobs that no server has claimed.", labels=labels)
        oldest = GaugeMetricFamily(
            "fairlead_backlog_oldest_seconds", "How long the oldest of them has waited.", labels=labels[:2]
        )
        for one in self._seen.backlogs:
            waiting.add_metric((one.kind, one.subscription, "parked"), one.parked)
            waiting.add_metric((one.kind, one.subscription, "released"), one.waiting - one.parked)
            oldest.add_metric((one.kind, one.subscription), one.oldest)
        yield from (waiting, oldest)

    def _pools(self) -> Iterator[Metric]:
        labels = ("kind", "pool")
        words = "Released runs and jobs that wait for a server of their pool."
        waiting = GaugeMetricFamily("fairlead_pool_waiting", words, labels=labels)
        unattended = GaugeMetricFamily("fairlead_pool_unattended", "Those of them nobody works for.", labels=labels)
        for one in self._seen.pools:
            waiting.add_metric((one.kind, one.pool), one.waiting)
            unattended.add_metric((one.kind, one.pool), one.unattended)
        yield from (waiting, unattended)

    def _servers(self) -> Iterator[Metric]:
        seen = self._seen.servers
        servers = GaugeMetricFamily("fairlead_servers", "Servers that share the database.", labels=("state",))
        if seen is not None:
            servers.add_metric(("alive",), seen.alive)
            servers.add_metric(("silent",), seen.silent)
        yield servers
        age = None if seen is None else seen.oldest_lease
        yield _gauge("fairlead_lease_oldest_seconds", "The age of the oldest lease of a server that is alive.", age)

    def _problems(self) -> Iterator[Metric]:
        words = "Whether /readyz names a problem of this subject (1) or not (0)."
        problems = GaugeMetricFamily("fairlead_problem", words, labels=("subject",))
        for subject, is_wrong in self._seen.problems.items():
            problems.add_metric((subject,), is_wrong)
        yield problems

    def _cautions(self) -> Iterator[Metric]:
        words = "Rate cards in force that deserve attention, by why."
        cards = GaugeMetricFamily("fairlead_rate_cards_cautioned", words, labels=("caution",))
        for caution, number in self._seen.cautions.items():
            cards.add_metric((caution,), number)
        yield cards

    def _database(self) -> Iterator[Metric]:
        seen = self._seen.database
        yield _gauge("fairlead_database_up", "Whether the database answered the look (1) or not (0).", int(bool(seen)))
        size, wal = (None, None) if seen is None else (seen.size, seen.wal)
        yield _gauge("fairlead_database_size_bytes", "Bytes of the database.", size)
        yield _gauge("fairlead_database_wal_bytes", "Bytes of its log since the last checkpoint.", wal)
        words = "Connections to the database server, of all programs."
        connections = GaugeMetricFamily("fairlead_database_connections", words, labels=("state",))
        if seen is not None and seen.connections is not None and seen.connections_most is not None:
            connections.add_metric(("open",), seen.connections)
            connections.add_metric(("most",), seen.connections_most)
        yield connections


def _gauge(name: str, words: str, value: float | None) -> Metric:
    """A gauge, which has no sample where there is no value."""
    family = GaugeMetricFamily(name, words)
    if value is not None:
        family.add_metric((), value)
    return family
