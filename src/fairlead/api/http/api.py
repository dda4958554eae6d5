"""One API over HTTP: its routes, and one envelope around everything that goes wrong in them.

Every response carries a request id; every fault that travels up is worded by the API whose route was asked for.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from starlette import routing
from starlette.convertors import PathConvertor
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.asgi import (
    REQUEST_ID,
    ROUTE_NAME,
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
_SOCKET_ANSWER: Final = "websocket.http.response"
"""The ASGI extension of a server that answers a request for a socket by HTTP."""
STOPPED: Final = ServiceUnavailable(
    "The server is stopping and waits for this answer no longer; what was begun for it goes on and is settled."
)
"""The answer to a call that the server cancels, which it does at the end of its time to stop."""
_CONVERTER: Final = re.compile(r":\w+(?=\})")
"""How Starlette spells the form of a path's parameter, as in `{path:path}`."""
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
    """A refusal in JSON, which no cache may keep. `retry_after` is in seconds, and sent as one at least."""
    headers: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), *(more_headers or [])]
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, retry_after)))
    return Refusal(status, headers, content, result)


def refused_method(error: HTTPException, scope: Scope) -> tuple[str, Headers]:
    """The message for a method that a path does not know, and the header that names those it knows."""
    allowed = (error.headers or {}).get("Allow", "").encode()
    return f"{scope['method'][:_METHOD_SHOWN]} is not possible here.", [(b"allow", allowed)]


class MountedApi(Protocol):
    """An API at paths of its own, with its own envelope and credentials."""

    def serves(self, path: str) -> bool:
        """Whether a path is its own."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer one request or hold one socket. It raises nothing."""
        ...


class HttpApi:
    """The routes of one API. Starlette matches them, and reports what none of them serves. It has no sockets.

    `refusal` makes the answer of a call from any exception. `splits_encoded` says that an encoded slash in a path may
    separate segments, as Starlette has it; otherwise a path with one is not found (R-01). `expected` are exceptions of
    its own that `refusal` has a message for.
    """

    def __init__(
        self,
        routes: Sequence[routing.Route],
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
        self._plain = {route.path: route for route in routes if "{" not in route.path}
        self._by_slashes = _by_slashes(routes)
        self._router = routing.Router(routes, redirect_slashes=False)  # a path with a slash more is another path

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer one request. It raises nothing."""
        begin(scope, self._request_id, request_id)
        if scope["type"] != "http":
            await self.refuse_socket(scope, send, FaultError(RequestNotFound()))
            return
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
        except Exception as error:  # noqa: BLE001 -- the caller learns little, the log everything
            if started or not isinstance(error, self._expected):
                self._observe(UnexpectedError(f"answer {request_id}", error))
            if not started:
                await self.refuse(scope, send, error)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Find the route and have it answer, in one write where the answer is whole."""
        scope["app"] = self  # so that Starlette raises what it would otherwise answer by itself
        if (route := self._route_of(scope)) is None:
            await self._router(scope, receive, send)
            return
        response = await route.endpoint(Request(scope, receive))
        if not answer_at_once(scope, response):
            await response(scope, receive, send)

    def _route_of(self, scope: Scope) -> routing.Route | None:
        """The route that serves a call; None where none does. It puts the parameters of the path into the scope."""
        path: str = scope["path"]
        route = self._plain.get(path)
        if route is not None and scope["method"] in (route.methods or ()):
            return route
        for one in self._by_slashes[min(path.count("/"), len(self._by_slashes) - 1)]:
            match, found = one.matches(scope)
            if match is routing.Match.FULL:
                scope.update(found)
                return one
        return None

    async def refuse(self, scope: Scope, send: Send, error: Exception, more_headers: Headers | None = None) -> None:
        """Answer a call that has failed before it reached a route, with further headers where there are some."""
        refusal = self._word(error, scope)
        await answer(scope, send, refusal.status, [*refusal.headers, *(more_headers or [])], refusal.content)

    async def refuse_socket(self, scope: Scope, send: Send, error: Exception) -> None:
        """Answer instead of opening a socket; where the server cannot do that, it answers 403 by itself."""
        refusal = self._word(error, scope)
        if _SOCKET_ANSWER not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": _NO_SOCKET})
            return
        length = (b"content-length", b"%d" % len(refusal.content))
        headers = [*refusal.headers, length, *headers_of_every_answer(scope)]
        await send({"type": f"{_SOCKET_ANSWER}.start", "status": refusal.status, "headers": headers})
        await send({"type": f"{_SOCKET_ANSWER}.body", "body": refusal.content})

    def _word(self, error: Exception, scope: Scope) -> Refusal:
        refusal = self._refusal(error, scope)
        self._observe(FaultAnswered(scope[REQUEST_ID], scope["path"][:_PATH_SHOWN], refusal.result))
        return refusal


def routes_of(routes: Iterable[Route], bind: Bind, authorize: Authorize, prefix: str = "") -> list[routing.Route]:
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
    return [
        routing.Route(path, _by_method(path, endpoints), methods=list(endpoints)) for path, endpoints in paths.items()
    ]


def _by_slashes(routes: Sequence[routing.Route]) -> list[list[routing.Route]]:
    """The routes with parameters that may match a path with so many slashes; the last entry is of all longer paths."""
    parametrised = [route for route in routes if "{" in route.path]
    longest = max((route.path.count("/") for route in parametrised), default=0) + 1
    return [[route for route in parametrised if _may_have(route, slashes)] for slashes in range(longest + 1)]


def _may_have(route: routing.Route, slashes: int) -> bool:
    """Whether a path with so many slashes may match a route."""
    spans = any(isinstance(one, PathConvertor) for one in route.param_convertors.values())
    return slashes >= route.path.count("/") if spans else slashes == route.path.count("/")


def _by_method(path: str, endpoints: Mapping[str, Endpoint]) -> Endpoint:
    names = {method: (method, _CONVERTER.sub("", path)) for method in endpoints}

    async def endpoint(request: Request) -> Response:
        is_head_of_get = request.method == "HEAD" and "HEAD" not in endpoints
        method = "GET" if is_head_of_get else request.method
        request.scope[ROUTE_NAME] = names[method]
        return await endpoints[method](request)

    return endpoint
