"""Two servers behind the balancer that ships, while the database or the store that they share is away (T-06)."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from databases import Postgres, running_postgres
from end_to_end.test_workflows import ENV
from end_to_end.workflow_clients import graph_showing, picture
from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from haproxy import ADDRESS, Haproxy, find_haproxy, running_haproxy
from s3_store import S3Server, running_store
from servers import Server, metric_of, serving, wait_until

_ENV: Final = {
    **ENV,
    "FAIRLEAD_PROVIDER_FAKE_KEY": SECRET,
    "FAIRLEAD_LOCAL_PARTNER": "false",
    "FAIRLEAD_DATABASE_WAIT_SECONDS": "0.2",
    "FAIRLEAD_TRUSTED_PROXIES": ADDRESS,
    "FAIRLEAD_METRICS_TOKEN": "a-token-of-these-tests",
}
_RUN: Final = "/v2/models/fake/json-1"
_CHECKED_SECONDS: Final = 4.0
"""The balancer withdraws a server that was not ready twice within a second each."""

pytestmark = pytest.mark.single_server("it makes an installation of its own, behind a balancer of its own")


def _graph() -> Any:
    return graph_showing("PrimitiveInt", value=time.monotonic_ns() % 1_000_000)


def _file() -> dict[str, tuple[str, bytes]]:
    return {"image": ("photo.png", picture())}


_CALLS: Final[dict[str, Callable[[httpx.Client], httpx.Response]]] = {
    "run": lambda caller: caller.post(_RUN, json={}),
    "queued run": lambda caller: caller.post(f"{_RUN}/requests", json={}),
    "job": lambda caller: caller.post("/api/v2/jobs", json={"workflow": _graph()}),
    "prompt": lambda caller: caller.post("/api/prompt", json={"prompt": _graph()}),
    "upload": lambda caller: caller.post("/api/upload/image", files=_file()),
    "asset": lambda caller: caller.post(
        "/api/v2/assets", files={"file": ("photo.png", picture(), "image/png")}, data={"tags": "input"}
    ),
}


class Installation:
    """Two servers, what they share, the balancer in front of them, and a caller of it."""

    def __init__(
        self, servers: list[Server], database: Postgres, store: S3Server, balancer: Haproxy, caller: httpx.Client
    ) -> None:
        """Take what was started."""
        self.servers = servers
        self.database = database
        self.store = store
        self.balancer = balancer
        self.caller = caller

    def states(self) -> set[str]:
        """What the servers say of themselves."""
        return {server.client.get("/readyz").json()["status"] for server in self.servers}

    def problems(self, subject: str) -> list[float]:
        """Whether the metrics of each server name a problem."""
        token = {"Authorization": f"Bearer {_ENV['FAIRLEAD_METRICS_TOKEN']}"}
        pages = [httpx.get(f"{server.url}/metrics", headers=token).text for server in self.servers]
        return [metric_of(page, "fairlead_problem", subject=subject) for page in pages]

    def is_balanced(self, server: Server) -> bool:
        """Whether a server gets requests."""
        return self.balancer.is_ready(int(server.url.rpartition(":")[2]))

    def answers(self) -> dict[str, set[tuple[int, str]]]:
        """Call for as long as the balancer needs to withdraw a server: the status and the kind of each answer."""
        found: dict[str, set[tuple[int, str]]] = {name: set() for name in _CALLS}
        end = time.monotonic() + _CHECKED_SECONDS
        while time.monotonic() < end:
            for name, call in _CALLS.items():
                found[name].add(_kind(call(self.caller)))
        assert [self.is_balanced(server) for server in self.servers] == [True, True]
        return found


def _kind(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"].startswith("application/json"), answer.text
    if answer.status_code == 503:
        assert "retry-after" not in answer.headers
    if answer.is_success:
        return answer.status_code, ""
    document = answer.json()
    error = document.get("error")
    words = error if isinstance(error, dict) else {}
    return answer.status_code, document.get("error_type") or words.get("code") or words["type"]


@pytest.fixture
def installation(tmp_path: Path, catalog: CatalogFolder, partner: FakePartner) -> Iterator[Installation]:
    """Return an installation whose database and store this test may stop."""
    program = find_haproxy()
    partner.script("/json", reply(200, b'{"made":1}'))
    with ExitStack() as stack:
        database = stack.enter_context(running_postgres())
        store = stack.enter_context(running_store())
        url, env = database.url(database.create()), {**_ENV, **store.settings("shared")}
        first = stack.enter_context(serving(tmp_path / "one", database=url, catalog=catalog.path, env=env))
        second = tmp_path / "two"
        second.mkdir(mode=0o700)
        for shared in ("secret-key", "first-key"):
            shutil.copy(first.data / shared, second)
        servers = [first, stack.enter_context(serving(second, database=url, catalog=catalog.path, env=env))]
        ports = [int(server.url.rpartition(":")[2]) for server in servers]
        balancer = stack.enter_context(running_haproxy(tmp_path, ports, program))
        wait_until(lambda: all(map(balancer.is_ready, ports)), "the balancer to know the servers")
        caller = httpx.Client(base_url=balancer.url, headers={"X-API-Key": first.key}, timeout=60)
        with caller:
            yield Installation(servers, database, store, balancer, caller)


@pytest.mark.req("T-06", "R-39", "J-07")
def test_outage_of_what_all_share_is_answered_by_each_api(installation: Installation) -> None:
    """No server is withdrawn: runs go on without the store, and without the database each API says so itself."""
    installation.store.stop()
    wait_until(lambda: installation.states() == {"degraded"}, "the store is missed")
    assert installation.answers() == {
        "run": {(200, "")},
        "queued run": {(201, "")},
        "job": {(201, "")},
        "prompt": {(200, "")},
        "upload": {(503, "service_unavailable")},
        "asset": {(500, "upstream_error")},
    }
    installation.store.start()
    wait_until(lambda: installation.states() == {"ready"}, "the store is back")

    installation.database.stop()
    wait_until(lambda: installation.states() == {"degraded"}, "the database is missed")
    assert installation.answers() == {
        "run": {(503, "service_unavailable")},
        "queued run": {(503, "service_unavailable")},
        "job": {(500, "upstream_error")},
        "prompt": {(503, "service_unavailable")},
        "upload": {(503, "service_unavailable")},
        "asset": {(500, "upstream_error")},
    }
    installation.database.start()
    wait_until(lambda: installation.states() == {"ready"}, "the database is back")

    installation.database.refuse_writes()
    wait_until(lambda: installation.states() == {"degraded"}, "the database lets nobody write")
    assert installation.problems("database") == [1, 1]
    refused = installation.answers()
    assert {refused[name].pop() for name in ("run", "queued run")} == {(503, "service_unavailable")}
    assert refused["job"] == {(500, "upstream_error")}
    installation.database.execute("ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
    wait_until(lambda: installation.states() == {"ready"}, "the database can be written")
    assert {status for answers in installation.answers().values() for status, _ in answers} == {200, 201}


@pytest.mark.req("T-06")
def test_server_with_a_problem_of_its_own_is_withdrawn(installation: Installation) -> None:
    """The others serve what it would have refused."""
    broken, well = installation.servers
    away = broken.data.rename(broken.data.with_name("away"))
    wait_until(lambda: not installation.is_balanced(broken), "the balancer to withdraw it")
    assert broken.client.get("/readyz").json()["status"] == "unready"
    assert [_kind(installation.caller.post(_RUN, json={})) for _ in range(20)] == [(200, "")] * 20
    assert installation.is_balanced(well)
    away.rename(broken.data)
    wait_until(lambda: installation.is_balanced(broken), "the balancer to know it again")


def test_balancer_keeps_operators_routes_and_what_servers_believe_to_itself(installation: Installation) -> None:
    """However a path is written; and no caller says what a proxy would say of the call."""
    port = int(installation.balancer.url.rpartition(":")[2])
    statuses = {path: _raw(port, path)[0] for path in _HIDDEN}
    assert statuses == dict.fromkeys(_HIDDEN, 404)
    lies = {
        "Forwarded": "host=evil.example;proto=https",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Prefix": "/evil",
        "X-Forwarded-Proto": "https",
    }
    taken = installation.caller.post(f"{_RUN}/requests", json={}, headers=lies).json()
    assert taken["status_url"].startswith(f"{installation.balancer.url}/v2/")


_HIDDEN: Final = (
    "/metrics", "/healthz", "/readyz", "/metrics?x=1", "/%6detrics", "/%6Detrics", "/m%65trics?x", "/health%7a",
    "/%72eadyz", "/%6d%65%74%72%69%63%73", "http://localhost/metrics",
)  # fmt: skip


def _raw(port: int, path: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
