"""The table of routes: who answers what, and which paths are the cloud API's."""

import asyncio
from typing import Any, Final

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from cases import for_each
from fairlead.api.cloud.api import CloudApi
from fairlead.api.cloud.routes import ROUTES, SOCKETS
from fairlead.api.http.route import Endpoint, Handler
from fairlead.domain.accounts.callers import Caller

_FILLED: Final = {"{job_id}": "j", "{file_id}": "f", "{class_name:path}": "c", "{setting:path}": "s/t"}


async def anybody(_request: Request) -> Caller:
    """Let everybody in."""
    return Caller("w", "lab")


def echo(handler: Handler) -> Endpoint:
    """Return what answers a route with the name of its handler."""

    async def endpoint(_request: Request) -> Response:
        return PlainTextResponse(handler.__name__)

    return endpoint


class Wire:
    """One request to an API, and what was answered."""

    def __init__(self, method: str, path: str, kind: str = "http", raw_path: str | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        raw = (raw_path or path).encode()
        self.scope: dict[str, Any] = {
            "type": kind, "method": method, "path": path, "raw_path": raw, "query_string": b"", "headers": [],
            "server": ("127.0.0.1", 1), "scheme": "http", "http_version": "1.1", "root_path": "",
        }  # fmt: skip

    async def receive(self) -> dict[str, Any]:
        """Return an empty body."""
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(self, message: Any) -> None:
        """Take note of a part of the answer."""
        self.sent.append(message)

    @property
    def text(self) -> str:
        """The body of the answer."""
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    @property
    def status(self) -> int:
        """The status of the answer."""
        return int(self.sent[0]["status"])


async def _echo_socket(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "websocket.accept"})


def ask(method: str, path: str, **more: Any) -> Wire:
    """Ask an API whose handlers say their names."""
    wire = Wire(method, path, **more)
    api = CloudApi(echo, anybody, _echo_socket, b"x-request-id", lambda _: None)
    asyncio.run(api(wire.scope, wire.receive, wire.send, "the-id"))
    return wire


def fill(path: str) -> str:
    """Return a path of the table as a caller writes it."""
    for name, value in {**_FILLED, "{file:path}": "a/b.json", "{to:path}": "c.json"}.items():
        path = path.replace(name, value)
    return path


@for_each("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_each_path_leads_to_its_own_handler(route: Any) -> None:
    """Each path leads to its own handler, with and without the prefix where it has both."""
    api = CloudApi(echo, anybody, _echo_socket, b"x-request-id", lambda _: None)
    for path in map(fill, route.paths):
        wire = ask(route.method, path)
        assert (wire.status, wire.text) == (200, route.name), path
        assert (b"x-request-id", b"the-id") in wire.sent[0]["headers"]
        assert api.serves(path)


def test_cloud_api_serves_its_own_paths_alone() -> None:
    """The cloud API has its prefix and the engine's own paths, and no others."""
    api = CloudApi(echo, anybody, _echo_socket, b"x-request-id", lambda _: None)
    for path in ("/v2/models", "/v1/models/a/b", "/", "", "/healthz", "/metrics", "/assets/a", "/apis", "/prompts"):
        assert not api.serves(path), path
    for path in ("/api", "/api/", "/api/v2/jobs", "/api/nothing", "/prompt/more", *SOCKETS):
        assert api.serves(path), path


@pytest.mark.req("C-14")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v2/jobs", 404),
        ("GET", "/api", 404),
        ("GET", "/api/prompt/", 404),
        ("GET", "/jobs", 404),
        ("PUT", "/api/prompt", 405),
        ("GET", "/api/interrupt", 405),
    ],
)
def test_unknown_path_is_refused_in_the_clouds_envelope(method: str, path: str, status: int) -> None:
    """Under the prefix every refusal has the cloud's envelope."""
    wire = ask(method, path)
    assert wire.status == status
    assert '"error":{"type"' in wire.text


def test_socket_opens_at_its_two_paths() -> None:
    """Sockets are at two paths; at any other they are closed before they are open."""
    for path in SOCKETS:
        assert ask("GET", path, kind="websocket").sent == [{"type": "websocket.accept"}]
    assert ask("GET", "/api/prompt", kind="websocket").sent[0]["type"] == "websocket.close"
    assert ask("GET", "/ws").status == 404


def test_file_name_with_encoded_slashes_is_one_segment() -> None:
    """Editors send the slashes of a file's name encoded, and none of those segments is another route."""
    wire = ask("POST", "/api/userdata/workflows/a.json", raw_path="/api/userdata/workflows%2Fa.json")
    assert wire.text == "put_user_file"
