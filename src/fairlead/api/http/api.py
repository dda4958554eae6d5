"""One API over HTTP: its routes, and one envelope around everything that goes wrong in them.

Every response carries a request id; every fault that travels up is worded by the API whose route was asked for.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from starlette import routing
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.asgi import (
    REQUEST_ID,
    CallerLeftError,
    Headers,
    Receive,
    Scope,
    Send,
    answer,
    answer_at_once,
    begin,
    headers_of_every_answer,
)
from fairlead.api.http.route import Authorize, Bind, Endpoint, Route, require_caller
from fairlead.domain.assets.faults import AssetFaultError
from fairlead.domain.deployments import DeploymentFaultError
from fairlead.domain.faults import FaultError, RequestNotFound, ServiceUnavailable
from fairlead.domain.jobs.faults import JobFaultError
from fairlead.domain.registry import RegistryFaultError
from fairlead.observing.observations import FaultAnswered, Observer, UnexpectedError

METHOD_NOT_ALLOWED: Final = 405
_NO_SOCKET: Final = 1008
STOPPED: Final = ServiceUnavailable(
    "The server is stopping and waits for this answer no longer; what was begun for it goes on and is settled."
)
"""What a call is told that the server cancels, which it does at the end of the time it has to stop in."""
_PATH_SHOWN: Final = 200
_METHOD_SHOWN: Final = 100
_EXPECTED: Final = (
    FaultError, JobFaultError, AssetFaultError, DeploymentFaultError, RegistryFaultError, CallerLeftError,
    HTTPException,
)  # fmt: skip


class Refusal(msgspec.Struct, frozen=True):
    """How an API says that a call failed. `result` names the failure in logs and metrics, from a closed list."""

    status: int
    headers: Headers
    content: bytes
    result: str


def make_refusal(
    status: int, content: bytes, result: str, *, retry_after: int | None = None, more_headers: Headers | None = None
) -> Refusal:
    """A refusal in JSON, which nobody on the way may keep. `retry_after` in seconds, told as one at least."""
    headers: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), *(more_headers or [])]
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, retry_after)))
    return Refusal(status, headers, content, result)


def refused_method(error: HTTPException, scope: Scope) -> tuple[str, Headers]:
    """What to say of a method that a path does not know, and the header that names those it knows."""
    allowed = (error.headers or {}).get("Allow", "").encode()
    return f"{scope['method'][:_METHOD_SHOWN]} is not possible here.", [(b"allow", allowed)]


class MountedApi(Protocol):
    """An API at paths of its own, with its own envelope and credentials."""

    def serves(self, path: str) -> bool:
        """Whether a path is its own."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer one request or hold one socket; nothing that happens in it escapes."""
        ...


class HttpApi:
    """The routes of one API in front of Starlette, which serves all but the hottest of them. It has no sockets.

    `refusal` words an exception, which may be anything, for a call. `splits_encoded` says that an encoded slash in a
    path may separate segments, as Starlette has it; otherwise a path with one is not found (R-01). `expected` are
    exceptions of its own that `refusal` has words for.
    """

    def __init__(
        self,
        routes: Sequence[routing.BaseRoute],
        refusal: Callable[[Exception, Scope], Refusal],
        request_id: bytes,
        observe: Observer,
        *,
        splits_encoded: bool = False,
        expected: tuple[type[Exception], ...] = (),
    ) -> None:
        self._expected = (*_EXPECTED, *expected)
        self._refusal = refusal
        self._request_id = request_id
        self._observe = observe
        self._splits_encoded = splits_encoded
        self._plain = {
            route.path: route for route in routes if isinstance(route, routing.Route) and "{" not in route.path
        }
        self._router = routing.Router(routes, redirect_slashes=False)  # a path with a slash more is another path

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer one request; nothing that happens in it escapes."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": _NO_SOCKET})  # before it was accepted: 403
            return
        begin(scope, self._request_id, request_id)
        if not self._splits_encoded and b"%2f" in scope["raw_path"].lower():
            # Starlette matches the decoded path, in which an encoded slash would separate segments.
            await self.refuse(scope, send, FaultError(RequestNotFound()))
            return
        started = False

        async def send_with_id(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], *headers_of_every_answer(scope)]
            await send(message)

        try:
            await self._answer(scope, receive, send_with_id)
        except asyncio.CancelledError:
            if not started:
                await self.refuse(scope, send, FaultError(STOPPED))
        except Exception as error:  # noqa: BLE001 -- the caller learns what he may, the log everything
            if started or not isinstance(error, self._expected):
                self._observe(UnexpectedError(f"answer {request_id}", error))
            if not started:
                await self.refuse(scope, send, error)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the route and have it answer. One without parameters is found at once, in a table."""
        scope["app"] = self  # so that Starlette raises what it would otherwise answer by itself
        route = self._plain.get(scope["path"])
        if route is None or scope["method"] not in (route.methods or ()):
            await self._router(scope, receive, send)
            return
        response = await route.endpoint(Request(scope, receive))
        if not answer_at_once(scope, response):
            await response(scope, receive, send)

    async def refuse(self, scope: Scope, send: Send, error: Exception, more_headers: Headers | None = None) -> None:
        """Answer a call that has failed before any route had it, with more headers where there are some."""
        refusal = self._word(error, scope)
        await answer(scope, send, refusal.status, [*refusal.headers, *(more_headers or [])], refusal.content)

    def _word(self, error: Exception, scope: Scope) -> Refusal:
        refusal = self._refusal(error, scope)
        self._observe(FaultAnswered(scope[REQUEST_ID], scope["path"][:_PATH_SHOWN], refusal.result))
        return refusal


def routes_of(routes: Iterable[Route], bind: Bind, authorize: Authorize, prefix: str = "") -> list[routing.BaseRoute]:
    """Make Starlette's routes of ours, whose paths begin with a prefix.

    `bind` finds what answers each, `authorize` who calls those that take a credential.

    One route a path: Starlette would refuse a method with the methods of the first of several.
    """
    paths: dict[str, dict[str, Endpoint]] = {}
    for route in routes:
        endpoint = bind(route.handler)
        if route.access.is_checked_first:
            endpoint = require_caller(endpoint, authorize, route)
        for path in route.paths:
            paths.setdefault(prefix + path, {})[route.method] = endpoint
    return [routing.Route(path, _by_method(endpoints), methods=list(endpoints)) for path, endpoints in paths.items()]


def _by_method(endpoints: Mapping[str, Endpoint]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        is_head_of_get = request.method == "HEAD" and "HEAD" not in endpoints
        return await endpoints["GET" if is_head_of_get else request.method](request)

    return endpoint
