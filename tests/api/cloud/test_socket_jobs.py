"""/ws of a whole server: real jobs, watched from their submission to their last word (C-08)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from api.cloud.clients import Client, failing, holding, picture
from servers import Server, serving

pytestmark = pytest.mark.req("C-08")

_PATIENCE = 60.0


@contextmanager
def watching(server: Server, key: str) -> Iterator[ClientConnection]:
    """A socket that has been greeted."""
    address = server.url.replace("http", "ws", 1)
    with connect(f"{address}/ws?clientId=test&token={key}", proxy=None, compression=None) as connection:
        assert message(connection)["type"] == "status"
        yield connection


def message(connection: ClientConnection) -> Any:
    """The next message."""
    return json.loads(connection.recv(_PATIENCE))


def until_over(connection: ClientConnection, job_id: str) -> list[tuple[str, Any]]:
    """Everything that is told up to the last word of a job."""
    told = []
    while True:
        heard = message(connection)
        told.append((heard["type"], heard["data"]))
        if told[-1] == ("executing", {"node": None, "prompt_id": job_id}):
            return told


def test_watched_job_is_told_whole_and_in_order(caller: Client) -> None:
    """A run is told from its submission to its last word, in order, and to every socket alike."""
    with watching(caller.server, caller.key) as first, watching(caller.server, caller.key) as second:
        job_id = caller.submit(picture())
        told = until_over(first, job_id)
        assert told == until_over(second, job_id)
    kinds = [kind for kind, _ in told if kind != "progress_state"]
    assert kinds == [
        "status",
        "execution_start",
        "execution_cached",
        "executing",
        "executing",
        "executed",
        "execution_success",
        "status",
        "executing",
    ]
    remaining = [data["queue_remaining"] for kind, data in told if kind == "status"]
    assert remaining == [1, 0]
    assert {data["prompt_id"] for kind, data in told if kind != "status"} == {job_id}
    assert dict(told)["executed"]["output"]["images"][0]["type"] == "output"


def test_newcomer_is_told_what_is_executed_and_interrupted(caller: Client) -> None:
    """Who comes when a node is executed is told so, and then how it was interrupted."""
    with watching(caller.server, caller.key) as witness:
        job_id = caller.submit(holding())
        while message(witness)["type"] != "executing":
            pass
        with watching(caller.server, caller.key) as newcomer:
            assert message(newcomer) == {
                "type": "executing",
                "data": {"node": "1", "display_node": "1", "prompt_id": job_id},
            }
            caller.post("/api/interrupt")
            told = until_over(newcomer, job_id)
    ((_, interrupted),) = [one for one in told if one[0] == "execution_interrupted"]
    assert (interrupted["prompt_id"], interrupted["node_id"], interrupted["node_type"]) == (job_id, "1", "HoldOn")


def test_job_that_never_began_has_an_end(caller: Client) -> None:
    """A job that is given up while it waits has a last word too."""
    with watching(caller.server, caller.key) as connection:
        jobs = [caller.submit(holding(number)) for number in range(6)]
        waits = next(job for job in reversed(jobs) if caller.status(job) == "pending")
        caller.post("/api/queue", {"delete": [waits]})
        kinds = [kind for kind, data in until_over(connection, waits) if data.get("prompt_id") == waits]
        assert kinds == ["notification", "execution_interrupted", "executing"]


def test_failed_job_is_told_as_a_failure(caller: Client) -> None:
    """A failure is told with its node, its type and its words."""
    with watching(caller.server, caller.key) as connection:
        job_id = caller.submit(failing("It fell over."))
        told = dict(until_over(connection, job_id))
    assert "execution_success" not in told
    failure = told["execution_error"]
    assert (failure["node_id"], failure["node_type"], failure["prompt_id"]) == ("1", "FallOver", job_id)
    assert "It fell over." in failure["exception_message"]


def test_sockets_open_only_at_their_paths(caller: Client) -> None:
    """Only the paths of sockets have any."""
    address = caller.server.url.replace("http", "ws", 1)
    for path in ("/api/prompt", "/v2/models/local/x", "/nowhere", "/healthz"):
        with pytest.raises(InvalidStatus) as caught:
            connect(f"{address}{path}?token={caller.key}", proxy=None)
        assert caught.value.response.status_code == 404


def test_open_socket_does_not_delay_a_stopping_server(tmp_path: Path) -> None:
    """A server that stops says so on its sockets; and no key of an address is in its log, however talkative it is."""
    env = {"FAIRLEAD_ENGINE": "true", "FAIRLEAD_LOG_LEVEL": "debug", "FAIRLEAD_DRAIN_SECONDS": "1"}
    with serving(tmp_path / "data", env=env, arguments=("--no-local-partner",)) as server:
        with watching(server, server.key) as connection:
            server.process.terminate()
            with pytest.raises(ConnectionClosed) as caught:
                connection.recv(_PATIENCE)
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1001
        assert server.process.wait(_PATIENCE) == 0
        assert server.key not in server.log.read_text("utf-8")
