"""Who may open a socket: the same callers who may call, with their credential in the address (C-08, C-14)."""

import json

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from api.admin.members import Person, sign_in
from api.cloud.clients import Client
from api.conftest import MakeToken


def greet(visitor: Client, path: str, token: str) -> str:
    """Open a socket, and return the kind of its first message."""
    address = visitor.server.url.replace("http://", "ws://") + path
    with connect(f"{address}?clientId=one&token={token}", open_timeout=60) as socket:
        kind: str = json.loads(socket.recv(20))["type"]
        return kind


@pytest.mark.req("C-08", "C-14")
@pytest.mark.parametrize("path", ["/ws", "/api/ws"])
def test_caller_opens_a_socket_with_a_key_or_a_token(visitor: Client, token: MakeToken, path: str) -> None:
    """A key and a token of the issuer both open a socket, at both paths."""
    assert greet(visitor, path, visitor.key) == "status"
    assert greet(visitor, path, token(visitor.workspace)) == "status"


@pytest.mark.req("C-08", "C-14")
@pytest.mark.parametrize("credential", ["", "flk_nobody", "a.b.c", "%C3%A9", "x" * 5000])
def test_stranger_opens_no_socket(visitor: Client, credential: str) -> None:
    """Nobody else opens one, whatever is sent in place of a credential."""
    with pytest.raises(InvalidStatus) as raised:
        greet(visitor, "/ws", credential)
    assert raised.value.response.status_code == 401


def test_session_opens_a_socket_for_a_page_of_this_origin_alone(visitor: Client) -> None:
    """A browser sends the cookie and the origin; the workspace stands in the address."""
    server = visitor.server
    key = (server.data / "first-operator-key").read_text("ascii").strip()
    cookie = sign_in(server, key).headers["set-cookie"].partition(";")[0]
    address = f"{server.url.replace('http://', 'ws://')}/ws?clientId=one&workspace={visitor.workspace}"
    with connect(address, additional_headers={"Cookie": cookie}, origin=Origin(server.url)) as socket:
        assert json.loads(socket.recv(20))["type"] == "status"
    for origin in (None, Origin("http://evil.example")):
        with (
            pytest.raises(InvalidStatus) as raised,
            connect(address, additional_headers={"Cookie": cookie}, origin=origin),
        ):
            pass
        assert raised.value.response.status_code == 403


def test_socket_of_an_ended_session_is_closed(visitor: Client) -> None:
    """A page that is still open is told within some seconds that its session is over."""
    person = Person(visitor.server, (visitor.server.data / "first-operator-key").read_text("ascii").strip()).sign_in()
    address = f"{visitor.server.url.replace('http://', 'ws://')}/ws?clientId=one&workspace={visitor.workspace}"
    headers = {"Cookie": person.headers["Cookie"]}
    with connect(address, additional_headers=headers, origin=Origin(visitor.server.url)) as socket:
        assert json.loads(socket.recv(20))["type"] == "status"
        assert person.ask("DELETE", "/sessions/current").status_code == 204
        with pytest.raises(ConnectionClosed) as raised:
            socket.recv(60)
    assert raised.value.rcvd is not None
    assert raised.value.rcvd.code == 1008


def test_sockets_open_at_two_paths_alone(visitor: Client) -> None:
    """There are two paths for sockets, and no others."""
    for path in ("/api/prompt", "/v2/models", "/nothing"):
        with pytest.raises(InvalidStatus) as raised:
            greet(visitor, path, visitor.key)
        response = raised.value.response
        assert response.status_code == 404
        assert response.headers["x-service-request-id"]
