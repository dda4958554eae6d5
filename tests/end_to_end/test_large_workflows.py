"""Jobs with large workflows: blobs of their jobs, which are read where they are wanted and are gone with the jobs."""

import base64
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from damage import blob_file, blob_files, flip
from databases import Postgres
from end_to_end.test_workflows import ENV
from end_to_end.workflow_clients import WorkflowClient, node
from servers import Server, serving, wait_until

_TEXT: Final = base64.b64encode(os.urandom(3 * 2**18)).decode()
"""One mebibyte that cannot be deflated by much."""


def _graph(text: str = _TEXT) -> dict[str, Any]:
    return {
        "1": node("PrimitiveString", value=text),
        "2": node("StringLength", string=["1", 0]),
        "3": node("PreviewAny", source=["2", 0]),
    }


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


def _row(server: Server) -> Mapping[str, Any]:
    """The newest job of a server over SQLite: its blob, and how many bytes of documents its row has."""
    with closing(sqlite3.connect(server.data.parent / "jobs.db")) as connection:
        connection.row_factory = sqlite3.Row
        statement = "SELECT documents_blob, length(workflow) + length(extra) AS kept FROM jobs ORDER BY number DESC"
        found: Mapping[str, Any] = connection.execute(statement).fetchone()
        return found


@pytest.mark.req("S-02", "K-04")
def test_large_workflow_is_answered_unchanged_by_each_api_and_after_a_restart(tmp_path: Path, database: str) -> None:
    """Whichever route asks for it, now and later; what is beside it is kept with it."""
    data, drawn = tmp_path / "data", {"workflow": {"nodes": [], "id": "9"}}
    with serving(data, database=database, env=ENV) as server:
        client = WorkflowClient(server)
        job = client.submit(_graph(), extra_data={"extra_pnginfo": drawn})
        plain = client.http.post("/api/v2/jobs", json={"workflow": _graph()})
        assert plain.status_code == 201, plain.text
        assert client.wait_for_end(job)["outputs"]["3"]["text"] == [str(len(_TEXT))]
        client.wait_for_end(plain.json()["id"])
        _look(client, job, plain.json()["id"], drawn)
        client.http.close()
    with serving(data, database=database, env=ENV) as server:
        again = WorkflowClient(server, client.key)
        _look(again, job, plain.json()["id"], drawn)
        again.http.close()
        assert server.cli("audit", "--blobs")


def _look(client: WorkflowClient, job: str, plain: str, drawn: Mapping[str, Any]) -> None:
    detail = client.http.get(f"/api/jobs/{job}").json()
    assert detail["workflow"]["prompt"] == _graph()
    assert detail["workflow"]["extra_data"]["extra_pnginfo"] == drawn
    assert client.http.get(f"/api/v2/jobs/{plain}/workflow").json() == {"workflow": _graph(), "format": "api"}
    assert client.http.get(f"/api/v2/jobs/{job}/workflow").json()["workflow"] == drawn["workflow"]
    assert client.http.get(f"/api/history/{job}").json()[job]["prompt"][2] == _graph()
    history = client.http.get("/api/history").json()
    assert [history[one]["prompt"][2] for one in (job, plain)] == [_graph(), _graph()]


@pytest.mark.req("S-02", "S-09")
def test_large_workflow_is_a_blob_of_its_job_that_counts_and_is_gone_with_it(tmp_path: Path) -> None:
    """Its row holds nothing of it, its workspace keeps its bytes, and both go when the job is forgotten."""
    data, database = tmp_path / "data", f"sqlite:///{tmp_path}/jobs.db"
    env = {**ENV, "FAIRLEAD_JOBS_HOURS": str(0.5 / 3600)}
    with serving(data, database=database, env=env) as server:
        client = WorkflowClient(server)
        before = _usage(server)
        job = client.submit(_graph())
        row, workflow = _row(server), json.dumps(_graph(), separators=(",", ":"))
        assert row["kept"] < 100
        assert len(_TEXT) < blob_file(data / "blobs", row["documents_blob"]).stat().st_size < len(workflow) + 1000
        assert _usage(server) - before == blob_file(data / "blobs", row["documents_blob"]).stat().st_size
        client.wait_for_end(job)
        client.http.close()
    time.sleep(1)
    with serving(data, database=database, env=env) as server:  # which forgets at its start, and then every minute
        wait_until(lambda: not blob_files(data / "blobs"), "the blob is deleted")
        assert _usage(server) == before


def _usage(server: Server) -> int:
    with closing(sqlite3.connect(server.data.parent / "jobs.db")) as connection:
        return int(connection.execute("SELECT coalesce(sum(bytes), 0) FROM storage_usage").fetchone()[0])


@pytest.mark.req("S-08", "S-09")
def test_damaged_workflow_is_an_error_and_a_finding(tmp_path: Path) -> None:
    """The workflow cannot be had; the job's other answers stand, and the audit names the job."""
    data = tmp_path / "data"
    with serving(data, database=f"sqlite:///{tmp_path}/jobs.db", env=ENV) as server:
        client = WorkflowClient(server)
        job = client.submit(_graph())
        client.wait_for_end(job)
        client.http.close()
    blob = blob_file(data / "blobs", _row(server)["documents_blob"])
    flip(blob, 2**19)
    with serving(data, database=f"sqlite:///{tmp_path}/jobs.db", env=ENV) as server:
        again = WorkflowClient(server, client.key)
        refused = again.http.get(f"/api/v2/jobs/{job}/workflow")
        assert (refused.status_code, "lost" in refused.text) == (500, True)
        assert again.http.get(f"/api/jobs/{job}").json()["outputs"]["3"]["text"] == [str(len(_TEXT))]
        assert "workflow" not in again.http.get(f"/api/jobs/{job}").json()
        again.http.close()


@pytest.mark.req("S-09")
def test_workspace_without_room_for_a_large_workflow_submits_none(tmp_path: Path) -> None:
    """The refusal leaves no blob behind, and a small workflow is still taken."""
    env = {**ENV, "FAIRLEAD_STORAGE_LIMIT_MIB": "1"}
    with serving(tmp_path / "data", env=env) as server:
        client = WorkflowClient(server)
        refused = client.post(_graph())
        assert refused.status_code == 507 or refused.is_client_error, refused.text
        assert blob_files(tmp_path / "data" / "blobs") == []
        assert client.run(_graph("short"))["status"] == "completed"
        client.http.close()
