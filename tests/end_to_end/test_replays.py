"""Idempotency keys over restarts and crashes: what was recorded is told, what may have been paid is never repeated.

The server is stopped, or killed at several moments of a run; the next one is started on its books (R-18).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import httpx
import pytest

from fake_partner import SECRET, CatalogFolder, FakePartner, leg_text, reply, reply_json
from servers import Server, serving, wait_until

pytestmark = pytest.mark.req("R-18", "R-29")

_ENV: Final = {
    **{f"FAIRLEAD_PROVIDER_{name}_KEY": SECRET for name in ("FAKE", "ONCE")},
    "FAIRLEAD_SILENT_SERVER_SECONDS": "5",
}
_PLAIN: Final = ("--no-local-partner",)
_REPLAYED: Final = "idempotent-replayed"
Start: TypeAlias = Callable[[], Any]


@pytest.fixture
def catalog(tmp_path: Path, partner: FakePartner) -> CatalogFolder:
    """Return a partner that honours idempotency keys of ours, and one that does not."""
    folder = CatalogFolder(tmp_path / "catalog")
    folder.add_provider(partner.url)
    folder.add_provider(partner.url, "once", repeats_safely=False, give_up_after=60)
    folder.add_model("fake/json-1")
    folder.add_model("once/json-1", provider="once")
    folder.add_model("once/task-1", "task", provider="once")
    folder.add_model("fake/two-1", tail=leg_text("once", "picky", price="0.02"))
    return folder


@pytest.fixture
def start(tmp_path: Path, either_database: str, catalog: CatalogFolder) -> Start:
    """Return a function that starts a server on the same books."""

    @contextmanager
    def start_server() -> Iterator[Server]:
        with serving(
            tmp_path / "data", database=either_database, catalog=catalog.path, env=_ENV, arguments=_PLAIN
        ) as server:
            yield server

    return start_server


@pytest.fixture
def doomed(tmp_path: Path, either_database: str, catalog: CatalogFolder) -> Iterator[Server]:
    """Return a server that a test kills; its books are open then, and the next one closes them."""
    server = Server(tmp_path / "data", either_database, catalog.path, _ENV, _PLAIN)
    yield server
    server.kill()


def _ask(server: Server, model: str = "fake/json-1", key: str = "once") -> httpx.Response:
    return server.client.post(f"/v2/models/{model}", json={"a": 1}, headers={"Idempotency-Key": key}, timeout=30)


def _answer_at_end(server: Server, model: str = "fake/json-1") -> httpx.Response:
    """What the key is told as soon as its run has ended."""
    wait_until(lambda: _ask(server, model).status_code != 409, "the run has ended", seconds=50)
    return _ask(server, model)


def _in_background(server: Server, model: str) -> threading.Thread:
    """Begin a call whose connection may break."""

    def call() -> None:
        with pytest.raises(httpx.TransportError):
            httpx.post(
                f"{server.url}/v2/models/{model}",
                json={"a": 1},
                headers={"Idempotency-Key": "once", "X-API-Key": server.key},
                timeout=60,
            )

    thread = threading.Thread(target=call)
    thread.start()
    return thread


def _killed_while(server: Server, model: str, condition: Callable[[], Any]) -> None:
    """Kill a server in the middle of a run, when something is so."""
    thread = _in_background(server, model)
    wait_until(condition, "the moment has come")
    server.kill()
    thread.join(30)


def test_results_survive_a_restart(start: Start, partner: FakePartner) -> None:
    """After a restart a recorded result, a recorded failure and a large one are told, and a conflict stays one."""
    large = b"x" * 200_000
    partner.script("/json", reply(200, b'{"made" : 1}'), reply_json({"error": {"message": "no"}}, 400))
    with start() as first:
        made = _ask(first)
        failed = _ask(first, key="failed")
        partner.script("/json", reply(200, b'{"a":"' + large + b'"}'))
        big = _ask(first, key="large")
    with start() as second:
        for key, before in (("once", made), ("failed", failed), ("large", big)):
            told = _ask(second, key=key)
            assert (told.status_code, told.content) == (before.status_code, before.content)
            assert told.headers[_REPLAYED] == "true"
            assert told.headers.get("x-service-credits-used") == before.headers.get("x-service-credits-used")
        other = second.client.post("/v2/models/fake/json-1", json={"a": 2}, headers={"Idempotency-Key": "once"})
        assert (other.status_code, other.json()["error_type"]) == (409, "invalid_input")
    assert len(partner.requests("/json")) == 3


def test_delivered_result_survives_a_kill(doomed: Server, start: Start, partner: FakePartner) -> None:
    """A result whose answer has left is durable: killed right after it, the next server tells it."""
    partner.script("/json", reply(200, b'{"made" : 1}'))
    made = _ask(doomed)
    doomed.kill()
    with start() as second:
        told = _ask(second)
        assert (told.content, told.headers[_REPLAYED]) == (made.content, "true")
        second.prove_settled()
        assert len(second.charges(made.headers["x-service-request-id"])) == 1
    assert len(partner.requests("/json")) == 1


def test_cut_run_is_repeated_under_its_own_name(doomed: Server, start: Start, partner: FakePartner) -> None:
    """Killed while a partner that honours keys works, the run is sent again under the same one and then told."""
    partner.script("/json", partner.hold(reply(200, b'{"made":1}')))
    _killed_while(doomed, "fake/json-1", lambda: partner.requests("/json"))
    partner.release()
    with start() as second:
        told = _answer_at_end(second)
        assert (told.status_code, told.content, told.headers[_REPLAYED]) == (200, b'{"made":1}', "true")
        assert [row["kind"] for row in second.ledger()] == ["hold", "post"]
    sent = partner.requests("/json")
    assert len({request.headers["idempotency-key"] for request in sent}) == 1


def test_accepted_task_is_made_once(doomed: Server, start: Start, partner: FakePartner) -> None:
    """Killed while submitted work goes on, the work is polled on and told; it was submitted once."""
    partner.script("/tasks", reply_json({"id": "t-1"}, 202))
    partner.script("/tasks/t-1", reply_json({"state": "running"}))
    _killed_while(doomed, "once/task-1", lambda: partner.requests("/tasks/t-1"))
    with start() as second:
        wait_until(lambda: _ask(second, "once/task-1").status_code == 409, "the run is still running")
        partner.script("/tasks/t-1", reply(200, b'{"state":"done"}'))
        told = _answer_at_end(second, "once/task-1")
        assert (told.status_code, told.content, told.headers[_REPLAYED]) == (200, b'{"state":"done"}', "true")
        assert [row["kind"] for row in second.ledger()] == ["hold", "post"]
    assert len(partner.requests("/tasks")) == 1


def test_lost_run_is_not_started_again(doomed: Server, start: Start, partner: FakePartner) -> None:
    """Killed while a partner without keys works, nobody knows the outcome: the key stays taken and says so for good."""
    partner.script("/json", partner.hold(reply(200, b'{"made":1}')))
    _killed_while(doomed, "once/json-1", lambda: partner.requests("/json"))
    partner.release()
    with start() as second:
        told = _answer_at_end(second, "once/json-1")
        assert (told.status_code, told.json()["error_type"]) == (502, "provider_error")
        assert told.headers[_REPLAYED] == "true"
        assert _ask(second, "once/json-1").content == told.content
        assert [row["kind"] for row in second.ledger()] == ["hold", "void"]
        assert _ask(second, "once/json-1", key="another").status_code == 200
    assert len(partner.requests("/json")) == 2


@pytest.mark.req("R-14")
def test_run_that_fell_back_is_not_started_again(doomed: Server, start: Start, partner: FakePartner) -> None:
    """Killed while a second provider works on a run, that one's outcome is unknown: nobody is asked again."""
    partner.script("/json", reply(500))
    partner.script("/picky", partner.hold(reply_json({"ok": 1, "url": "https://x"})))
    _killed_while(doomed, "fake/two-1", lambda: partner.requests("/picky"))
    partner.release()
    with start() as second:
        told = _answer_at_end(second, "fake/two-1")
        assert (told.status_code, told.headers[_REPLAYED]) == (502, "true")
        assert [row["kind"] for row in second.ledger()] == ["hold", "raise", "void"]
    assert [request.path for request in partner.requests()] == ["/json", "/picky"]
