"""Workers execute for their pools what servers have taken in, and have no API (M-05)."""

import http.client
import json
import re
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from end_to_end.workflow_clients import WorkflowClient, graph_showing
from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from servers import Order, Server, ServerFailedError, environment, serving, start_command, wait_until

pytestmark = [pytest.mark.req("M-05"), pytest.mark.single_server("it makes an installation of its own")]

_PACKS: Final = Path(__file__).with_name("node_packs")
_RUNS_ONLY: Final = {"FAIRLEAD_PROVIDER_FAKE_KEY": SECRET, "FAIRLEAD_SILENT_SERVER_SECONDS": "3"}
_ENV: Final = {
    **_RUNS_ONLY,
    "FAIRLEAD_LOG_LEVEL": "debug",
    "FAIRLEAD_ENGINE": "true",
    "FAIRLEAD_NODE_PACKS": str(_PACKS),
    "FAIRLEAD_ENGINE_MEMORY_MIB": "1500",
    "FAIRLEAD_POOLS": "gpu=class:Slow*,model:fake/json-1",
}
_PLAIN: Final = ("--no-local-partner",)
_PATH: Final = "/v2/models/fake/json-1"


class Worker:
    """A running worker, beside a server whose data directory it shares."""

    def __init__(self, server: Server, catalog: Path, env: Mapping[str, str], *arguments: str) -> None:
        self.log = server.data.with_name(f"worker-{len(list(server.data.parent.glob('worker-*.log')))}.log")
        words = ["work", "--data", str(server.data), "--database", str(server.database)]
        words += ["--catalog", str(catalog), "--json", *arguments]
        with self.log.open("ab") as log:
            settings = environment({"FAIRLEAD_LOCAL_PARTNER": "false", **env})
            self.process = start_command(words, settings, log.fileno())
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text("utf-8")
        self.ready: dict[str, Any] = json.loads(line)

    def logged_events(self, event: str) -> list[dict[str, Any]]:
        """Every line of one event that the worker has logged so far."""
        records = [json.loads(line) for line in self.log.read_text("utf-8").splitlines() if line.startswith("{")]
        return [record for record in records if record.get("event") == event]

    def stop(self, by: int = signal.SIGTERM) -> int:
        """Stop the worker, and return its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        status = self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status


@contextmanager
def _working(server: Server, catalog: Path, env: Mapping[str, str], *arguments: str) -> Iterator[Worker]:
    """Run a worker; afterwards it must end with status 0, unless the test ended it."""
    worker = Worker(server, catalog, env, *arguments)
    try:
        yield worker
        was_running = worker.process.poll() is None
        status = worker.stop()
        assert not was_running or status == 0, worker.log.read_text("utf-8")
        assert worker.logged_events("UnexpectedError") == []
    finally:
        worker.stop(signal.SIGKILL)


@contextmanager
def _api_alone(tmp_path: Path, database: str, catalog: CatalogFolder, env: Mapping[str, str]) -> Iterator[Server]:
    """Run a server that executes nothing which is queued."""
    words = (*_PLAIN, "--no-work")
    with serving(tmp_path / "data", database=database, catalog=catalog.path, env=env, arguments=words) as server:
        yield server


def _queue(server: Server) -> str:
    answer = server.client.post(f"{_PATH}/requests", json={})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["request_id"])


def _run_status(server: Server, run_id: str) -> str:
    return str(server.client.get(f"{_PATH}/requests/{run_id}/status").json()["status"])


def _count_unattended(server: Server, kind: str) -> float:
    """How much work of a kind waits in the pool `gpu`, which nobody works for."""
    return server.metric("fairlead_pool_unattended", kind=kind, pool="gpu")


def _result(server: Server, run_id: str) -> Any:
    wait_until(lambda: _run_status(server, run_id) == "COMPLETED", "the run's end")
    answer = server.client.get(f"{_PATH}/requests/{run_id}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_workers_execute_what_an_api_server_takes_in_each_for_its_pools(
    tmp_path: Path, postgresql_url: str, catalog: CatalogFolder, partner: FakePartner
) -> None:
    """A run and a job of the pool `gpu` wait for a worker of it, though one of `default` executes another job.

    The metrics say so until there is one.

    Both are collected at the server. Synchronous runs go on there meanwhile.
    """
    partner.script("/json", reply(200, b'{"made":1}'))
    with _api_alone(tmp_path, postgresql_url, catalog, _ENV) as server:
        client = WorkflowClient(server)
        run_id, slow, quick = (
            _queue(server),
            client.submit(graph_showing("Slowly", value=1)),
            client.submit(graph_showing("PrimitiveInt", value=11)),
        )
        assert server.client.post(_PATH, json={}).json() == {"made": 1}
        with _working(server, catalog.path, _ENV, "--places", "1") as worker:
            assert worker.ready == {"pools": ["default"], "url": None}
            assert client.wait_for_end(quick)["outputs"]["2"]["text"] == ["11"]
            assert (_run_status(server, run_id), client.status(slow)) == ("IN_QUEUE", "pending")
            assert {kind: _count_unattended(server, kind) for kind in ("runs", "jobs")} == {"runs": 1, "jobs": 1}
            with _working(server, catalog.path, _ENV, "--pool", "gpu", "--pool", "spare") as other:
                assert _result(server, run_id) == {"made": 1}
                assert client.wait_for_end(slow)["outputs"]["2"]["text"] == ["1"]
                wait_until(lambda: _count_unattended(server, "jobs") == 0, "the metrics to be looked at again")
                assert other.stop() == 0
                assert (len(other.logged_events("RunEnded")), len(other.logged_events("JobEnded"))) == (1, 1)
            assert worker.stop() == 0
            assert (len(worker.logged_events("RunEnded")), len(worker.logged_events("JobEnded"))) == (0, 1)
        client.http.close()
        server.prove_settled()


def test_work_of_a_killed_worker_is_taken_over_by_another_of_its_pool(
    tmp_path: Path, postgresql_url: str, catalog: CatalogFolder, partner: FakePartner
) -> None:
    """What it had is finished by the next; neither the server nor a worker of another pool touches it."""
    partner.script("/json", partner.hold(reply(200, b"{}")), reply(200, b'{"made":2}'))
    with _api_alone(tmp_path, postgresql_url, catalog, _ENV) as server:
        client = WorkflowClient(server)
        doomed = Worker(server, catalog.path, _ENV, "--pool", "gpu")
        run_id, job = _queue(server), client.submit(graph_showing("Slowly", value=15))
        wait_until(lambda: client.status(job) == "in_progress", "the job to be executed")
        wait_until(lambda: _run_status(server, run_id) == "IN_PROGRESS", "the run to be executed")
        doomed.stop(signal.SIGKILL)
        with _working(server, catalog.path, _ENV) as foreign, _working(server, catalog.path, _ENV, "--pool", "gpu"):
            wait_until(lambda: _run_status(server, run_id) == "COMPLETED", "the run's end")
            assert client.wait_for_end(job)["outputs"]["2"]["text"] == ["15"]
            assert foreign.stop() == 0
            assert foreign.logged_events("RunTakenOver") == foreign.logged_events("JobEnded") == []
        client.http.close()


def test_stopped_worker_hands_its_job_over(tmp_path: Path, postgresql_url: str, catalog: CatalogFolder) -> None:
    """SIGTERM ends it with status 0 though its job goes on for longer than it may take; the next worker executes it."""
    env = {**_ENV, "FAIRLEAD_DRAIN_SECONDS": "0.5"}
    with _api_alone(tmp_path, postgresql_url, catalog, env) as server:
        client = WorkflowClient(server)
        with _working(server, catalog.path, env, "--pool", "gpu") as first:
            job = client.submit(graph_showing("Slowly", value=40))
            wait_until(lambda: client.status(job) == "in_progress", "the job to be executed")
            assert first.stop() == 0
        assert client.status(job) == "pending"
        with _working(server, catalog.path, env, "--pool", "gpu"):
            assert client.wait_for_end(job)["outputs"]["2"]["text"] == ["40"]
        client.http.close()


def test_worker_listens_nowhere_but_at_an_operators_port(
    tmp_path: Path, postgresql_url: str, catalog: CatalogFolder
) -> None:
    """Without a port for its operator it has no listening socket; at that port it answers nothing else."""
    with _api_alone(tmp_path, postgresql_url, catalog, _RUNS_ONLY) as server:
        with _working(server, catalog.path, _RUNS_ONLY) as worker:
            assert _listening(worker) == []
        with _working(server, catalog.path, _RUNS_ONLY, "--operator-port", "0") as worker:
            host = worker.ready["url"].removeprefix("http://")
            assert _listening(worker) == [int(host.rpartition(":")[2])]
            answers = {path: _get(host, path) for path in ("/healthz", "/readyz", "/metrics", "/v2/models", "/console")}
    assert {path: status for path, (status, _) in answers.items()} == {
        "/healthz": 200, "/readyz": 200, "/metrics": 200, "/v2/models": 404, "/console": 404,
    }  # fmt: skip
    assert b"fairlead_queue_waiting" in answers["/metrics"][1]


def _listening(worker: Worker) -> list[int]:
    """The ports at which a worker or a process of its own listens."""
    parent = psutil.Process(worker.process.pid)
    found = [one for process in (parent, *parent.children(recursive=True)) for one in process.net_connections("inet")]
    return [one.laddr.port for one in found if one.status == psutil.CONN_LISTEN]


def _get(host: str, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


@pytest.mark.parametrize(
    ("words", "env", "told"),
    [
        (("work",), {}, "fairlead work: servers and workers share a PostgreSQL database"),
        (("serve", "--no-work"), {}, "--no-work: servers and workers share a PostgreSQL database"),
        (("work", "--pool", "GPU"), {}, "FAIRLEAD_WORK_POOLS: must be 1 to 32 of a-z, 0-9 and -"),
        (("serve",), {"FAIRLEAD_POOLS": "gpu"}, "FAIRLEAD_POOLS: must be pools as name=kind:value"),
        (("serve",), {"FAIRLEAD_POOLS": "gpu=subscription:gold"}, "there is no subscription gold"),
        (("serve",), {"FAIRLEAD_POOLS": "slow=provider:klingg"}, "FAIRLEAD_POOLS: there is no provider klingg"),
    ],
)
def test_unusable_settings_of_workers_are_named_in_one_line(
    tmp_path: Path, words: tuple[str, ...], env: Mapping[str, str], told: str
) -> None:
    """A worker without a database to share, and pools that cannot be read."""
    order = Order(tmp_path / "data", env=env)
    with pytest.raises(ServerFailedError, match=f"exit status 1: .*{re.escape(told)}") as raised:
        order.wait_until_ready(order.start(*words))
    assert len(str(raised.value).strip().splitlines()) == 1
