"""A database that is locked or gone under a running server: nothing starts that cannot be recorded, nothing is lost."""

import asyncio
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from cut_commits import cutting
from databases import Postgres, running_postgres
from end_to_end.test_workflows import ENV as JOBS
from end_to_end.workflow_clients import Graph, WorkflowClient, graph_showing, node
from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from servers import Server, serving, wait_until

_ENV = {"FAIRLEAD_PROVIDER_FAKE_KEY": SECRET}
_PLAIN = ("--no-local-partner",)


@pytest.fixture
def server(tmp_path: Path, catalog: CatalogFolder) -> Iterator[Server]:
    """Return a server on SQLite, and its model answers at once."""
    with serving(tmp_path / "data", catalog=catalog.path, env=_ENV, arguments=_PLAIN) as running:
        yield running


@contextmanager
def _lock(server: Server) -> Iterator[None]:
    """Hold the database's only write lock, as a backup or another program may."""
    with closing(sqlite3.connect(server.data / "fairlead.db", isolation_level=None, timeout=20)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def _runs(server: Server, count: int) -> list[httpx.Response]:
    async def gather() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=server.url, headers={"X-API-Key": server.key}, timeout=40) as client:
            return await asyncio.gather(*(client.post("/v2/models/fake/json-1", json={}) for _ in range(count)))

    return asyncio.run(gather())


def _assert_charged(server: Server, responses: list[httpx.Response]) -> None:
    """Assert that exactly the runs that were answered with 200 were charged, each once."""
    good = [answer.headers["x-service-request-id"] for answer in responses if answer.status_code == 200]
    posted = Counter(row["run_id"] for row in server.ledger() if row["kind"] == "post")
    assert posted == Counter(good)


@pytest.mark.req("R-29", "R-38", "R-39")
@pytest.mark.single_server("it locks or moves an SQLite file")
def test_locked_database_starts_no_runs(server: Server, partner: FakePartner) -> None:
    """Runs that cannot be recorded are 503 without a wait, reach no partner, and work again without a restart."""
    partner.script("/json", reply())
    before = _runs(server, 3)
    with _lock(server):
        refused = _runs(server, 5)
    after = _runs(server, 3)
    assert [answer.status_code for answer in [*before, *refused, *after]] == [200] * 3 + [503] * 5 + [200] * 3
    for answer in refused:
        assert answer.json() == {
            "detail": "The run cannot be recorded right now; nothing was started.",
            "error_type": "service_unavailable",
        }
        assert "retry-after" not in answer.headers
    assert len(partner.requests("/json")) == 6
    _assert_charged(server, [*before, *refused, *after])


@pytest.mark.req("R-29")
@pytest.mark.single_server("it locks or moves an SQLite file")
def test_run_that_ends_while_the_database_is_locked_is_settled_once(server: Server, partner: FakePartner) -> None:
    """A finished run whose end cannot be recorded waits: its answer comes when its books are closed, once."""
    partner.script("/json", partner.hold(reply(200, b'{"late":1}')))
    responses: list[httpx.Response] = []
    asked = threading.Thread(target=lambda: responses.extend(_runs(server, 3)))
    asked.start()
    wait_until(lambda: len(partner.requests("/json")) == 3, "three runs at the partner")
    with _lock(server):
        partner.release()
        troubled = wait_until(
            lambda: server.metric("fairlead_events_total", kind="DatabaseTrouble"), "the end cannot be recorded"
        )
        assert (troubled > 0, responses) == (True, [])
    asked.join(30)
    assert [(answer.status_code, answer.content) for answer in responses] == [(200, b'{"late":1}')] * 3
    _assert_charged(server, responses)


@pytest.mark.req("R-29")
@pytest.mark.single_server("it locks or moves an SQLite file")
def test_missing_database_loses_no_runs(server: Server, partner: FakePartner, tmp_path: Path) -> None:
    """A file that is moved away refuses runs and ends none; moved back, the books go on where they were."""
    partner.script("/json", reply(), partner.hold(reply()))
    responses = _runs(server, 1)
    asked = threading.Thread(target=lambda: responses.extend(_runs(server, 1)))
    asked.start()
    wait_until(lambda: len(partner.requests("/json")) == 2, "a run at the partner")
    database = server.data / "fairlead.db"
    away = database.rename(tmp_path / "away.db")
    assert _runs(server, 1)[0].status_code == 503
    partner.release()
    wait_until(lambda: server.metric("fairlead_events_total", kind="DatabaseTrouble") > 1, "trouble is told")
    away.rename(database)
    asked.join(30)
    assert [answer.status_code for answer in responses] == [200, 200]
    _assert_charged(server, responses)


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Postgres]:
    """Return a PostgreSQL that these tests may stop."""
    with running_postgres() as running:
        yield running


@pytest.mark.req("R-29", "R-38")
def test_restart_of_postgresql_loses_no_runs(
    own_postgres: Postgres, tmp_path: Path, catalog: CatalogFolder, partner: FakePartner
) -> None:
    """Runs are 503 while PostgreSQL is down; one under way is answered afterwards, and the server needs no restart."""
    partner.script("/json", reply(), partner.hold(reply()))
    url = own_postgres.url(own_postgres.create())
    env = {**_ENV, "FAIRLEAD_DATABASE_WAIT_SECONDS": "0"}
    with serving(tmp_path / "data", database=url, catalog=catalog.path, env=env, arguments=_PLAIN) as server:
        responses = _runs(server, 1)
        asked = threading.Thread(target=lambda: responses.extend(_runs(server, 1)))
        asked.start()
        wait_until(lambda: len(partner.requests("/json")) == 2, "a run at the partner")
        own_postgres.stop()
        assert [answer.status_code for answer in _runs(server, 3)] == [503] * 3
        ready = server.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        partner.release()
        wait_until(lambda: server.metric("fairlead_events_total", kind="DatabaseTrouble") > 0, "trouble is told")
        own_postgres.start()
        wait_until(lambda: server.client.get("/readyz").json()["status"] == "ready", "ready again")
        asked.join(30)
        partner.script("/json", reply())
        responses += _runs(server, 5)
        assert [answer.status_code for answer in responses] == [200] * 7
        _assert_charged(server, responses)


def test_jobs_outlive_restarts_of_postgresql(own_postgres: Postgres, tmp_path: Path) -> None:
    """Those that run, that call a partner's model and that keep files; a restart costs none of them anything."""
    url = own_postgres.url(own_postgres.create())
    with serving(tmp_path / "data", database=url, env=JOBS) as server:
        client = WorkflowClient(server)
        jobs = [client.submit(_slow_picture(seed), extra_data={"api_key_service_org": client.key}) for seed in range(4)]
        wait_until(lambda: client.status(jobs[0]) == "in_progress", "jobs are executed")
        for _ in range(2):
            own_postgres.stop()
            wait_until(lambda: server.client.get("/readyz").json()["status"] == "degraded", "the database is missed")
            own_postgres.start()
            wait_until(lambda: server.client.get("/readyz").json()["status"] == "ready", "ready again")
        assert [client.wait_for_end(job)["status"] for job in jobs] == ["completed"] * 4
        assert sorted(row["kind"] for row in server.ledger()) == ["hold"] * 4 + ["post"] * 4
        client.http.close()


@pytest.mark.req("T-07")
@pytest.mark.parametrize("is_written", [True, False])
@pytest.mark.single_server("it stands between one server and its database")
def test_submission_whose_commit_broke_off_is_one_job(own_postgres: Postgres, tmp_path: Path, is_written: bool) -> None:  # noqa: FBT001 -- a parameter
    """Whether the database has it or not: its caller gets the job, which is executed once."""
    name = own_postgres.create()
    with cutting(own_postgres.port, b"under-its-commit", is_written=is_written) as between:
        url = own_postgres.url(name).replace(f":{own_postgres.port}/", f":{between.port}/")
        with serving(tmp_path / "data", database=url, env=JOBS) as server:
            document = {"workflow": _sum(), "metadata": {"note": "under-its-commit"}}
            taken = server.client.post("/api/v2/jobs", json=document)
            assert (taken.status_code, between.cuts) == (201, 1), taken.text
            wait_until(lambda: _status(server, taken.json()["id"]) == "succeeded", "the end of the job")
            assert [one["id"] for one in server.client.get("/api/v2/jobs").json()["jobs"]] == [taken.json()["id"]]


def _sum() -> Graph:
    return graph_showing("PrimitiveInt", value=7)


def _status(server: Server, job_id: str) -> str:
    return str(server.client.get(f"/api/v2/jobs/{job_id}").json()["status"])


def _slow_picture(seed: int) -> Graph:
    return {
        "1": node("Slowly", value=8 + 4 * seed),
        "2": node("PartnerLocalProceduralImage1", prompt="a harbour", width=64, height=64, seed=["1", 0]),
        "3": node("SaveImage", images=["2", 0], filename_prefix="harbour"),
    }
