"""The ASGI application: synchronous runs are handled here, every other call and socket by the API that serves it."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from fairlead.api.http.api import METHOD_NOT_ALLOWED, STOPPED, HttpApi, MountedApi, Refusal, routes_of
from fairlead.api.http.asgi import ROUTE_NAME, CallerLeftError, Pressure, Receive, Refused, Scope, Send, begin
from fairlead.api.http.faults import fault_of
from fairlead.api.http.headers import REPLAYED, RETRY_AFTER, HeaderNames
from fairlead.api.http.route import Authorize, Bind
from fairlead.api.router.errors import error_response
from fairlead.api.router.generations import generation_of
from fairlead.api.router.routes import ROUTES
from fairlead.api.router.runs import RunHandler, RunPath
from fairlead.api.routes import OPERATOR_ROUTES
from fairlead.api.routes import ROUTES as SERVICE
from fairlead.clock import new_id
from fairlead.domain.faults import (
    Fault,
    FaultError,
    InvalidInput,
    RequestNotFound,
    Unauthorized,
    bucket,
)
from fairlead.observing.observations import Observer, UnexpectedError

_RUNS: Final = tuple(route for route in ROUTES if route.handler == RunHandler.run)
_FRAMED: Final = tuple(route for route in ROUTES if route not in _RUNS)
"""The routes that Starlette serves: every one but the runs."""
_RUN_PREFIXES: Final = [
    (prefix.encode(), generation_of({"path": prefix})) for prefix in (one.path.partition("{")[0] for one in _RUNS)
]
_RUN_NAMES: Final = {generation_of({"path": one.path}).prefix: (one.method, one.path) for one in _RUNS}
_SERVED: Final = ("http", "websocket")


class Application:
    """The whole HTTP application of a server. A path that none of the others serves is the router's.

    `bind` finds what answers each route of the router, and of no API; `authorize` who calls.
    """

    def __init__(
        self,
        run: RunHandler,
        bind: Bind,
        authorize: Authorize,
        names: HeaderNames,
        observe: Observer,
        others: Sequence[MountedApi] = (),
    ) -> None:
        self._run = run
        self.pressure: Final[Pressure] = run.places
        self._observe = observe
        self._request_id = names.request_id
        self._others = others
        routes = routes_of((*_FRAMED, *SERVICE), bind, authorize)
        self._router = HttpApi(routes, partial(_refusal, names=names), names.request_id, observe)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one socket. It raises nothing."""
        if scope["type"] not in _SERVED:
            return  # nothing here begins or ends with the server's lifespan
        request_id = new_id()
        path = _run_segments(scope) if scope.get("method") == "POST" else None  # sockets have no method
        if path is None:
            await self._pass_on(scope, receive, send, request_id)
            return
        begin(scope, self._request_id, request_id)
        scope[ROUTE_NAME] = _RUN_NAMES[path[0].prefix]
        try:
            await self._run.run(scope, receive, send, path)
        except FaultError as error:
            await self._router.refuse(scope, send, error, [REPLAYED] if error.is_replay else None)
        except CallerLeftError as error:  # nobody is there to be answered; the log has it
            await self._router.refuse(scope, send, error)
        except asyncio.CancelledError:
            await self._router.refuse(scope, send, FaultError(STOPPED))
        except Exception as error:  # noqa: BLE001 -- the caller learns nothing, the log everything
            self._observe(UnexpectedError(f"answer {request_id}", error))
            await self._router.refuse(scope, send, error)

    def refuse_at_once(self, scope: Scope) -> Refused | None:
        """The answer to a call that is refused without a task of its own.

        The web server asks for it under pressure only: most runs are refused then, and what a refusal costs is lost to
        the runs that are accepted.
        """
        if scope["method"] != "POST" or (path := _run_segments(scope)) is None:
            return None
        if (refusal := self._run.refuse_at_once(scope, path[0])) is None:
            return None
        status, headers, content = refusal
        scope[ROUTE_NAME] = _RUN_NAMES[path[0].prefix]
        return status, [*headers, (self._request_id, new_id().encode())], content

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        api = next((one for one in self._others if one.serves(scope["path"])), self._router)
        await api(scope, receive, send, request_id)


class OperatorApplication:
    """What answers at the operator's port of a worker: whether it lives and is ready, and its metrics."""

    def __init__(self, bind: Bind, names: HeaderNames, observe: Observer) -> None:
        routes = routes_of(OPERATOR_ROUTES, bind, _let_nobody_in)
        self._http = HttpApi(routes, partial(_refusal, names=names), names.request_id, observe)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] in _SERVED:
            await self._http(scope, receive, send, new_id())


async def _let_nobody_in(_: Request) -> object:
    """Refuse every call: no route of the operator's takes a credential."""
    raise FaultError(Unauthorized())


def _refusal(error: Exception, scope: Scope, names: HeaderNames) -> Refusal:
    """The answer to anything that goes wrong in the router."""
    fault, status, allowed = _fault_of(error, scope)
    usual, headers, content = error_response(fault, generation_of(scope), names)
    if isinstance(error, FaultError) and error.is_replay:
        # However often a run's end is replayed, it stays the same, so there is nothing to retry.
        headers = [pair for pair in headers if pair[0] != RETRY_AFTER]
    return Refusal(status or usual, headers + allowed, content, bucket(fault))


def _fault_of(error: Exception, scope: Scope) -> tuple[Fault, int | None, list[tuple[bytes, bytes]]]:
    """The fault an exception stands for, with its own status and headers where it has them."""
    match error:
        case HTTPException(status_code=status) if status == METHOD_NOT_ALLOWED:
            allowed = (error.headers or {}).get("Allow", "")
            # Runs are answered before Starlette, which therefore knows only the other methods of their paths.
            allowed = f"{allowed}, POST" if _run_segments(scope) else allowed
            detail = f"{scope['method']} is not possible here."
            return InvalidInput(detail), METHOD_NOT_ALLOWED, [(b"allow", allowed.encode())]
        case HTTPException():
            return RequestNotFound(), None, []
        case _:
            return fault_of(error), None, []


def _run_segments(scope: Scope) -> RunPath | None:
    """The generation and the two raw segments when a request's path is a run's; an encoded slash separates nothing."""
    raw: bytes = scope["raw_path"]
    for prefix, generation in _RUN_PREFIXES:
        if raw.startswith(prefix):
            segments = raw[len(prefix) :].decode("latin-1").split("/")
            return (generation, segments[0], segments[1]) if len(segments) == 2 else None  # noqa: PLR2004 -- R-01
    return None
