"""What an operator's tools ask a server: alive, ready, and its counts."""

from pathlib import Path

import httpx
import pytest

from fake_partner import FakePartner, reply
from servers import Server, serving, wait_until


def test_operator_routes_need_no_key(router: Server) -> None:
    """The operator's routes need no credential."""
    for path in ("/healthz", "/readyz", "/metrics"):
        response = httpx.get(router.url + path)
        assert response.status_code == 200
        assert response.headers["x-service-request-id"]
    assert httpx.get(f"{router.url}/healthz").json() == {"status": "ok"}
    assert httpx.get(f"{router.url}/readyz").json() == {"status": "ready"}


def test_server_without_its_database_is_not_ready(tmp_path: Path) -> None:
    """Without its database a server lives, is not ready, refuses runs with 503, and recovers by itself."""
    with serving(tmp_path / "data", arguments=("--no-local-partner",)) as server:
        database = server.data / "fairlead.db"
        away = database.rename(tmp_path / "away.db")
        not_ready = server.client.get("/readyz")
        assert not_ready.status_code == 503
        assert not_ready.json() == {"status": "unready", "problems": ["the database cannot be written"]}
        assert server.client.get("/healthz").status_code == 200
        listed = server.client.get("/v2/models")
        assert (listed.status_code, listed.json()["error_type"]) == (503, "service_unavailable")
        assert "retry-after" not in listed.headers
        away.rename(database)
        wait_until(lambda: server.client.get("/readyz").status_code == 200, "ready again")


def test_metrics_have_their_documented_names(router: Server, partner: FakePartner) -> None:
    """Dashboards are made of these names: runs by end, money, time, refusals, and what waits."""
    router.client.post("/v2/models/fake/json-1", json={})
    router.client.get("/nowhere")
    page = router.client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    declared = {line.split(" ")[2] for line in page.text.splitlines() if line.startswith("# TYPE fairlead_")}
    assert {
        "fairlead_runs_total",
        "fairlead_charged_dollars_total",
        "fairlead_run_own_seconds",
        "fairlead_run_partner_seconds",
        "fairlead_runs_in_flight",
        "fairlead_journal_entries_waiting",
        "fairlead_callers_left_total",
        "fairlead_event_loop_lag_seconds",
        "fairlead_event_loop_lag_max_seconds",
        "fairlead_runs_outcome_unknown_total",
        "fairlead_events_total",
    } <= declared
    assert len(partner.requests("/json")) == 1


@pytest.mark.req("R-19")
def test_run_is_counted_under_its_bucket(router: Server, partner: FakePartner) -> None:
    """A run is counted by model, provider and how it ended; its charge by model and provider."""
    labels = {"model": "fake/json-1", "provider": "fake"}
    partner.script("/json", reply(500), reply(200))
    for bucket in ("provider_error", "success"):
        runs = router.metric("fairlead_runs_total", bucket=bucket, **labels)
        money = router.metric("fairlead_charged_dollars_total", **labels)
        router.client.post("/v2/models/fake/json-1", json={})
        assert router.metric("fairlead_runs_total", bucket=bucket, **labels) == runs + 1
        charged = router.metric("fairlead_charged_dollars_total", **labels) - money
        assert charged == pytest.approx(0.01 if bucket == "success" else 0)
