"""Before the application is there, and when its time is up: every answer is one of an API, to the last byte."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from conftest import Run
from fairlead.api.cloud import errors as cloud
from fairlead.api.entrance import Entrance
from fairlead.api.http.api import HttpApi, routes_of
from fairlead.api.http.headers import HeaderNames
from fairlead.api.http.route import Access, Route
from fairlead.api.jobs import errors as jobs
from fairlead.api.registry import errors as registry
from fairlead.domain.accounts.callers import Caller

Sent = list[dict[str, Any]]


class Call:
    """One call by ASGI, and what was sent to it."""

    def __init__(self, path: str, method: str = "GET") -> None:
        """Ask for a path without a body."""
        self.sent: Sent = []
        self.scope: dict[str, Any] = {
            "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [], "scheme": "http", "server": ("127.0.0.1", 80), "root_path": "",
        }  # fmt: skip

    async def receive(self) -> dict[str, Any]:
        """Send nothing more."""
        return {"type": "http.request"}

    async def send(self, message: Any) -> None:
        """Take a message."""
        self.sent.append(message)

    @property
    def status(self) -> int:
        """The status that was sent."""
        return int(self.sent[0]["status"])

    @property
    def body(self) -> Any:
        """The JSON that was sent."""
        return json.loads(b"".join(message.get("body", b"") for message in self.sent))

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The headers that were sent."""
        return dict(self.sent[0]["headers"])


@pytest.fixture
def entrance() -> Entrance:
    """Return the entrance of a server that starts."""
    return Entrance(HeaderNames())


def test_server_that_starts_is_alive_and_says_that_it_starts(entrance: Entrance, run: Run) -> None:
    """A tool can tell a start that takes long from a server that does not answer."""
    for path, status, word in (("/healthz", 200, "ok"), ("/readyz", 503, "starting")):
        call = Call(path)
        run(entrance(call.scope, call.receive, call.send))
        assert (call.status, call.body) == (status, {"status": word})
        assert call.headers[HeaderNames().request_id]


def test_call_that_comes_during_the_start_is_answered_after_it(entrance: Entrance, run: Run) -> None:
    """It waits as it would have in the queue of the port."""

    async def application(scope: Any, _: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(scope["path"]).encode()})

    async def wait() -> tuple[Call, Call]:
        early, late = Call("/v2/models"), Call("/readyz")
        waiting = asyncio.ensure_future(entrance(early.scope, early.receive, early.send))
        await asyncio.sleep(0)
        assert early.sent == []
        entrance.open(application)  # type: ignore[arg-type]
        await waiting
        await entrance(late.scope, late.receive, late.send)
        return early, late

    early, late = run(wait())
    assert (early.body, late.body) == ("/v2/models", "/readyz")


def test_call_whose_server_is_stopped_while_it_starts_is_told_so(entrance: Entrance, run: Run) -> None:
    """Nothing was begun for it."""
    call = Call("/v2/models")
    run(_cancel(lambda: entrance(call.scope, call.receive, call.send)))
    assert call.status == 503
    assert call.body["error_type"] == "service_unavailable"


@pytest.mark.parametrize(
    ("refusal", "status", "told"),
    [
        (cloud.refusal, 503, lambda body: body["error"]["type"]),
        (jobs.refusal, 500, lambda body: body["error"]["code"]),
        (registry.refusal, 503, lambda body: body["error"]),
    ],
)
def test_call_that_outlives_the_drain_is_told_so_in_its_apis_own_format(
    refusal: Any, status: int, told: Callable[[Any], str], run: Run
) -> None:
    """The server cancels what has not been answered by then; no answer is plain text."""

    async def never(_: Request) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def nobody(_: Request) -> Caller:
        raise AssertionError

    route = Route("GET", "/slow", never, "Never answer", {}, access=Access.NOTHING)
    api = HttpApi(routes_of([route], lambda _: never, nobody), refusal, b"x-request-id", lambda _: None)
    call = Call("/slow")
    run(_cancel(lambda: api(call.scope, call.receive, call.send, "id")))
    assert (call.status, call.headers[b"content-type"]) == (status, b"application/json")
    assert told(call.body)


async def _cancel(work: Callable[[], Any]) -> None:
    """Cancel work once it waits, as the server does; it must not fail of it."""
    task = asyncio.ensure_future(work())
    await asyncio.sleep(0.01)
    task.cancel()
    await task
