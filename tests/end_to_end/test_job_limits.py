"""What bounds jobs in time and number: how long they wait, run and are kept, how many wait, and a server that stops."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from end_to_end.test_workflows import ENV
from end_to_end.workflow_clients import WorkflowClient, graph_showing, node, picture, read_messages
from servers import Server, serving, wait_until

_SECONDS: Final = 3.0
_SHORT: Final = {
    **ENV,
    "FAIRLEAD_ENGINE_HOSTS": "1",
    "FAIRLEAD_JOB_MINUTES": str(_SECONDS / 60),
    "FAIRLEAD_QUEUE_HOURS": str(1.0 / 3600),
    "FAIRLEAD_JOBS_BACKLOG": "1",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that has little patience."""
    with serving(tmp_path_factory.mktemp("limits") / "data", env=_SHORT) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[WorkflowClient]:
    """Return a client with one parallel job."""
    server.cli("workspaces", "change", "default", "--subscription", "standard")
    made = WorkflowClient(server)
    yield made
    made.http.close()


@pytest.mark.req("C-12", "J-06")
def test_endless_job_has_a_time_limit_and_the_next_waits_only_so_long(server: Server, client: WorkflowClient) -> None:
    """The first ends with TimeoutError; the second was given up meanwhile, and never executed. Both have expired."""
    stuck, waiting = str(uuid.uuid4()), str(uuid.uuid4())
    with client.watching() as socket:
        client.submit(graph_showing("Stuck", value=1), prompt_id=stuck)
        client.submit(graph_showing("PrimitiveInt", value=1), prompt_id=waiting)
        assert [one["type"] for one in read_messages(socket, waiting, ["execution_error"])] == [
            "notification",
            "execution_error",
        ]
    late = client.wait_for_end(waiting)
    assert (late["status"], "execution_start_time" in late) == ("failed", False)
    failed = client.wait_for_end(stuck)
    assert (failed["status"], failed["execution_error"]["exception_type"]) == ("failed", "TimeoutError")
    ended = [client.http.get(f"/api/v2/jobs/{job}").json() for job in (stuck, waiting)]
    assert [(job["status"], job["error"]["code"]) for job in ended] == [("expired", "timeout"), ("expired", "expired")]
    assert server.metric("fairlead_jobs_total", state="expired", exception_type="TimeoutError") == 1
    assert client.run(graph_showing("PrimitiveInt", value=2))["status"] == "completed"


def test_more_jobs_than_may_wait_are_refused(client: WorkflowClient) -> None:
    """The refusal is 429 with a time to come back; the jobs that were taken in stay as they are."""
    jobs = [client.submit(graph_showing("Slowly", value=10)) for _ in range(2)]
    refused = client.post(graph_showing("Slowly", value=10))
    assert (refused.status_code, refused.json()["error"]["type"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) > 0
    client.http.post("/api/queue", json={"delete": jobs})
    assert [client.wait_for_end(job)["status"] for job in jobs] == ["cancelled", "cancelled"]


def test_ended_jobs_are_forgotten_when_their_time_is_up(tmp_path: Path) -> None:
    """Their outputs are forgotten too, and links to these lead nowhere from then on."""
    env = {**ENV, "FAIRLEAD_JOBS_HOURS": str(1.5 / 3600), "FAIRLEAD_ENGINE_HOSTS": "1"}
    with serving(tmp_path / "data", env=env) as server:
        client = WorkflowClient(server)
        graph = {
            "1": node("LoadImage", image=client.upload(picture())),
            "2": node("SaveImage", images=["1", 0], filename_prefix="x"),
        }
        job = client.run(graph)
        (file,) = client.files_of(job)
        link = client.http.get("/api/view", params=file).headers["location"]
        wait_until(lambda: httpx.get(link).status_code != 200, "the file is forgotten")
        assert client.http.get("/api/view", params=file).status_code == 404
        client.http.close()


def test_stopping_server_leaves_its_jobs_to_the_next(tmp_path: Path) -> None:
    """It waits for them a while; what goes on after that is executed again, and no host is left behind."""
    env = {**ENV, "FAIRLEAD_DRAIN_SECONDS": "0.3"}
    data = tmp_path / "data"
    first = Server(data, env=env)
    client = WorkflowClient(first)
    job = client.submit(graph_showing("Slowly", value=15))
    wait_until(lambda: client.status(job) == "in_progress", "it is executed")
    client.http.close()
    assert first.stop() == 0
    with serving(data, env=env) as second:
        again = WorkflowClient(second, client.key)
        assert again.wait_for_end(job)["status"] == "completed"
        again.http.close()
    assert list((data / "scratch").glob("*/*")) == []
