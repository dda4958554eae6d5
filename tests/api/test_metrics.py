"""What /metrics says of calls, of the database and of the installation, and that the page about it says the same."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from fake_partner import SECRET, CatalogFolder, FakePartner
from form.sources import DOCS
from servers import Server, serving, wait_until

_ROW: Final = re.compile(r"^\| `((?:fairlead|process)_\w+)` \| (\w+) \|", re.MULTILINE)
_TYPE: Final = re.compile(r"^# TYPE ((?:fairlead|process)_\w+) (\w+)$", re.MULTILINE)
_ONLY_WITH_NATS: Final = {"fairlead_messages_total": "counter", "fairlead_messenger_connected": "gauge"}
_PLAIN: Final = ("--no-local-partner",)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory, shared_partner: FakePartner) -> Iterator[Server]:
    """Return a server that executes no queued runs."""
    folder = tmp_path_factory.mktemp("busy")
    catalog = CatalogFolder(folder / "catalog")
    catalog.add_provider(shared_partner.url)
    catalog.add_model("fake/json-1")
    env = {"FAIRLEAD_QUEUE_PLACES": "0", "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET}
    with serving(folder / "data", catalog=catalog.path, env=env, arguments=_PLAIN) as server:
        yield server


def test_every_metric_is_on_the_page_about_them(busy: Server) -> None:
    """A server's metrics, with those that only NATS brings, and the table of docs/observing.md are the same."""
    page = busy.client.get("/metrics").text
    served = {name: kind for name, kind in _TYPE.findall(page) if not name.endswith("_created")}
    described = dict(_ROW.findall((DOCS / "observing.md").read_text(encoding="utf-8")))
    assert described == {**served, **_ONLY_WITH_NATS}


def test_calls_are_counted_by_route_not_by_path(busy: Server) -> None:
    """Parameters have their names, unknown paths are one route, and each has its times."""
    route = "/v2/models/{provider}/{model}"
    before = busy.metric("fairlead_http_requests_total", route=route, status="404")
    timed = busy.metric("fairlead_http_request_seconds_count", route=route)
    unmatched = busy.metric("fairlead_http_requests_total", route="unmatched", status="404")
    for name in ("a", "b"):
        busy.client.post(f"/v2/models/fake/{name}", json={})
        busy.client.get(f"/nowhere/{name}")
        busy.client.request("DELETE", f"/nowhere/{name}")
    counted = busy.metric("fairlead_http_requests_total", method="POST", route=route, status="404")
    assert counted == before + 2
    assert busy.metric("fairlead_http_requests_total", route="unmatched", status="404") == unmatched + 4
    assert busy.metric("fairlead_http_request_seconds_count", route=route) == timed + 2
    assert "/nowhere" not in busy.client.get("/metrics").text


def test_methods_of_a_path_are_routes_of_their_own(busy: Server) -> None:
    """HEAD counts as the GET that answers it, and a method that a path does not know as no route."""
    busy.client.get("/v2/models")
    before = busy.metric("fairlead_http_requests_total", method="GET", route="/v2/models", status="200")
    busy.client.head("/v2/models")
    assert busy.client.put("/v2/models").status_code == 405
    assert busy.metric("fairlead_http_requests_total", method="GET", route="/v2/models", status="200") == before + 1
    assert busy.metric("fairlead_http_requests_total", route="unmatched", status="405") >= 1


def test_calls_from_pages_of_other_origins_are_counted_by_route(tmp_path: Path) -> None:
    """What marks answers for browsers hides no route."""
    env = {"FAIRLEAD_ALLOWED_ORIGINS": "https://editor.example"}
    with serving(tmp_path / "data", env=env, arguments=_PLAIN) as server:
        server.client.get("/v2/models", headers={"Origin": "https://editor.example"})
        assert server.metric("fairlead_http_requests_total", method="GET", route="/v2/models", status="200") == 1


def test_call_whose_caller_left_and_unreadable_head_are_counted(busy: Server) -> None:
    """The one as 499 at its route, the other by the status it was refused with."""
    host, port = busy.url.removeprefix("http://").split(":")
    for sent in (
        b"POST /v2/models/fake/json-1 HTTP/1.1\r\nHost: x\r\nX-API-Key: %b\r\nContent-Length: 9\r\n\r\n{"
        % busy.key.encode(),
        b"nonsense\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(sent)
            if not sent.startswith(b"POST"):
                assert connection.recv(100).startswith(b"HTTP/1.1 400")
    wait_until(lambda: busy.metric("fairlead_http_requests_total", status="499") >= 1, "the caller to be missed")
    assert busy.metric("fairlead_http_requests_total", route="unmatched", status="400") >= 1


def test_transactions_and_commits_are_timed(busy: Server, partner: FakePartner) -> None:
    """Each read, each write and each commit that waits for the disk is counted once it has succeeded."""
    before = _transactions(busy)
    assert busy.client.post("/v2/models/fake/json-1", json={}).status_code == 200
    assert len(partner.requests("/json")) == 1
    after = _transactions(busy)
    assert after["write"] >= before["write"] + 2  # the admission and the settlement
    assert after["commit"] >= before["commit"] + 2
    wait_until(lambda: _transactions(busy)["read"] > before["read"], "the metrics to look at the queues")


def test_installation_is_seen(busy: Server) -> None:
    """What waits by the class of its workspace and by pool, which servers live, and how much room is left."""
    ids = [busy.client.post("/v2/models/fake/json-1/requests", json={}).json()["request_id"] for _ in range(2)]
    waiting = {"kind": "runs", "subscription": "pro", "state": "released"}
    wait_until(lambda: busy.metric("fairlead_backlog", **waiting) == 2, "the queue to be seen")
    assert busy.metric("fairlead_backlog_oldest_seconds", kind="runs", subscription="pro") > 0
    assert busy.metric("fairlead_backlog", kind="jobs") == 0
    for name in ("fairlead_pool_waiting", "fairlead_pool_unattended"):  # it says that it has no places for runs
        assert busy.metric(name, kind="runs", pool="default") == 2
        assert busy.metric(name, kind="jobs", pool="default") == busy.metric(name, pool="(other)") == 0
    for id_ in ids:
        busy.client.put(f"/v2/models/fake/json-1/requests/{id_}/cancel")
    wait_until(lambda: busy.metric("fairlead_backlog", **waiting) == 0, "the queue to be seen empty")
    assert busy.metric("fairlead_servers", state="alive") == 1
    assert busy.metric("fairlead_servers", state="silent") == 0
    assert 0 < busy.metric("fairlead_disk_free_bytes") < busy.metric("fairlead_disk_size_bytes")
    assert busy.metric("fairlead_database_up") == 1
    assert busy.metric("fairlead_database_size_bytes") >= 4096
    assert busy.metric("fairlead_database_wal_bytes") > 0
    assert busy.metric("fairlead_build_info", database="sqlite") == 1
    assert busy.metric("process_resident_memory_bytes") > 10_000_000


def test_metrics_are_told_without_the_database(tmp_path: Path) -> None:
    """While it is away its figures are missing, none is an old one, and `fairlead_database_up` is 0."""
    with serving(tmp_path / "data", arguments=_PLAIN) as server:
        database = server.data / "fairlead.db"
        away = database.rename(tmp_path / "away.db")
        wait_until(
            lambda: "fairlead_database_up 0.0" in server.client.get("/metrics").text, "the database to be missed"
        )
        page = server.client.get("/metrics").text
        assert not re.search(r"^fairlead_(backlog|servers|database_size_bytes)\b.* ", page, re.MULTILINE)
        assert server.metric("fairlead_disk_free_bytes") > 0
        away.rename(database)
        wait_until(lambda: server.metric("fairlead_database_up") == 1, "the database to be seen again")


def _transactions(server: Server) -> dict[str, float]:
    names = ("read", "write", "commit")
    return {name: server.metric("fairlead_database_seconds_count", operation=name) for name in names}
