"""Each bucket as a caller meets it: one real exchange for every bucket the router can answer with today (R-19)."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import pytest

from api.conftest import SETTINGS, NewName, catalog_of
from fake_partner import Behaviour, FakePartner, hang, reply, reply_json
from servers import Server, serving, wait_until

_KEYLESS: Final = "no such key"
_PLAIN: Final = ("--no-local-partner",)


@dataclass(frozen=True)
class _Exchange:
    """A run, the workspace that asks for it, how the partner behaves, and the status it is answered with."""

    status: int
    model: str = "fake/json-1"
    content: bytes = b"{}"
    options: tuple[str, ...] = ()
    key: str | None = None
    path: str = "/json"
    behaviour: Behaviour | None = None


_ONE_CALL: Final = {
    "invalid_input": _Exchange(400, content=b"{"),
    "content_policy_violation": _Exchange(400, behaviour=reply_json({"error": {"code": "refused"}}, 400)),
    "provider_error": _Exchange(502, behaviour=reply(500)),
    "provider_timeout": _Exchange(504, "fake/hasty-1", path="/hasty", behaviour=hang()),
    "insufficient_credits": _Exchange(402, options=("--billing", "prepaid")),
    "model_not_found": _Exchange(404, "fake/none-1"),
    "unauthorized": _Exchange(401, key=_KEYLESS),
    "forbidden": _Exchange(403, options=("--models", "none")),
    "not_enabled": _Exchange(403, options=("--gate", "router=off")),
    "service_unavailable": _Exchange(503, "lockbox/json-1"),
    "request_not_found": _Exchange(404, "fake/json-1/nowhere"),
}
_SEVERAL_CALLS: Final = {
    "concurrency_limit_exceeded",
    "deadline_exceeded",
    "rate_limited",
    "internal_error",
    "cancelled",
    "queue_timeout",
    "queue_backlog_full",
}
_NEVER: Final = {"client_disconnected"}
"""There is nobody to be told."""


def _run(server: Server, key: str, model: str = "fake/json-1", content: bytes = b"{}") -> httpx.Response:
    return httpx.post(f"{server.url}/v2/models/{model}", headers={"X-API-Key": key}, content=content, timeout=60)


def _is(response: httpx.Response, status: int, name: str) -> None:
    assert (response.status_code, response.headers["x-service-error-type"]) == (status, name)
    assert response.json()["error_type"] == name
    assert response.headers["x-service-request-id"]


@pytest.mark.req("R-19")
def test_nineteen_buckets_are_tried() -> None:
    """The buckets here are the nineteen."""
    assert len(set(_ONE_CALL) | _SEVERAL_CALLS | _NEVER) == 19


@pytest.mark.req("R-19")
@pytest.mark.parametrize("name", _ONE_CALL)
def test_bucket_of_a_single_call_is_reachable(
    router: Server, partner: FakePartner, new_name: NewName, name: str
) -> None:
    """A single call is answered with this bucket and its status."""
    exchange = _ONE_CALL[name]
    if exchange.behaviour is not None:
        partner.script(exchange.path, exchange.behaviour)
    key = exchange.key or router.new_workspace(new_name(), *exchange.options)
    _is(_run(router, key, exchange.model, exchange.content), exchange.status, name)


@pytest.mark.req("R-19", "R-23")
def test_concurrency_limit_is_reachable(router: Server, partner: FakePartner, new_name: NewName) -> None:
    """`concurrency_limit_exceeded`: one run is in flight, and one is allowed."""
    name = new_name()
    key = router.new_workspace(name, "--in-flight-limit", "1")
    partner.script("/json", partner.hold(reply(200, b"{}")))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(_run, router, key)
        wait_until(lambda: router.workspace(name)["in_flight"] == 1, "a run in flight")
        _is(_run(router, key), 429, "concurrency_limit_exceeded")
        partner.release()
        assert first.result().status_code == 200


def _with_one_model(partner: FakePartner, folder: Path) -> Path:
    catalog = catalog_of(folder, partner.url)
    catalog.add_model("fake/json-1")
    return catalog.path


@contextmanager
def _start(partner: FakePartner, folder: Path, **settings: str) -> Iterator[Server]:
    catalog, env = _with_one_model(partner, folder), {**SETTINGS, **settings}
    with serving(folder / "data", catalog=catalog, env=env, arguments=_PLAIN) as server:
        yield server


@pytest.mark.req("R-19", "R-24")
def test_deadline_exceeded_is_reachable(partner: FakePartner, tmp_path: Path) -> None:
    """`deadline_exceeded`: the partner takes longer than a call is held."""
    partner.script("/json", partner.hold(reply(200, b"{}")))
    with _start(partner, tmp_path, FAIRLEAD_DEADLINE_SECONDS="0.8") as server:
        _is(_run(server, server.key), 504, "deadline_exceeded")
        partner.release()
        server.idle()


@pytest.mark.req("R-19", "R-23")
def test_rate_limited_is_reachable(partner: FakePartner, tmp_path: Path) -> None:
    """`rate_limited`: more was asked for in a window than is allowed."""
    with _start(partner, tmp_path, FAIRLEAD_REQUESTS_PER_MINUTE="1") as server:
        refused = next(answer for _ in range(3) if (answer := _run(server, server.key)).status_code != 200)
        _is(refused, 429, "rate_limited")
        assert "per minute" in refused.json()["detail"]


def _queue(server: Server, key: str, model: str = "fake/json-1") -> httpx.Response:
    return httpx.post(f"{server.url}/v2/models/{model}/requests", headers={"X-API-Key": key}, content=b"{}", timeout=60)


@pytest.mark.req("R-19", "R-35")
def test_cancelled_is_reachable(router: Server, partner: FakePartner, new_name: NewName) -> None:
    """`cancelled`: a run that waited was cancelled, and its result is asked for."""
    headers = {"X-API-Key": router.new_workspace(new_name(), "--in-flight-limit", "1")}
    partner.script("/json", partner.hold(reply(200, b"{}")))
    _, second = (_queue(router, headers["X-API-Key"]).json() for _ in range(2))
    assert httpx.put(second["cancel_url"], headers=headers, timeout=60).status_code == 202
    _is(httpx.get(second["response_url"], headers=headers, timeout=60), 409, "cancelled")


@pytest.mark.req("R-19", "R-32", "R-34")
def test_full_queue_and_queue_timeout_are_reachable(partner: FakePartner, tmp_path: Path) -> None:
    """`queue_backlog_full`, and once the one that waits has done so for too long, `queue_timeout`."""
    few = {"FAIRLEAD_QUEUE_BACKLOG": "1", "FAIRLEAD_QUEUE_PLACES": "0", "FAIRLEAD_QUEUE_HOURS": "0.001"}
    with _start(partner, tmp_path, **few) as server:
        first = _queue(server, server.key).json()
        _is(_queue(server, server.key), 429, "queue_backlog_full")
        late = wait_until(
            lambda: found if (found := server.client.get(first["response_url"])).status_code != 202 else None,
            "the time in the queue is over",
            pause=0.2,
        )
        assert late is not None
        _is(late, 504, "queue_timeout")


@pytest.fixture
def broken(partner: FakePartner, tmp_path: Path) -> Iterator[Server]:
    """Return a server whose keys are gone: a table has another name. Its log is not clean, so it is just stopped."""
    catalog = _with_one_model(partner, tmp_path)
    server = Server(tmp_path / "data", catalog=catalog, env=SETTINGS, arguments=_PLAIN)
    with closing(sqlite3.connect(server.data / "fairlead.db")) as connection:
        connection.execute("ALTER TABLE api_keys RENAME TO elsewhere")
    yield server
    server.stop()


@pytest.mark.req("R-19")
def test_internal_error_is_reachable_and_tells_nothing(broken: Server) -> None:
    """`internal_error`: the database misses a table, of which a caller learns nothing, and the log everything."""
    for answer in (_run(broken, broken.key), broken.client.get("/v2/models")):
        _is(answer, 500, "internal_error")
        assert "api_keys" not in answer.text
    wait_until(lambda: "no such table: api_keys" in broken.log.read_text("utf-8"), "the cause is logged")


@pytest.mark.req("R-19", "R-25")
def test_departed_caller_is_recorded_and_billed(router: Server, partner: FakePartner, new_name: NewName) -> None:
    """`client_disconnected` reaches nobody: the caller is recorded as gone, and its run is billed."""
    name = new_name()
    key = router.new_workspace(name)
    partner.script("/json", partner.hold(reply(200, b"{}")))
    router.abandon("/v2/models/fake/json-1", key, b"{}", lambda: partner.requests("/json"))
    assert router.workspace(name)["in_flight"] == 1
    partner.release()
    router.idle()
    ended = wait_until(
        lambda: [run for run in router.logged_events("RunEnded") if run["workspace"] == name], "the end is logged"
    )
    assert [(run["result"], run["caller_left"]) for run in ended] == [("success", True)]
    assert router.workspace(name)["balance"] == "-0.01"
