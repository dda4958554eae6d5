"""Metrics: what is observed is counted under the names the manual gives."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram, generate_latest

from fairlead.observing.blobs import BlobTrouble
from fairlead.observing.deliveries import WebhookGivenUp, WebhookTried
from fairlead.observing.installation import InstallationSeen
from fairlead.observing.metrics import Metrics
from fairlead.observing.observations import (
    AssetCopied,
    AssetCopyFailed,
    DatabaseTrouble,
    FaultAnswered,
    PartnerReportedMore,
    RunEnded,
    ServerReady,
)
from fairlead.observing.run_meters import PARTNER_SECONDS

ENDED = RunEnded(
    run_id="run-1",
    workspace="default",
    model_id="acme/x",
    provider="acme",
    result="success",
    charge=50_000_000,
    upstream_status=200,
    started_at_ns=0,
    seconds=1.5,
    partner_seconds=1.25,
    caller_left=False,
    attempt=1,
    traceparent=None,
)


def test_run_is_counted_by_model_provider_and_result() -> None:
    """A run counts by model, provider and result, with its charge and both parts of its time."""
    metrics = Metrics()
    metrics.observe(ENDED)
    page = metrics.page(NOTHING_SEEN).decode()
    assert 'fairlead_runs_total{bucket="success",model="acme/x",provider="acme"} 1.0' in page
    assert 'fairlead_charged_dollars_total{model="acme/x",provider="acme"} 0.5' in page
    assert "fairlead_run_own_seconds_sum 0.25" in page
    assert 'fairlead_run_partner_seconds_sum{provider="acme"} 1.25' in page


NOTHING_SEEN = InstallationSeen()
TIMES = st.one_of(st.sampled_from([*PARTNER_SECONDS, 0.0, 9_999.0]), st.floats(0, 4_000))


@given(st.lists(TIMES, max_size=30))
def test_histogram_agrees_with_that_of_prometheus(times: list[float]) -> None:
    """What is told of times is what Prometheus's own histogram tells of them, on the bounds and between them."""
    metrics, registry = Metrics(), CollectorRegistry()
    histogram = Histogram("seconds", "x", ("provider",), buckets=PARTNER_SECONDS, registry=registry)
    for seconds in times:
        metrics.observe(msgspec.structs.replace(ENDED, seconds=seconds, partner_seconds=seconds))
        histogram.labels("acme").observe(seconds)
    ours = lines_of(metrics.page(NOTHING_SEEN), "fairlead_run_partner_seconds_")
    assert ours == lines_of(generate_latest(registry), "seconds_")


def lines_of(page: bytes, prefix: str) -> list[str]:
    """The samples of a page whose names begin so, without that beginning; without times of creation."""
    lines = [line.removeprefix(prefix) for line in page.decode().splitlines() if line.startswith(prefix)]
    return sorted(line for line in lines if not line.startswith("created"))


def test_runs_are_counted_by_end_and_charged_in_one_sum() -> None:
    """The charges of a model on a provider are one sum, however its runs ended; each end has a count of its own."""
    metrics = Metrics()
    for result, charge in (("success", 1), ("success", 2), ("content_policy_violation", 4), ("lost", 0)):
        metrics.observe(msgspec.structs.replace(ENDED, result=result, charge=charge))
    names = {"model": "acme/x", "provider": "acme"}
    assert metrics.registry.get_sample_value("fairlead_charged_dollars_total", names) == 7e-8
    counted = [
        metrics.registry.get_sample_value("fairlead_runs_total", {**names, "bucket": result})
        for result in ("success", "content_policy_violation", "lost")
    ]
    assert counted == [2, 1, 1]


def test_lost_runs_and_departed_callers_are_counted() -> None:
    """What an operator should look into has counters of its own."""
    metrics = Metrics()
    metrics.observe(msgspec.structs.replace(ENDED, result="lost", charge=0, caller_left=True))
    page = metrics.page(NOTHING_SEEN).decode()
    assert "fairlead_runs_outcome_unknown_total 1.0" in page
    assert "fairlead_callers_left_total 1.0" in page
    assert "fairlead_charged_dollars_total{" not in page


def test_faults_events_and_waiting_entries_are_counted() -> None:
    """Faults count by bucket, events by kind; the journals' entries are a gauge; the rest is not counted."""
    metrics = Metrics()
    metrics.observe(FaultAnswered("r", "/v2/models", "unauthorized"))
    metrics.observe(DatabaseTrouble("admit", "locked"))
    metrics.journals += [lambda: 5, lambda: 2]
    metrics.observe(ServerReady("http://x"))
    page = metrics.page(NOTHING_SEEN).decode()
    assert 'fairlead_faults_answered_total{bucket="unauthorized"} 1.0' in page
    assert 'fairlead_events_total{kind="DatabaseTrouble"} 1.0' in page
    assert "fairlead_journal_entries_waiting 7.0" in page


def test_report_beyond_a_hold_is_counted_with_what_it_costs_us() -> None:
    """Runs for which a partner reported more, and the dollars that nobody was charged."""
    metrics = Metrics()
    for _ in range(2):
        metrics.observe(PartnerReportedMore("run-1", "acme/x", "fal", charged=15_000_000, reported=40_000_000))
    page = metrics.page(NOTHING_SEEN).decode()
    assert 'fairlead_runs_reported_more_total{model="acme/x",provider="fal"} 2.0' in page
    assert 'fairlead_uncharged_dollars_total{model="acme/x",provider="fal"} 0.5' in page


def test_copied_assets_are_counted() -> None:
    """Copies count by provider with their bytes, failed ones by why, and a store that is away as an event."""
    metrics = Metrics()
    for size in (5, 7):
        metrics.observe(AssetCopied("run-1", "acme", "image/png", size))
    metrics.observe(AssetCopyFailed("run-1", "acme", "https://cdn.example/a", "too_slow"))
    metrics.observe(BlobTrouble("sweep assets", "full"))
    page = metrics.page(NOTHING_SEEN).decode()
    assert 'fairlead_assets_copied_total{provider="acme"} 2.0' in page
    assert 'fairlead_asset_bytes_copied_total{provider="acme"} 12.0' in page
    assert 'fairlead_asset_copies_failed_total{provider="acme",reason="too_slow"} 1.0' in page
    assert 'fairlead_events_total{kind="BlobTrouble"} 1.0' in page


def test_webhook_tries_are_counted() -> None:
    """Tries count by what came of them, with the receiver's time; one that is given up is an event."""
    metrics = Metrics()
    metrics.observe(WebhookTried("run-1", 1, 500, 503, None, delivered=False))
    metrics.observe(WebhookTried("run-1", 2, 250, 204, None, delivered=True))
    metrics.observe(WebhookGivenUp("run-2", 8, 503, None))
    page = metrics.page(NOTHING_SEEN).decode()
    assert 'fairlead_webhook_tries_total{result="failed"} 1.0' in page
    assert 'fairlead_webhook_tries_total{result="delivered"} 1.0' in page
    assert "fairlead_webhook_seconds_sum 0.75" in page
    assert 'fairlead_events_total{kind="WebhookGivenUp"} 1.0' in page
