"""Calls find their routes: those that Starlette would give them, without its going through all of them."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette import routing
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fairlead.api import routes as service
from fairlead.api.admin import api as admin
from fairlead.api.cloud import api as cloud
from fairlead.api.http.api import HttpApi, Refusal, routes_of
from fairlead.api.http.route import Api
from fairlead.api.jobs import api as jobs
from fairlead.api.registry.api import registry_api
from fairlead.api.router import routes as router

_APIS: Final = (router.API, cloud.API, jobs.API, registry_api(), admin.API, service.API)
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def _routes(api: Api) -> list[routing.Route]:
    """The routes of an API, each of which answers with its own path and what it made of the parameters."""
    return [_telling(route.path, list(route.methods or ())) for route in routes_of(api.routes, _bind, _who, api.prefix)]


def _bind(_handler: object) -> Any:
    return _nobody


async def _who(_request: Request) -> object:
    return None


async def _nobody(_request: Request) -> Response:
    raise AssertionError


def _telling(path: str, methods: Sequence[str]) -> routing.Route:
    async def tell(request: Request) -> Response:
        return PlainTextResponse(f"{path} {request.path_params}")

    return routing.Route(path, tell, methods=methods)


def _refuse(error: Exception, _scope: object) -> Refusal:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return Refusal(status, [], b"", "refused")


def _answer(app: Any, scope: dict[str, Any], *more: object) -> tuple[int, bytes]:
    """The status and the text that an application answers a call with."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def receive() -> NoReturn:
        raise AssertionError

    asyncio.run(app(scope, receive, send, *more))
    return sent[0]["status"], sent[1]["body"]


def _scope(method: str, path: str) -> dict[str, Any]:
    raw = path.encode()
    return {"type": "http", "method": method, "path": path, "raw_path": raw, "headers": [], "query_string": b""}


def _segments(routes: Sequence[routing.Route]) -> list[str]:
    said = {segment for route in routes for segment in route.path.split("/") if "{" not in segment}
    return sorted({*said, "", "a", "7", "x\n"})


_OVERLAPPING: Final = [
    _telling("/a/{one}", ["GET"]),
    _telling("/{two}/a", ["GET", "PUT"]),
    _telling("/{rest:path}", ["GET", "POST"]),
]


@pytest.mark.req("R-01")
@pytest.mark.parametrize(
    "routes", [*map(_routes, _APIS), _OVERLAPPING], ids=[*(api.name for api in _APIS), "overlapping"]
)
def test_call_has_the_route_that_starlette_would_give_it(routes: list[routing.Route]) -> None:
    """Whatever its path and method are: the first route that matches, or the same refusal."""
    ours = HttpApi(routes, _refuse, b"x-request-id", lambda _: None, splits_encoded=True)
    theirs = routing.Router(routes, redirect_slashes=False)
    known = st.sampled_from([route.path for route in routes]).flatmap(
        lambda path: st.tuples(
            *(st.sampled_from(["a", "7", "a/b"]) if "{" in part else st.just(part) for part in path.split("/"))
        )
    )
    made = st.lists(st.sampled_from(_segments(routes)), min_size=1, max_size=9).map(lambda parts: ("", *parts))

    @settings(max_examples=100, deadline=None)
    @given(st.one_of(known, made).map("/".join), st.sampled_from(_METHODS))
    def is_the_same(path: str, method: str) -> None:
        try:
            expected = _answer(theirs, {**_scope(method, path), "app": None})
        except HTTPException as error:
            expected = error.status_code, b""
        assert _answer(ours, _scope(method, path), "1") == expected

    is_the_same()
