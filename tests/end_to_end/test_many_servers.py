"""Servers that share a PostgreSQL database: what one of them executes, callers watch at another (M-04)."""

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from websockets.sync.client import ClientConnection

from api.jobs.callers import JobsCaller
from databases import Postgres
from end_to_end.test_workflows import PACKS
from end_to_end.workflow_clients import Graph, WorkflowClient, graph_showing, node, read_messages
from nats_servers import NatsServer, running_nats
from servers import Server, serving, wait_until

pytestmark = [pytest.mark.req("M-04"), pytest.mark.single_server("it makes an installation of its own")]

_ENV: Final = {
    "FAIRLEAD_ENGINE": "true",
    "FAIRLEAD_NODE_PACKS": str(PACKS),
    "FAIRLEAD_ENGINE_MEMORY_MIB": "1500",
    "FAIRLEAD_ENGINE_HOSTS": "1",
}
_names: Final = itertools.count()
_KEPT: Final = ["execution_start", "execution_cached", "executed", "execution_success"]


class Pair(NamedTuple):
    """Two servers of one installation, and the NATS between them where there is one."""

    here: Server
    there: Server
    nats: NatsServer | None


@pytest.fixture(scope="module", params=["database", "nats"])
def pair(
    request: pytest.FixtureRequest, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Return two servers that share a database, without and with a NATS between them."""
    name = postgres.create()
    with ExitStack() as stack:
        stack.callback(postgres.drop, name)
        nats = stack.enter_context(running_nats()) if request.param == "nats" else None
        env = _ENV if nats is None else {**_ENV, "FAIRLEAD_MESSAGING": nats.url}
        data = tmp_path_factory.mktemp("pair") / "data"
        here, there = (
            stack.enter_context(serving(data, database=postgres.url(name), env=env, arguments=("--no-local-partner",)))
            for _ in range(2)
        )
        yield Pair(here, there, nats)


@pytest.fixture
def clients(pair: Pair) -> Iterator[tuple[WorkflowClient, WorkflowClient]]:
    """Return clients of both servers, in one workspace that may have two jobs executed at a time."""
    key = pair.here.new_workspace(f"pair-{next(_names)}")
    here, there = WorkflowClient(pair.here, key), WorkflowClient(pair.there, key)
    yield here, there
    here.http.close()
    there.http.close()


def _graph(tenths: int) -> Graph:
    """Two nodes that take their time, one after the other, and one that shows the result."""
    return {
        "1": node("Slowly", value=tenths),
        "2": node("Slowly", value=["1", 0]),
        "3": node("PreviewAny", source=["2", 0]),
    }


def _whole_life(messages: list[dict[str, Any]], job: str) -> None:
    """Prove that the messages of a job are its life: each event once and in order, and what runs between them."""
    kept = [message["type"] for message in messages if message["type"] in _KEPT]
    assert kept == _KEPT
    begun = [message["data"]["node"] for message in messages if message["type"] == "executing"]
    assert begun
    assert begun == sorted(set(begun))
    steps = [message["data"] for message in messages if message["type"] == "progress"]
    assert all(step["prompt_id"] == job for step in steps)


def test_socket_at_another_server_is_told_the_whole_life_of_a_job(
    clients: tuple[WorkflowClient, WorkflowClient],
) -> None:
    """From its start to its success, then that nothing is left, and that nothing more comes of it."""
    here, there = clients
    with there.watching() as socket:
        job = here.submit(_graph(10))
        messages = read_messages(socket, job)
        rest = [json.loads(socket.recv(timeout=60)) for _ in range(2)]
    _whole_life(messages, job)
    assert [message["type"] for message in rest] == ["status", "executing"]
    assert rest[0]["data"]["queue_remaining"] == 0
    assert rest[1]["data"] == {"node": None, "prompt_id": job}
    assert there.wait_for_end(job)["status"] == "completed"


def test_stream_at_another_server_tells_a_job_to_its_end(
    pair: Pair, clients: tuple[WorkflowClient, WorkflowClient]
) -> None:
    """Its log, its progress, its output and its status, each once; progress never goes back."""
    here, there = clients
    job = here.submit(_graph(8))
    with JobsCaller(pair.there, there.workspace, there.key).watches(job) as stream:
        seen = stream.rest()
    assert seen[-1] == ("status", {"status": "succeeded"})
    assert [data["node_id"] for name, data in seen if name == "output"] == ["3"]
    done = [data["nodes_done"] for name, data in seen if name == "progress"]
    assert done == sorted(done)
    assert done[-1] == 3
    lines = [data["message"] for name, data in seen if name == "log"]
    assert lines.count("The execution has succeeded.") == 1


def test_job_that_is_cancelled_at_another_server_is_told_to_have_been(
    clients: tuple[WorkflowClient, WorkflowClient],
) -> None:
    """While it is executed, and while it waits."""
    here, there = clients
    with there.watching() as socket:
        jobs = [here.submit(graph_showing("Slowly", value=value)) for value in (600, 601, 602)]
        wait_until(lambda: here.status(jobs[0]) == "in_progress", "the first to be executed")
        assert here.http.post("/api/queue", json={"delete": jobs}).json()["deleted"] == jobs
        heard = _interruptions(socket, len(jobs))
    assert heard == set(jobs)


def _interruptions(socket: ClientConnection, count: int) -> set[str]:
    """The jobs of so many messages that tell of an interruption."""
    found: list[str] = []
    while len(found) < count:
        message = json.loads(socket.recv(timeout=60))
        if message["type"] == "execution_interrupted":
            found.append(message["data"]["prompt_id"])
    return set(found)


def test_released_job_is_claimed_at_another_server(pair: Pair, clients: tuple[WorkflowClient, WorkflowClient]) -> None:
    """Where the one that released it has no place for it; messages have gone from one to the other."""
    here, there = clients
    first = here.submit(graph_showing("Slowly", value=600))
    wait_until(lambda: here.status(first) == "in_progress", "the only place here is taken")
    second = here.submit(graph_showing("Slowly", value=1))
    assert there.wait_for_end(second)["status"] == "completed"
    assert there.status(first) == "in_progress"
    assert here.http.post("/api/interrupt", json={"prompt_id": first}).status_code == 200
    assert here.wait_for_end(first)["status"] == "cancelled"
    if pair.nats is not None:
        assert pair.there.metric("fairlead_messages_total", outcome="heard") > 0
        assert pair.there.metric("fairlead_messages_total", outcome="malformed") == 0


def _is_connected(server: Server) -> bool:
    return server.metric("fairlead_messenger_connected") == 1


@pytest.mark.parametrize("pair", ["nats"], indirect=True)
def test_nats_that_goes_away_and_comes_back_costs_nothing_but_time(
    pair: Pair, clients: tuple[WorkflowClient, WorkflowClient]
) -> None:
    """A socket at another server is told all of a job meanwhile; the servers stay ready, and say what they miss."""
    assert pair.nats is not None
    here, there = clients
    with there.watching() as socket:
        job = here.submit(_graph(15))
        read_messages(socket, job, ("execution_start",))
        pair.nats.stop()
        wait_until(lambda: pair.there.metric("fairlead_messenger_connected") == 0, "the loss to be noticed")
        assert [server.client.get("/readyz").status_code for server in (pair.here, pair.there)] == [200, 200]
        kept = [message["type"] for message in read_messages(socket, job) if message["type"] in _KEPT]
        assert kept == _KEPT[1:]
        during = here.submit(_graph(1))
        kept = [message["type"] for message in read_messages(socket, during) if message["type"] in _KEPT]
        assert kept == _KEPT
        pair.nats.start()
        for server in (pair.here, pair.there):
            wait_until(partial(_is_connected, server), "NATS to be back")
        after = here.submit(_graph(2))
        _whole_life(read_messages(socket, after), after)
    lost = pair.here.logged_events("MessengerLost")  # the servers share a data directory, and so a log
    assert len(lost) == 2, lost


def test_server_starts_without_the_nats_it_was_given(tmp_path: Path) -> None:
    """It is ready, says in its log and its metrics that NATS is missing, and tells the password nowhere."""
    env = {"FAIRLEAD_MESSAGING": "nats://fairlead:very-secret@127.0.0.1:1"}
    with serving(tmp_path / "data", env=env, arguments=("--no-local-partner",)) as server:
        assert server.client.get("/readyz").status_code == 200
        wait_until(lambda: server.logged_events("MessengerLost"), "the log to say so")
        assert server.metric("fairlead_messenger_connected") == 0
        assert "very-secret" not in server.log.read_text("utf-8")
