"""Connections: each has a bound on its silence, and none is cut that is being worked for."""

import http.client
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from servers import Server, serving

_PATIENCE = {"FAIRLEAD_SILENCE_SECONDS": "1"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server that is patient for a second."""
    with serving(tmp_path / "data", env=_PATIENCE) as running:
        yield running


def _connect(server: Server) -> socket.socket:
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname or "", address.port or 0), timeout=20)


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "], ids=["nothing", "half a head"])
@pytest.mark.single_server("it is about the silence of connections that lead to one server")
def test_silent_connection_is_closed(server: Server, sent: bytes) -> None:
    """A caller that sends nothing, or never ends the head of its request, is hung up on."""
    with _connect(server) as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""


@pytest.mark.single_server("it is about the silence of connections that lead to one server")
def test_used_connection_is_closed_when_it_falls_silent(server: Server) -> None:
    """After an answer a connection may be used again, but not be kept for nothing."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
    for _ in range(2):
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"status":"ok"}')
    assert connection.sock.recv(1) == b""
    connection.close()


def test_run_that_takes_long_is_not_cut(server: Server) -> None:
    """A call that is held is no silence, however long it takes."""
    answer = httpx.post(
        f"{server.url}/v2/models/local/procedural-video-1",
        json={"prompt": "x", "duration_seconds": 3.0},
        headers={"X-API-Key": server.key},
        timeout=200,
    )
    assert answer.status_code == 200
