"""Servers that die while jobs wait, run and are paid for, and the ones that are started after them."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from databases import Postgres
from end_to_end.test_workflows import ENV
from end_to_end.workflow_clients import Graph, WorkflowClient, graph_showing, node, read_messages
from servers import Server, serving, wait_until

_ENV: Final = {**ENV, "FAIRLEAD_SILENT_SERVER_SECONDS": "5"}
_PICTURE: Final = {"prompt": "a harbour at dawn", "width": 64, "height": 64, "seed": 3}


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return an empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/jobs.db"
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create()
    yield server.url(name)
    server.drop(name)


def test_jobs_outlive_the_server_that_was_killed(tmp_path: Path, database: str) -> None:
    """What ran is executed again from its beginning, what waited is executed, what had ended is remembered as it was.

    The partner's model that the first job had run already is not paid twice. Another workspace has chosen the same id
    for a job that ran as well.
    """
    data = tmp_path / "data"
    first = Server(data, database, env=_ENV)
    client, other = WorkflowClient(first), WorkflowClient(first, first.new_workspace("other"), "other")
    ended = client.run(graph_showing("PrimitiveInt", value=11))
    running, waiting = _submit(first, client)
    other.submit(graph_showing("Slowly", value=17), prompt_id=running)
    wait_until(lambda: other.status(running) == "in_progress", "it is executed")
    client.http.close()
    other.http.close()
    first.kill()
    with serving(data, database=database, env=_ENV) as second:
        again = WorkflowClient(second, client.key)
        assert again.wait_for_end(ended["id"])["outputs"] == ended["outputs"]
        assert [again.wait_for_end(job)["status"] for job in (running, *waiting)] == ["completed"] * 4
        assert [row["kind"] for row in second.ledger()] == ["hold", "post"]
        assert again.http.get("/api/prompt").json() == {"exec_info": {"queue_remaining": 0}}
        elsewhere = WorkflowClient(second, other.key)
        assert elsewhere.wait_for_end(running)["outputs"]["2"]["text"] == ["17"]
        assert again.wait_for_end(running)["outputs"].keys() == {"5", "6"}
        elsewhere.http.close()
        again.http.close()


def _submit(server: Server, client: WorkflowClient) -> tuple[str, list[str]]:
    """A job whose partner node is through and whose next node runs, and three that wait."""
    server.cli("workspaces", "change", "default", "--subscription", "standard")
    graph = {
        "1": node("PartnerLocalProceduralImage1", **_PICTURE),
        "2": node("GetImageSize", image=["1", 0]),
        "3": node("Slowly", value=["2", 2]),
        "4": node("Slowly", value=20),
        "5": node("PreviewAny", source=["3", 0]),
        "6": node("PreviewAny", source=["4", 0]),
    }
    with client.watching() as socket:
        job = client.submit(graph, extra_data={"api_key_service_org": client.key}, prompt_id=str(uuid.uuid4()))
        waiting = [client.submit(graph_showing("Slowly", value=number)) for number in (1, 2, 3)]
        while not any(one["data"].get("node") == "4" for one in read_messages(socket, job, ("executing",))):
            pass
    wait_until(lambda: [row["kind"] for row in server.ledger()] == ["hold", "post"], "the model was paid")
    return job, waiting


@pytest.mark.req("J-15")
def test_jobs_of_deployments_outlive_the_server_that_was_killed(tmp_path: Path, database: str) -> None:
    """Those of one are executed again with its node packs; those of one that was deleted end, though nobody saw to it.

    The release that was being prepared is prepared by the next server.
    """
    data = tmp_path / "data"
    first = Server(data, database, env=_ENV)
    first.cli("workspaces", "change", "default", "--subscription", "standard")
    kept, deleted = (_deploy(first, name) for name in ("kept", "deleted"))
    running = _send(first, deleted, graph_showing("Slowly", value=600))
    wait_until(lambda: _job(first, running)["status"] == "running", "it is executed")
    waiting, surviving = (
        _send(first, deleted, graph_showing("Slowly", value=1)),
        _send(first, kept, graph_showing("Slowly", value=1)),
    )
    late = first.client.post("/api/v2/deployments", json={"name": "late", "node_packs": ["trouble-makers"]}).json()
    assert first.client.delete(f"/api/v2/deployments/{deleted}").status_code == 204
    first.kill()
    with serving(data, database=database, env=_ENV) as second:
        wait_until(lambda: _have_ended(second, running, waiting, surviving), "the end of all", 60)
        ended = {job["id"]: job for job in (_job(second, id_) for id_ in (running, waiting, surviving))}
        assert ended[surviving]["status"] == "succeeded"
        assert ended[waiting]["error"]["code"] == "deployment_deleted"
        assert (ended[running]["status"], ended[running]["outputs"]) in (("canceled", []), ("failed", []))
        path = f"/api/v2/deployments/{late['id']}"
        wait_until(lambda: second.client.get(path).json()["status"] == "ready", "the late one to be ready")
        assert second.client.get(f"/api/v2/deployments/{deleted}").status_code == 404
        second.proven()


def _deploy(server: Server, name: str) -> str:
    made = server.client.post("/api/v2/deployments", json={"name": name, "node_packs": ["trouble-makers"]}).json()
    path = f"/api/v2/deployments/{made['id']}"
    wait_until(lambda: server.client.get(path).json()["status"] == "ready", "the deployment is ready")
    return str(made["id"])


def _send(server: Server, deployment: str, workflow: Graph) -> str:
    answer = server.client.post(f"/deployments/{deployment}/api/v2/jobs", json={"workflow": workflow})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _job(server: Server, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = server.client.get(f"/api/v2/jobs/{job_id}").json()
    return found


def _have_ended(server: Server, *job_ids: str) -> bool:
    return all(_job(server, id_)["status"] in ("succeeded", "failed", "canceled") for id_ in job_ids)
