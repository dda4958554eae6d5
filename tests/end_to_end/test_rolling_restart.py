"""Servers of one database are restarted one after the other behind a load balancer, and no request fails (M-03)."""

import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx
import pytest

from end_to_end.balancing import Balancer, is_ready
from fake_partner import SECRET, CatalogFolder, FakePartner, reply
from servers import Server, serving, wait_until

pytestmark = pytest.mark.single_server("it makes an installation of its own")

_ENV: Final = {"FAIRLEAD_PROVIDER_FAKE_KEY": SECRET}
_PAUSE: Final = {"FAIRLEAD_DRAIN_PAUSE_SECONDS": "600"}
"""It is ended by a second signal, as soon as the balancer has noticed."""
_PLAIN: Final = ("--no-local-partner",)
_PATH: Final = "/v2/models/fake/json-1"


def _run(client: httpx.Client) -> int:
    return client.post(_PATH, json={}).status_code


@pytest.mark.req("M-03")
def test_rolling_restart_fails_no_request(
    tmp_path: Path, postgresql_url: str, catalog: CatalogFolder, partner: FakePartner
) -> None:
    """Each of three servers is replaced by a new one under load; every call is answered with its result."""
    partner.script("/json", reply(200, b'{"made":1}'))
    balancer = Balancer(_run)

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
        wait_until(lambda: not is_ready(server.url), "it drains")
        for path in ("/healthz", "/v2/models"):
            assert server.client.get(path).headers["connection"] == "close"
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
