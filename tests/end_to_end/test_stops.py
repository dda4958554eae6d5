"""Servers that are told to stop: what they say meanwhile, what they finish, and what is left for the next one."""

import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from end_to_end.test_workflows import ENV as JOBS
from end_to_end.workflow_clients import WorkflowClient, graph_showing, node
from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from servers import Server, serving, wait_until

_ENV = {"FAIRLEAD_PROVIDER_FAKE_KEY": SECRET}
_PLAIN = ("--no-local-partner",)
_PATH = "/v2/models/fake/json-1"


def _begin_run(server: Server, answers: list[httpx.Response]) -> threading.Thread:
    """Begin a run on a connection of its own."""
    asked = threading.Thread(
        target=lambda: answers.append(
            httpx.post(server.url + _PATH, json={}, headers={"X-API-Key": server.key}, timeout=60)
        )
    )
    asked.start()
    return asked


@pytest.mark.single_server("it sends a signal to one server")
def test_server_that_drains_says_so_and_still_answers(
    tmp_path: Path, catalog: CatalogFolder, partner: FakePartner
) -> None:
    """A load balancer sees it in time, and until then no call fails; the one under way ends well."""
    partner.script("/json", partner.hold(reply(200, b'{"late":1}')), reply(200, b'{"new":1}'))
    with serving(tmp_path / "data", catalog=catalog.path, env=_ENV, arguments=_PLAIN) as server:
        assert server.client.get("/readyz").json() == {"status": "ready"}
        answers: list[httpx.Response] = []
        asked = _begin_run(server, answers)
        wait_until(lambda: len(partner.requests("/json")) == 1, "a run at the partner")
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: httpx.get(f"{server.url}/readyz").json() == {"status": "draining"}, "it drains")
        assert httpx.get(f"{server.url}/readyz").status_code == 503
        new = httpx.post(server.url + _PATH, json={}, headers={"X-API-Key": server.key}, timeout=30)
        partner.release()
        asked.join(30)
        assert server.process.wait(30) == 0
    assert [(answer.status_code, answer.json()) for answer in (*answers, new)] == [
        (200, {"late": 1}),
        (200, {"new": 1}),
    ]


def test_run_that_outlives_the_drain_is_refused_in_the_routers_format(
    tmp_path: Path, catalog: CatalogFolder, partner: FakePartner
) -> None:
    """Its caller reads JSON with the bucket, not a line of plain text; the next server settles the run."""
    partner.script("/json", partner.hold(reply()))
    env = {**_ENV, "FAIRLEAD_DRAIN_SECONDS": "0.2"}
    server = Server(tmp_path / "data", catalog=catalog.path, env=env, arguments=_PLAIN)
    answers: list[httpx.Response] = []
    asked = _begin_run(server, answers)
    wait_until(lambda: len(partner.requests("/json")) == 1, "a run at the partner")
    assert server.stop() == 0
    asked.join(30)
    (answer,) = answers
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/json")
    assert answer.json()["error_type"] == "service_unavailable"
    assert answer.headers["x-service-request-id"]
    assert server.logged_events("UnexpectedError") == []
    partner.release()
    with serving(tmp_path / "data", catalog=catalog.path, env=_ENV, arguments=_PLAIN) as second:
        second.wait_until_drained()


def test_stopping_server_has_the_models_run_that_its_own_jobs_need(tmp_path: Path) -> None:
    """The run of a partner node is queued after the signal; the job ends before the server does."""
    server = Server(tmp_path / "data", env={**JOBS, "FAIRLEAD_DRAIN_SECONDS": "60"})
    client = WorkflowClient(server)
    graph: dict[str, Any] = {
        "1": node("Slowly", value=10),
        "2": node("PartnerLocalProceduralImage1", prompt="a harbour", width=64, height=64, seed=["1", 0]),
        "3": node("PreviewImage", images=["2", 0]),
    }
    job = client.submit(graph, extra_data={"api_key_service_org": client.key})
    wait_until(lambda: client.status(job) == "in_progress", "it is executed")
    client.http.close()
    assert server.stop() == 0
    assert [row["kind"] for row in server.ledger()] == ["hold", "post"]
    with serving(tmp_path / "data", env=JOBS) as second:
        again = WorkflowClient(second, client.key)
        found = again.http.get(f"/api/jobs/{job}").json()
        assert found["status"] == "completed"
        again.http.close()


def test_job_that_outlives_every_drain_is_executed_again_by_the_next_server(tmp_path: Path) -> None:
    """However often servers are restarted in good order, the job is executed again and ends."""
    env = {**JOBS, "FAIRLEAD_DRAIN_SECONDS": "0.1"}
    first = Server(tmp_path / "data", env=env)
    client = WorkflowClient(first)
    job = client.submit(graph_showing("Slowly", value=12))
    _stopped_while_it_runs(first, client, job)
    for _ in range(3):
        server = Server(tmp_path / "data", env=env)
        _stopped_while_it_runs(server, WorkflowClient(server, client.key), job)
    with serving(tmp_path / "data", env=JOBS) as last:
        again = WorkflowClient(last, client.key)
        assert again.wait_for_end(job)["status"] == "completed"
        again.http.close()


def _stopped_while_it_runs(server: Server, client: WorkflowClient, job: str) -> None:
    wait_until(lambda: client.status(job) == "in_progress", "it is executed")
    client.http.close()
    assert server.stop() == 0
