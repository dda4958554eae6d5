"""Prometheus metrics, as one listener to observations (docs/observing.md names them all)."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from fairlead.domain.jobs.errors import JOB_ERRORS
from fairlead.domain.ledger.money import UNITS_PER_DOLLAR
from fairlead.observing.blobs import BlobDamaged, BlobMissing, BlobStoreProven, BlobStoreUnproven, BlobTrouble
from fairlead.observing.deliveries import AlertGivenUp, MessengerConnected, MessengerLost, WebhookGivenUp, WebhookTried
from fairlead.observing.installation import InstallationSeen
from fairlead.observing.installation_meter import InstallationMeter
from fairlead.observing.latency_meters import DatabaseMeter
from fairlead.observing.loop_meter import LoopMeter
from fairlead.observing.message_meter import MessageMeter
from fairlead.observing.observations import (
    AnswerLeftRaw,
    AssetCopied,
    AssetCopyFailed,
    BodyReaderFailed,
    CallRepeated,
    CancelPassedOn,
    CatalogRefused,
    ClockCompared,
    CredentialHealth,
    CredentialRefused,
    DatabaseTrouble,
    DeadlinePassed,
    EngineConfined,
    EngineHostStarted,
    EngineHostStopped,
    FaultAnswered,
    JobEnded,
    JobsUnderWay,
    JobTakenOver,
    JournalSplit,
    ModerationFailed,
    NodePackLoaded,
    Observation,
    PartnerReportedMore,
    PartnerStopped,
    ProviderNotConfigured,
    QueueDepth,
    RunClaimed,
    RunEnded,
    RunPostponed,
    RunRedirected,
    RunTakenOver,
    RunWithdrawn,
    UnexpectedError,
    by_type,
)
from fairlead.observing.place_meter import PlaceMeter
from fairlead.observing.run_meters import PARTNER_SECONDS, RunMeters

_EVENTS: Final = (
    AlertGivenUp,
    AnswerLeftRaw,
    BlobDamaged,
    BlobMissing,
    BlobTrouble,
    CancelPassedOn,
    BodyReaderFailed,
    CatalogRefused,
    CredentialRefused,
    DatabaseTrouble,
    DeadlinePassed,
    JournalSplit,
    ModerationFailed,
    PartnerStopped,
    ProviderNotConfigured,
    RunTakenOver,
    RunWithdrawn,
    UnexpectedError,
    WebhookGivenUp,
)
_HEALTHS: Final = {"ready": 0.0, "probing": 0.5, "cooling_down": 1.0}
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_STARTS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_RECEIVERS: Final = (0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15)


class _AssetCounters:
    """Counts the copies of result assets, and says whether their store is the installation's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._copied = Counter(
            "fairlead_assets_copied", "Result assets copied to our storage.", ("provider",), registry=registry
        )
        self._bytes = Counter(
            "fairlead_asset_bytes_copied", "Bytes of result assets copied.", ("provider",), registry=registry
        )
        self._failed = Counter(
            "fairlead_asset_copies_failed",
            "Result assets that could not be copied, by why.",
            ("provider", "reason"),
            registry=registry,
        )

        self._proven = Gauge(
            "fairlead_blob_store_proven",
            "Whether this server's store for files is known to be the one that the installation has recorded.",
            registry=registry,
        )

    def observe(self, observation: AssetCopied | AssetCopyFailed | BlobStoreProven | BlobStoreUnproven) -> None:
        match observation:
            case BlobStoreProven() | BlobStoreUnproven():
                self._proven.set(isinstance(observation, BlobStoreProven))
            case AssetCopied(provider=provider, size=size):
                self._copied.labels(provider).inc()
                self._bytes.labels(provider).inc(size)
            case AssetCopyFailed(provider=provider, reason=reason):
                self._failed.labels(provider, reason).inc()


class _LegCounters:
    """Counts what is done about failing partners."""

    def __init__(self, registry: CollectorRegistry) -> None:
        by_provider = partial(Counter, labelnames=("provider",), registry=registry)
        self._repeated = by_provider("fairlead_calls_repeated", "Calls sent again that a provider did not take.")
        self._postponed = by_provider(
            "fairlead_runs_postponed", "Times that queued runs went back to wait for their provider."
        )
        self._redirected = Counter(
            "fairlead_runs_redirected",
            "Runs that went on at another provider.",
            ("from_provider", "to_provider"),
            registry=registry,
        )
        self._cooldowns = Gauge(
            "fairlead_provider_cooldown",
            "Whether a credential of a provider cools down (1), has a probe under way (0.5) or is ready (0).",
            ("provider", "credential"),
            registry=registry,
        )
        self._cooling_workspaces = Gauge(
            "fairlead_provider_cooldown_workspaces",
            "For how many workspaces a credential of a provider cools down, each by its own runs.",
            ("provider", "credential"),
            registry=registry,
        )
        self._reported_more = Counter(
            "fairlead_runs_reported_more",
            "Runs for which a provider reported more than was held.",
            ("model", "provider"),
            registry=registry,
        )
        self._uncharged = Counter(
            "fairlead_uncharged_dollars",
            "What these runs would have cost beyond their charge.",
            ("model", "provider"),
            registry=registry,
        )

    def observe(
        self, observation: CallRepeated | RunRedirected | RunPostponed | CredentialHealth | PartnerReportedMore
    ) -> None:
        match observation:
            case PartnerReportedMore(model_id=model, provider=provider):
                self._reported_more.labels(model, provider).inc()
                self._uncharged.labels(model, provider).inc(observation.excess / UNITS_PER_DOLLAR)
            case CallRepeated(provider=provider):
                self._repeated.labels(provider).inc()
            case RunRedirected(from_provider=first, to_provider=second):
                self._redirected.labels(first, second).inc()
            case RunPostponed(provider=provider):
                self._postponed.labels(provider).inc()
            case CredentialHealth(provider=provider, label=label, health=health, workspaces=workspaces):
                self._cooldowns.labels(provider, label).set(_HEALTHS[health])
                self._cooling_workspaces.labels(provider, label).set(workspaces)


class _QueueMeters:
    """Measures the queue: how long it is, how long runs stand in it, and the clock by which servers lease them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._waiting = Gauge(
            "fairlead_queue_waiting", "Queued runs that no worker has claimed, on all servers.", registry=registry
        )
        self._parked = Gauge(
            "fairlead_queue_parked", "Of them, those that wait for a slot of their workspace.", registry=registry
        )
        self._waited = Histogram(
            "fairlead_queue_seconds",
            "Time of a queued run from its submission to its claim.",
            buckets=PARTNER_SECONDS,
            registry=registry,
        )

        self._clock_ahead = Gauge(
            "fairlead_clock_ahead_seconds",
            "How far this machine's clock is ahead of the database's.",
            registry=registry,
        )

    def observe(self, observation: QueueDepth | RunClaimed | ClockCompared) -> None:
        match observation:
            case ClockCompared(ahead=ahead):
                self._clock_ahead.set(ahead)
            case QueueDepth(waiting=waiting, parked=parked):
                self._waiting.set(waiting)
                self._parked.set(parked)
            case RunClaimed(waited=waited):
                self._waited.observe(waited)


class _WebhookCounters:
    """Counts the tries of webhooks, and times them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tries = Counter(
            "fairlead_webhook_tries", "Webhooks posted, by what came of it.", ("result",), registry=registry
        )
        self._seconds = Histogram(
            "fairlead_webhook_seconds", "Time a receiver took.", buckets=_RECEIVERS, registry=registry
        )

    def observe(self, observation: WebhookTried) -> None:
        self._tries.labels("delivered" if observation.delivered else "failed").inc()
        self._seconds.observe(observation.milliseconds / 1000)


class _JobMeters:
    """Counts jobs, and times them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._ended = Counter(
            "fairlead_jobs",
            "Jobs that ended, by how: the state, and the kind of error where it is one of ours.",
            ("state", "exception_type"),
            registry=registry,
        )
        self._waited = Histogram(
            "fairlead_job_waited_seconds",
            "Time of a job from its submission to its start.",
            buckets=PARTNER_SECONDS,
            registry=registry,
        )
        self._seconds = Histogram(
            "fairlead_job_seconds", "Time a job was executed.", buckets=PARTNER_SECONDS, registry=registry
        )
        self._taken_over = Counter(
            "fairlead_jobs_taken_over", "Jobs whose server fell silent while it had them.", registry=registry
        )
        self._under_way = Gauge("fairlead_jobs_under_way", "Jobs executed by this process.", registry=registry)
        self._confinement = Gauge(
            "fairlead_engine_confinement",
            "Whether a mechanism that confines the engine's processes holds.",
            ("mechanism",),
            registry=registry,
        )

    def observe(self, observation: JobEnded | JobsUnderWay | JobTakenOver | EngineConfined) -> None:
        match observation:
            case EngineConfined(held=held, missing=missing):
                for mechanism in (*held, *missing):
                    self._confinement.labels(mechanism).set(mechanism in held)
            case JobEnded(state=state, exception_type=kind, waited=waited, seconds=seconds):
                self._ended.labels(state, kind if kind in JOB_ERRORS else "other" if kind else "").inc()
                self._waited.observe(waited)
                self._seconds.observe(seconds)
            case JobsUnderWay(jobs=jobs):
                self._under_way.set(jobs)
            case JobTakenOver():
                self._taken_over.inc()


class _EngineMeters:
    """Counts engine processes, and says how node packs are."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._started = Counter(
            "fairlead_engine_processes_started",
            "Engine processes that took work, by what they are for.",
            ("kind",),
            registry=registry,
        )
        self._seconds = Histogram(
            "fairlead_engine_process_start_seconds",
            "Time an engine process took to take work.",
            ("kind",),
            buckets=_STARTS,
            registry=registry,
        )
        self._ended = Counter(
            "fairlead_engine_processes_ended",
            "Engine processes that ended, by whether they did so by themselves.",
            ("by_itself",),
            registry=registry,
        )
        self._packs = Gauge(
            "fairlead_node_pack_usable",
            "Whether a node pack is used (1), or was left out when it was tried (0).",
            ("pack",),
            registry=registry,
        )

    def observe(self, observation: EngineHostStarted | EngineHostStopped | NodePackLoaded) -> None:
        match observation:
            case EngineHostStarted(kind=kind, seconds=seconds):
                self._started.labels(kind).inc()
                self._seconds.labels(kind).observe(seconds)
            case EngineHostStopped(by_itself=by_itself):
                self._ended.labels("yes" if by_itself else "no").inc()
            case NodePackLoaded(name=name, nodes=nodes, error=error):
                self._packs.labels(name).set(0.0 if error is not None and not nodes else 1.0)


class Build(msgspec.Struct, frozen=True):
    """Which program this is: its version, the revision of its schema, that of Python, and its kind of database."""

    version: str
    schema: str
    python: str
    database: str


class Metrics:
    """Counts what is observed; `page` is what /metrics answers.

    `meters` are those of parts that count for themselves.
    """

    def __init__(self, build: Build | None = None, meters: Iterable[Collector] = ()) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        if build is not None:
            about = Info("fairlead_build", "Which program this is.", registry=self.registry)
            about.info(msgspec.structs.asdict(build))
        for meter in meters:
            self.registry.register(meter)
        self._assets = _AssetCounters(self.registry)
        self._legs = _LegCounters(self.registry)
        self._webhooks = _WebhookCounters(self.registry)
        self._queue = _QueueMeters(self.registry)
        self._jobs = _JobMeters(self.registry)
        self._engine = _EngineMeters(self.registry)
        self._runs = RunMeters()
        self.loop = LoopMeter(self.registry)
        self.database = DatabaseMeter(self.registry)
        self._installation = InstallationMeter(self.registry)
        self.messages = MessageMeter(self.registry)
        self.places = PlaceMeter(self.registry)
        self.registry.register(self._runs)
        self.in_flight = Gauge("fairlead_runs_in_flight", "Runs under way in this process.", registry=self.registry)
        self.journals: list[Callable[[], int]] = []
        """How many entries wait in each journal, asked when somebody reads the metrics."""
        Gauge(
            "fairlead_journal_entries_waiting", "Entries that wait to be durable.", registry=self.registry
        ).set_function(lambda: sum(waiting() for waiting in self.journals))
        self._faults = Counter(
            "fairlead_faults_answered", "Calls that were answered with a fault.", ("bucket",), registry=self.registry
        )
        self._events = Counter(
            "fairlead_events", "Things an operator should look into, by kind.", ("kind",), registry=self.registry
        )
        self.observe: Final = by_type(self._listeners())
        """Counts one observation."""

    def page(self, seen: InstallationSeen) -> bytes:
        """The metrics in Prometheus's text format, with the figures of the installation as it was just seen."""
        self._installation.note(seen)
        return generate_latest(self.registry)

    def _count_fault(self, answered: FaultAnswered) -> None:
        self._faults.labels(answered.result).inc()

    def _count_event(self, observation: Observation) -> None:
        self._events.labels(type(observation).__name__).inc()

    def _listeners(self) -> Mapping[type[object], Callable[[Any], None]]:
        return {
            RunEnded: self._runs.observe,
            FaultAnswered: self._count_fault,
            WebhookTried: self._webhooks.observe,
            **dict.fromkeys((QueueDepth, RunClaimed, ClockCompared), self._queue.observe),
            **dict.fromkeys((MessengerConnected, MessengerLost), self.messages.observe),
            **dict.fromkeys((AssetCopied, AssetCopyFailed, BlobStoreProven, BlobStoreUnproven), self._assets.observe),
            **dict.fromkeys(
                (CallRepeated, RunRedirected, RunPostponed, CredentialHealth, PartnerReportedMore), self._legs.observe
            ),
            **dict.fromkeys((JobEnded, JobsUnderWay, JobTakenOver, EngineConfined), self._jobs.observe),
            **dict.fromkeys((EngineHostStarted, EngineHostStopped, NodePackLoaded), self._engine.observe),
            **dict.fromkeys(_EVENTS, self._count_event),
        }
