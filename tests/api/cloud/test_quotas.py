"""Quotas of requests at the cloud API: polls, uploads and sockets count, and one workspace's are its own (S-09)."""

from collections.abc import Iterator
from typing import Final

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from api.cloud.clients import Client
from servers import Server, serving

pytestmark = pytest.mark.req("S-09")

_QUOTA: Final = 6
_NOBODY: Final = "00000000-0000-4000-8000-000000000000"
_STATUS: Final = f"/api/job/{_NOBODY}/status"


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server at which a workspace may ask for little."""
    env = {"FAIRLEAD_ENGINE": "true", "FAIRLEAD_REQUESTS_PER_DAY": str(_QUOTA)}
    data = tmp_path_factory.mktemp("quotas") / "data"
    with serving(data, env=env, arguments=("--no-local-partner",)) as server:
        yield server


def _expect_refusal(client: Client, method: str, path: str) -> None:
    response = client.ask(method, path)
    assert response.status_code == 429
    assert response.json()["error"]["type"] == response.json()["code"] == "rate_limited"
    assert int(response.headers["retry-after"]) > 0


def test_calls_of_the_cloud_api_count_towards_the_quota(narrow: Server) -> None:
    """Refused calls count with those of the router; past the quota each is told to wait, reads and others are not."""
    client = Client(narrow, "asks-a-lot", narrow.new_workspace("asks-a-lot"))
    for _ in range(_QUOTA - 2):
        assert client.ask("POST", "/api/interrupt").status_code == 200
    assert client.ask("POST", "/api/prompt").status_code == 400
    assert client.ask("GET", "/v2/models").status_code == 200
    for path in ("/api/interrupt", "/api/prompt", "/api/upload/image"):
        _expect_refusal(client, "POST", path)
    assert client.ask("GET", "/v2/models").status_code == 429
    assert client.ask("GET", _STATUS).status_code == 404
    other = Client(narrow, "asks-little", narrow.new_workspace("asks-little"))
    assert other.ask("POST", "/api/interrupt").status_code == 200


def test_opening_of_a_socket_counts_towards_the_quota(narrow: Server) -> None:
    """Sockets are opened within the quota only; those that are open are told on."""
    client = Client(narrow, "watches", narrow.new_workspace("watches"))
    url = narrow.url.replace("http", "ws", 1) + f"/ws?token={client.key}"
    for _ in range(_QUOTA):
        with connect(url) as socket:
            assert '"status"' in str(socket.recv(timeout=60))
    with pytest.raises(InvalidStatus) as caught, connect(url):
        pass
    assert caught.value.response.status_code == 429
    assert int(caught.value.response.headers["retry-after"]) > 0
    _expect_refusal(client, "POST", "/api/interrupt")
