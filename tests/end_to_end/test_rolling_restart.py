"""Servers of one database are restarted one after the other behind a load balancer, and no request fails (M-03)."""

import itertools
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from servers import PLAIN, Server, serving, wait_until

_ENV: Final = {"FAIRLEAD_PROVIDER_FAKE_KEY": SECRET}
_PAUSE: Final = {"FAIRLEAD_DRAIN_PAUSE_SECONDS": "600"}
"""It is ended by a second signal, as soon as the balancer has noticed."""
_PLAIN: Final = ("--no-local-partner",)
_PATH: Final = "/v2/models/fake/json-1"
_CALLERS: Final = 6
_CALLS_BETWEEN: Final = 60


class Balancer:
    """Sends calls round-robin to the servers that say that they are ready, on connections it keeps; repeats none."""

    def __init__(self) -> None:
        self.answers: list[int | str] = []
        self._clients: dict[str, httpx.Client] = {}
        self._ready: list[str] = []
        self._turns = itertools.count()
        self._is_over = threading.Event()

    def add(self, server: Server) -> None:
        """Know a server, which gets calls when it is ready."""
        limits = httpx.Limits(max_keepalive_connections=_CALLERS)
        headers = {"X-API-Key": server.key}
        self._clients[server.url] = httpx.Client(
            base_url=server.url, headers=headers, timeout=60, verify=PLAIN, limits=limits
        )

    def wait_until_noticed(self, server: Server) -> None:
        """Wait until a server gets no more calls."""
        wait_until(lambda: server.url not in self._ready, "the balancer to notice")

    def wait_for_calls(self) -> None:
        """Wait until every caller has made several more calls."""
        made = len(self.answers)
        wait_until(lambda: len(self.answers) >= made + _CALLS_BETWEEN, "calls of all servers")

    @contextmanager
    def balancing(self) -> Iterator[None]:
        """Look after the servers and make calls."""
        threads = [threading.Thread(target=self._look), *(threading.Thread(target=self._call) for _ in range(_CALLERS))]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join(60)
            for client in self._clients.values():
                client.close()

    def _look(self) -> None:
        while not self._is_over.wait(0.05):
            self._ready = [url for url in list(self._clients) if _is_ready(url)]

    def _call(self) -> None:
        while not self._is_over.wait(0.002):
            if not (ready := self._ready):
                continue
            url = ready[next(self._turns) % len(ready)]
            try:
                self.answers.append(self._clients[url].post(_PATH, json={}).status_code)
            except httpx.HTTPError as error:
                self.answers.append(repr(error))


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=60, verify=PLAIN).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.mark.req("M-03")
def test_rolling_restart_fails_no_request(
    tmp_path: Path, postgresql_url: str, catalog: CatalogFolder, partner: FakePartner
) -> None:
    """Each of three servers is replaced by a new one under load; every call is answered with its result."""
    partner.script("/json", reply(200, b'{"made":1}'))
    balancer = Balancer()

    def start(env: Mapping[str, str]) -> Server:
        server = stack.enter_context(
            serving(tmp_path / "data", database=postgresql_url, catalog=catalog.path, env=env, arguments=_PLAIN)
        )
        balancer.add(server)
        return server

    with ExitStack() as stack:
        servers = [start({**_ENV, **_PAUSE}) for _ in range(3)]
        with balancer.balancing():
            for old in servers:
                balancer.wait_for_calls()
                old.process.send_signal(signal.SIGTERM)
                balancer.wait_until_noticed(old)
                assert httpx.get(f"{old.url}/readyz").json() == {"status": "draining"}
                balancer.wait_for_calls()  # those that were about to call it have done so
                old.process.send_signal(signal.SIGTERM)
                assert old.process.wait(60) == 0
                start(_ENV)
            balancer.wait_for_calls()
        assert set(balancer.answers) == {200}


def test_answers_of_a_server_that_drains_are_the_last_of_their_connections(tmp_path: Path) -> None:
    """A balancer then has no connection open to it that could break off under its next call."""
    with serving(tmp_path / "data", env=_PAUSE, arguments=_PLAIN) as server:
        assert "connection" not in server.client.get("/healthz").headers
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not _is_ready(server.url), "it drains")
        for path in ("/healthz", "/v2/models"):
            assert server.client.get(path).headers["connection"] == "close"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
