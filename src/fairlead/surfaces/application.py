"""The ASGI application: the run route as it is, everything else through Starlette, one envelope around both.

Every response of the router carries a request id, made here; every fault that travels up is worded here.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute

from fairlead.domain.faults import (
    ClientDisconnected,
    Fault,
    FaultError,
    InternalError,
    InvalidInput,
    RequestNotFound,
    bucket,
)
from fairlead.observing.observations import FaultAnswered, Observer, UnexpectedError
from fairlead.operations.clock import new_id
from fairlead.surfaces.asgi import REQUEST_ID, CallerLeftError, Headers, Receive, Scope, Send, answer
from fairlead.surfaces.assets import AssetHandlers
from fairlead.surfaces.operator import OperatorHandlers
from fairlead.surfaces.router.errors import error_response
from fairlead.surfaces.router.generations import V1, V2, Generation
from fairlead.surfaces.router.headers import REPLAYED, HeaderNames
from fairlead.surfaces.router.routes import ROUTES
from fairlead.surfaces.router.runs import RunHandler

_RUN_PREFIXES: Final = {
    route.path.partition("{")[0].encode(): route.generation for route in ROUTES if route.handler == "run"
}
_Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


class Application:
    """The whole HTTP face of a server."""

    def __init__(
        self,
        run: RunHandler,
        owners: Sequence[object],
        assets: AssetHandlers,
        operator: OperatorHandlers,
        names: HeaderNames,
        observe: Observer,
    ) -> None:
        self._run = run
        self._names = names
        self._observe = observe
        self._rest = Starlette(
            routes=[*_router_routes(owners), *assets.routes(), *_operator_routes(operator)],
            exception_handlers={
                FaultError: self._on_fault,
                CallerLeftError: self._on_caller_left,
                HTTPException: self._on_http_exception,
                Exception: self._on_fault,
            },
        )
        self._rest.router.redirect_slashes = False  # a path with a slash more is another path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; nothing that happens in it escapes."""
        if scope["type"] != "http":
            await self._rest(scope, receive, send)
            return
        request_id = new_id()
        path = _run_path(scope)
        if path is None:
            scope[REQUEST_ID] = request_id
            await self._answer_rest(scope, receive, send, request_id)
            return
        generation, segments = path
        try:
            await self._run(scope, receive, send, generation, segments, request_id)
        except FaultError as error:
            told_again = [REPLAYED] if error.is_replay else None
            await self._refuse(scope, send, error.fault, request_id, generation, told_again)
        except CallerLeftError:
            pass  # nobody is there to be answered, and nothing was begun
        except Exception as error:  # noqa: BLE001 -- the caller learns nothing, the log everything
            self._observe(UnexpectedError(f"answer {request_id}", error))
            await self._refuse(scope, send, InternalError(), request_id, generation)

    async def _answer_rest(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        if b"%2f" in scope["raw_path"].lower():
            # Starlette matches the decoded path, in which an encoded slash would separate segments.
            await self._refuse(scope, send, RequestNotFound(), request_id, _generation_of(scope))
            return
        started = False

        async def send_with_id(message: Any) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], (self._names.request_id, request_id.encode())]
            await send(message)

        try:
            await self._rest(scope, receive, send_with_id)
        except Exception as error:  # noqa: BLE001 -- as above; Starlette re-raises what it could not handle
            self._observe(UnexpectedError(f"answer {request_id}", error))
            if not started:
                await self._refuse(scope, send, InternalError(), request_id, _generation_of(scope))

    async def _refuse(
        self,
        scope: Scope,
        send: Send,
        fault: Fault,
        request_id: str,
        generation: Generation,
        beside: Headers | None = None,
    ) -> None:
        self._observe(FaultAnswered(request_id, scope["path"][:200], bucket(fault)))
        status, headers, content = error_response(fault, request_id, generation, self._names)
        await answer(send, status, headers + (beside or []), content)

    async def _on_fault(self, request: Request, error: Exception) -> Response:
        fault = error.fault if isinstance(error, FaultError) else InternalError()
        return self._error(request, fault)

    async def _on_caller_left(self, request: Request, _: Exception) -> Response:
        """Nobody is there to be answered; the log has it."""
        return self._error(request, ClientDisconnected())

    async def _on_http_exception(self, request: Request, error: Exception) -> Response:
        """A path or method nobody answers."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        if status == 405:  # noqa: PLR2004 -- Starlette's own answer for a known path
            response = self._error(request, InvalidInput(f"{request.method} is not possible here."))
            response.status_code = 405
            allowed = (getattr(error, "headers", None) or {}).get("Allow", "")
            # Runs are answered before Starlette, which therefore knows only the other methods of their paths.
            response.headers["Allow"] = f"{allowed}, POST" if _run_segments(request.scope) else allowed
            return response
        return self._error(request, RequestNotFound())

    def _error(self, request: Request, fault: Fault) -> Response:
        request_id, generation = request.scope[REQUEST_ID], _generation_of(request.scope)
        self._observe(FaultAnswered(request_id, request.url.path[:200], bucket(fault)))
        status, headers, content = error_response(fault, request_id, generation, self._names)
        response = Response(content, status_code=status)
        # The id is added on the way out, for successes and errors alike.
        response.raw_headers.extend(pair for pair in headers if pair[0] != self._names.request_id)
        return response


def _router_routes(owners: Sequence[Any]) -> list[StarletteRoute]:
    """One route a path: Starlette would refuse a method with the methods of the first of several.

    `owners` are the classes of handlers; each method of theirs that the table names is the one.
    """
    paths: dict[str, dict[str, _Endpoint]] = {}
    for route in ROUTES:
        if route.handler != "run":
            owner = next(one for one in owners if hasattr(one, route.handler))
            endpoint = partial(getattr(owner, route.handler), generation=route.generation)
            paths.setdefault(route.path, {})[route.method] = endpoint
    routes = [StarletteRoute(path, _by_method(endpoints), methods=list(endpoints)) for path, endpoints in paths.items()]
    snapshots = next(one for one in owners if hasattr(one, "show_snapshot"))
    return [*routes, StarletteRoute("/router-schemas/{provider}/{model}", snapshots.show_snapshot, methods=["GET"])]


def _by_method(endpoints: Mapping[str, _Endpoint]) -> _Endpoint:
    async def endpoint(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


def _operator_routes(operator: OperatorHandlers) -> list[StarletteRoute]:
    return [
        StarletteRoute("/healthz", operator.healthz, methods=["GET"]),
        StarletteRoute("/readyz", operator.readyz, methods=["GET"]),
        StarletteRoute("/metrics", operator.metrics_page, methods=["GET"]),
    ]


def _run_path(scope: Scope) -> tuple[Generation, tuple[str, str]] | None:
    """The generation and the two raw segments when a request is a run; an encoded slash separates nothing."""
    return _run_segments(scope) if scope["method"] == "POST" else None


def _run_segments(scope: Scope) -> tuple[Generation, tuple[str, str]] | None:
    raw: bytes = scope["raw_path"]
    prefix, generation = next(((p, g) for p, g in _RUN_PREFIXES.items() if raw.startswith(p)), (b"", None))
    if generation is None:
        return None
    segments = raw[len(prefix) :].decode("latin-1").split("/")
    return (generation, (segments[0], segments[1])) if len(segments) == 2 else None  # noqa: PLR2004 -- R-01


def _generation_of(scope: Scope) -> Generation:
    return V1 if scope["path"].startswith("/v1/") else V2
