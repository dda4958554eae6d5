"""What is said of a route, beside its method and path, so that a document can be made of it.

A surface says it of its handlers, one by one, where the table of routes names them; types on the wire stand for their
schemas. Errors are told once a surface: their envelope, and the statuses that each route may answer with.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol

JSON: Final = "application/json"
ANYTHING: Final = "*/*"


class Nothing:
    """Stands for the type of a body that is not there."""


class Access(enum.Enum):
    """What a caller of a route must show."""

    CREDENTIAL = enum.auto()
    TOKEN = enum.auto()
    OPENED = enum.auto()
    """A credential, unless the surface was opened to everybody."""
    NOTHING = enum.auto()
    """Nothing, or what a link has in it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value in a query, a header or a path; `type` stands for its schema."""

    name: str
    summary: str
    type: Any = str
    where: Literal["query", "header", "path"] = "query"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """What may be sent with a call."""

    type: Any
    media_type: str = JSON
    required: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """A way to answer that is no error. `headers` are names of HEADERS, those that always come marked with a `!`."""

    summary: str
    type: Any = Nothing
    media_types: Sequence[str] = (JSON,)
    headers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """What a route does, what it takes, and with what it may answer."""

    summary: str
    answers: Mapping[int, Answer]
    errors: Sequence[int] = ()
    parameters: Sequence[Parameter] = ()
    body: Body | None = None
    access: Access = Access.CREDENTIAL
    description: str = ""


@dataclass(frozen=True, slots=True)
class DescribedRoute:
    """A route with its description; `name` is unique among all of them."""

    name: str
    method: str
    path: str
    operation: Operation


class Served(Protocol):
    """A row of a table of routes."""

    @property
    def handler(self) -> str:
        """The name of what answers it."""
        ...

    @property
    def method(self) -> str:
        """The method it is asked with."""
        ...

    @property
    def path(self) -> str:
        """Where it is served."""
        ...


def describe_routes(
    surface: str, table: Iterable[Served], operations: Mapping[str, Operation]
) -> tuple[DescribedRoute, ...]:
    """The routes of a table with the operations of their handlers."""
    return tuple(
        DescribedRoute(f"{surface}_{route.handler}", route.method, route.path, operations[route.handler])
        for route in table
    )


@dataclass(frozen=True, slots=True)
class Description:
    """One surface: what it is called, how its errors look, and its routes.

    `error` is the type of the envelope, `errors_of` those of statuses that have another. `refusals` are the statuses
    with which a route of some access may answer, whatever else it does. Every error has the `error_headers`, and
    those of its status.
    """

    name: str
    title: str
    summary: str
    error: Any
    routes: Sequence[DescribedRoute]
    path_parameters: Mapping[str, Parameter]
    refusals: Mapping[Access, Sequence[int]]
    errors_of: Mapping[int, Any] = field(default_factory=dict)
    error_headers: Sequence[str] = ()
    headers_of: Mapping[int, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeaderShown:
    """A header of answers, and the schema of its value."""

    summary: str
    type: Any = str


HEADERS: Final[Mapping[str, HeaderShown]] = MappingProxyType(
    {
        "request_id": HeaderShown("The id of the call; it names the call in the log."),
        "error_type": HeaderShown("The bucket of the error."),
        "upstream_status": HeaderShown("The partner's own status.", int),
        "upstream_detail": HeaderShown("The partner's own reason, as far as it may be shown: a JSON string in ASCII."),
        "refusal_subject": HeaderShown("What the partner has refused: the input or the output."),
        "credits_used": HeaderShown("What the run was charged, in credits."),
        "router_dropped_params": HeaderShown("What the translation left out: a JSON array of strings."),
        "router_fallback_provider": HeaderShown("The provider that served the run in place of another."),
        "idempotent-replayed": HeaderShown("`true` where this answer was given before."),
        "retry-after": HeaderShown("In how many seconds to try again.", int),
        "x-concurrency-limit": HeaderShown("How many runs the workspace may have in flight.", int),
        "x-concurrency-current": HeaderShown("How many it has.", int),
        "x-concurrency-remaining": HeaderShown("How many more it may begin.", int),
        "x-committed-spend-limit": HeaderShown("What runs in flight may cost in all, in US cents.", int),
        "x-committed-spend-current": HeaderShown("What they may cost already.", int),
        "x-committed-spend-remaining": HeaderShown("What more may be begun.", int),
        "etag": HeaderShown("The entity tag."),
        "cache-control": HeaderShown("Who may keep this, and for how long."),
        "content-range": HeaderShown("Which part this is, or how many bytes there are."),
        "content-disposition": HeaderShown("What the file is called, and whether to show it."),
        "accept-ranges": HeaderShown("`bytes`: parts may be asked for."),
        "location": HeaderShown("Where the file is: a link that is its own credential."),
    }
)
"""Every header that is told of. Names with underscores are the service's own, spelled after its brand."""

ERRORS: Final[Mapping[int, str]] = MappingProxyType(
    {
        400: "The request cannot be used; the message says why.",
        401: "There is no credential, or it is not valid.",
        402: "Too little is left to pay with, or a budget is spent.",
        403: "The credential does not allow this.",
        404: "There is no such thing, or it is somebody else's.",
        409: "This goes against what there is already, or what is under way.",
        410: "This was here and is no longer kept.",
        413: "The body, or the file in it, is too large.",
        416: "The part that was asked for begins behind the end.",
        422: "The request can be read and is not right; the message says why.",
        429: "Too much, or too often; try again later.",
        451: "These bytes are not taken in here.",
        500: "The server failed. The request id names the failure in its log.",
        501: "This installation does not do that.",
        502: "The partner failed, or its answer is no result.",
        503: "Something that this needs is away or has no room; try again later.",
        504: "The partner, or the run, took too long.",
    }
)
"""What each status of an error means, whichever surface answers it."""

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
"""How bytes are answered with."""
KNOWN: Final = Answer("The caller has this already.", headers=("etag!", "cache-control!"))
