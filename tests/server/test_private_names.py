"""What our web server uses of uvicorn that uvicorn does not promise: each name is listed, is there, and is pinned."""

import ast
import inspect
import re
import tomllib
from importlib.metadata import version
from typing import Final

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from fairlead.server import sockets, web, web_server
from form.sources import ROOT

_SERVER: Final = {
    "_captured_signals", "config", "force_exit", "handle_exit", "on_tick", "server_state", "should_exit", "shutdown",
}  # fmt: skip
_PROTOCOL: Final = {
    "_should_upgrade", "_start_asgi_task", "_unsupported_upgrade_warning", "access_log", "access_logger", "app",
    "client", "connection_lost", "connection_made", "connections", "cycle",
    "data_received", "expect_100_continue", "flow", "handle_websocket_upgrade", "headers", "logger", "loop", "on_body",
    "on_header", "on_headers_complete", "on_message_begin", "on_message_complete", "on_response_complete", "on_url",
    "parser", "pipeline", "scheme", "scope", "server", "server_state", "transport", "url",
}  # fmt: skip
_EXCHANGE: Final = {
    "body", "default_headers", "disconnected", "flow", "keep_alive", "message_event", "more_body", "on_response",
    "response_complete", "response_started", "scope", "send", "transport", "waiting_for_100_continue",
}  # fmt: skip
_SOCKET: Final = {
    "close_sent", "close_timer", "conn", "data_received", "disconnected", "frames", "handle_connect", "handle_cont",
    "handle_parser_exception", "handle_ping", "handshake_complete", "handshake_initiated", "keepalive_timeout", "loop",
    "queue", "read_paused", "scope", "send", "send_receive_event_to_app", "shutdown", "stop_keepalive", "transport",
    "writable",
}  # fmt: skip
_PINNED: Final = {"uvicorn": r"uvicorn>=0\.(\d+),<0\.(\d+)", "websockets": r"websockets>=(\d+),<(\d+)"}


@pytest.mark.parametrize(
    ("ours", "theirs", "listed"),
    [
        (web_server.WebServer, uvicorn.Server, _SERVER),
        (web.WebProtocol, HttpToolsProtocol, _PROTOCOL),
        (web.WebExchange, RequestResponseCycle, _EXCHANGE),
        (sockets.SocketProtocol, WebSocketsSansIOProtocol, _SOCKET),
    ],
)
def test_names_of_uvicorn_that_are_used_are_listed_and_there(ours: type, theirs: type, listed: set[str]) -> None:
    """A name that is used or overridden is on the list; one that uvicorn no longer has fails here, not in a call."""
    there = set().union(*_names(theirs))
    assert listed - there == set()
    assert set().union(*_names(ours)) & there - {"__init__"} == listed


def _names(of: type) -> tuple[set[str], set[str]]:
    """The names that a class defines, and those that it uses of itself."""
    [body] = ast.parse(inspect.getsource(of)).body
    assert isinstance(body, ast.ClassDef)
    own = {node.name for node in body.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    used = {node.attr for node in ast.walk(body) if isinstance(node, ast.Attribute) and _is_self(node.value)}
    return own, used


def _is_self(value: ast.expr) -> bool:
    match value:
        case ast.Name(id="self") | ast.Call(func=ast.Name(id="super")):
            return True
        case _:
            return False


def test_exchange_of_uvicorn_takes_what_ours_gives_it() -> None:
    """They are given by their places."""
    assert [*inspect.signature(RequestResponseCycle).parameters] == [
        "scope", "transport", "flow", "logger", "access_logger", "access_log", "default_headers", "message_event",
        "expect_100_continue", "keep_alive", "on_response",
    ]  # fmt: skip


@pytest.mark.parametrize("package", _PINNED)
def test_package_whose_private_names_are_used_is_pinned_to_one_version(package: str) -> None:
    """The next version is taken when these tests have passed with it, and not by an installation."""
    [wanted] = [
        line
        for line in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
        if re.match(rf"{package}\b", line)
    ]
    pinned = re.fullmatch(_PINNED[package], wanted)
    assert pinned is not None, wanted
    assert int(pinned[2]) == int(pinned[1]) + 1
    major, minor = version(package).split(".")[:2]
    assert int(pinned[1]) == int(minor if major == "0" else major)
