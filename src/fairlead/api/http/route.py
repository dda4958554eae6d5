"""One record for each route, from which routing, the OpenAPI document and the tests' tables of routes follow.

An API is a list of routes with what they have in common: the form of its errors, and those that any route may answer
with. The types of documents stand for their schemas.
"""

import enum
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isfunction
from types import MappingProxyType, MethodType
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.rights import Right, has_right
from fairlead.domain.faults import FaultError, Forbidden

JSON: Final = "application/json"
ANYTHING: Final = "*/*"

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


class Handler(Protocol):
    """An unbound method of a class of handlers."""

    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Answer one request."""
        ...


Bind: TypeAlias = Callable[[Handler], Endpoint]
"""Finds the function to be called for a handler."""


def bind_handlers(owners: Iterable[object]) -> Bind:
    """Bind each handler to the one of `owners` whose class defines it; KeyError where none does."""
    owner_of: dict[Any, object] = {
        method: owner for owner in owners for method in vars(type(owner)).values() if isfunction(method)
    }
    return lambda handler: MethodType(handler, owner_of[handler])


Authorize: TypeAlias = Callable[[Request], Awaitable[object]]
"""Finds out who calls, or refuses the call; FaultError. It learns the route from `route_of`."""
_CALLER: Final = "fairlead.caller"
_ROUTE: Final = "fairlead.route"


def require_caller(endpoint: Endpoint, authorize: Authorize, route: "Route") -> Endpoint:
    """An endpoint behind a credential check; it learns the caller from `caller_of`."""

    async def serve(request: Request) -> Response:
        request.scope[_ROUTE] = route
        request.scope[_CALLER] = caller = await authorize(request)
        if route.right is not None and isinstance(caller, Caller):
            refuse_role(caller, route.right)
        return await endpoint(request)

    return serve


def refuse_role(caller: Caller, right: Right) -> None:
    """Refuse a member in a session whose role does not have a right: FaultError(Forbidden)."""
    if caller.role is not None and not has_right(caller.role, right):
        raise FaultError(Forbidden(f"Your role does not allow {right.value}."))


def route_of(request: Request) -> "Route":
    """The route of a call that takes a credential."""
    route: Route = request.scope[_ROUTE]
    return route


def caller_of(request: Request) -> Caller:
    """The caller of a route that takes a credential."""
    caller: Caller = request.scope[_CALLER]
    return caller


class Nothing:
    """Stands for the type of an absent body."""


class Access(enum.Enum):
    """What a caller of a route must show."""

    CREDENTIAL = enum.auto()
    TOKEN = enum.auto()
    OPENED = enum.auto()
    """A credential, unless the API was opened to everybody."""
    BODY = enum.auto()
    """A credential, which may be in the body: the handler looks for it."""
    MEMBER = enum.auto()
    """A personal key, a session, or an API key; what it must allow is the route's `right`."""
    NOTHING = enum.auto()
    """Nothing, or what a link has in it."""

    @property
    def is_checked_first(self) -> bool:
        """Whether the caller is known before the handler is called."""
        return self not in (Access.BODY, Access.NOTHING)


class Parameter(msgspec.Struct, frozen=True):
    """A value in a query, a header or a path; `type` stands for its schema.

    One that `is_deep` is an object of which each member is a parameter of its own: `metadata[team]=blue`.
    """

    name: str
    summary: str
    type: Any = str
    where: Literal["query", "header", "path"] = "query"
    is_required: bool = False
    is_deep: bool = False


class Body(msgspec.Struct, frozen=True):
    """What may be sent with a call."""

    type: Any
    media_type: str = JSON
    is_required: bool = True


class Answer(msgspec.Struct, frozen=True):
    """A way to answer that is no error.

    `headers` are names of `openapi.document.HEADERS`, those that always come marked with a `!`.
    """

    summary: str
    type: Any = Nothing
    media_types: Sequence[str] = (JSON,)
    headers: Sequence[str] = ()


class Route(msgspec.Struct, frozen=True):
    """A route: its method and path, its handler, what it takes, and the answers it may give.

    `errors` are the statuses of the errors that are its own. `aliases` are paths at which the same is served.
    `operation_id` names it in documents where its handler's name does not. `right` is what a member must be allowed.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    handler: Handler
    summary: str
    answers: Mapping[int, Answer]
    errors: Sequence[int] = ()
    parameters: Sequence[Parameter] = ()
    body: Body | None = None
    access: Access = Access.CREDENTIAL
    description: str = ""
    aliases: Sequence[str] = ()
    operation_id: str = ""
    right: Right | None = None

    @property
    def name(self) -> str:
        """Its operation id within its API."""
        return self.operation_id or self.handler.__name__

    @property
    def paths(self) -> Sequence[str]:
        """Every path at which it is served."""
        return (self.path, *self.aliases)


class Api(msgspec.Struct, frozen=True):
    """One API: its name, the form of its errors, and its routes.

    `error` is the type of the envelope, `errors_of` those of statuses that have another. `refusals` are the statuses
    with which a route of some access may answer, whatever else it does. Every error has the `error_headers`, and
    those of its status. All paths begin with `prefix`.
    """

    name: str
    title: str
    summary: str
    error: Any
    routes: Sequence[Route]
    path_parameters: Mapping[str, Parameter]
    refusals: Mapping[Access, Sequence[int]]
    errors_of: Mapping[int, Any] = msgspec.field(default_factory=dict)
    error_headers: Sequence[str] = ()
    headers_of: Mapping[int, Sequence[str]] = msgspec.field(default_factory=dict)
    prefix: str = ""


def path_parameters(**summaries: str) -> Mapping[str, Parameter]:
    """The parameters that paths have, by their names."""
    return MappingProxyType({name: Parameter(name, summary, where="path") for name, summary in summaries.items()})


IF_NONE_MATCH: Final = Parameter("If-None-Match", "Entity tags of what the caller has already.", where="header")
RANGE: Final = (
    Parameter("Range", "One part of the bytes, as in `bytes=0-99`.", where="header"),
    Parameter("If-Range", "The entity tag that the part must be of.", where="header"),
    IF_NONE_MATCH,
)
_TAG_HEADERS: Final = ("etag!", "accept-ranges!", "cache-control!")
_FILE_HEADERS: Final = (*_TAG_HEADERS, "content-disposition!")
FILE_ANSWERS: Final[Mapping[int, Answer]] = MappingProxyType(
    {
        200: Answer("The bytes.", Any, (ANYTHING,), _FILE_HEADERS),
        206: Answer("A part of the bytes.", Any, (ANYTHING,), (*_FILE_HEADERS, "content-range!")),
        304: Answer("The caller has these bytes already.", headers=_TAG_HEADERS),
    }
)
"""The responses of routes that answer with bytes."""
KNOWN: Final = Answer("The caller has this already.", headers=("etag!", "cache-control!"))
