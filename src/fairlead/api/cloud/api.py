"""The cloud API as a whole: its paths, its routes, and its sockets."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from fairlead.api.cloud.documents import CloudError
from fairlead.api.cloud.errors import refusal
from fairlead.api.cloud.routes import ROUTES, SOCKETS
from fairlead.api.http.api import HttpApi, routes_of
from fairlead.api.http.asgi import Receive, Scope, Send, begin
from fairlead.api.http.route import Access, Api, Authorize, Bind, path_parameters
from fairlead.domain.faults import FaultError
from fairlead.observing.observations import Observer, UnexpectedError

Socket: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
"""Serves a socket; FaultError for one that it does not open."""

API: Final = Api(
    name="cloud",
    title="Cloud workflows",
    summary="Workflows as clients of the engine submit and watch them; `/ws` and `/api/ws` are its sockets.",
    error=CloudError,
    routes=ROUTES,
    path_parameters=path_parameters(
        job_id="The id of a job: a UUID in lower case.",
        class_name="The name of a class; slashes may stand in it.",
        file_id="The id of a file.",
        setting="The id of a setting; slashes may stand in it.",
        file="The name of a file; its slashes are sent encoded.",
        to="The new name of the file; its slashes are sent encoded.",
    ),
    refusals={Access.CREDENTIAL: (401, 403, 429, 500, 503), Access.NOTHING: (500, 503)},
    headers_of={416: ("content-range!",), 429: ("retry-after",), 503: ("retry-after",)},
)

_HEADS: Final = frozenset(
    path.split("/")[1] for path in (*SOCKETS, *(path for route in ROUTES for path in route.paths))
)
"""The first segments of all paths, the prefix among them: unknown paths below them are refused by this API."""


class CloudApi(HttpApi):
    """Answers the cloud API; `bind` finds what answers each of its routes, `authorize` who calls."""

    def __init__(self, bind: Bind, authorize: Authorize, socket: Socket, request_id: bytes, observe: Observer) -> None:
        # Editors keep files in folders, and send their slashes encoded.
        super().__init__(routes_of(ROUTES, bind, authorize), refusal, request_id, observe, splits_encoded=True)
        self._socket = socket

    def serves(self, path: str) -> bool:
        """Whether a path is one of this API's."""
        return path[1:].partition("/")[0] in _HEADS

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer one request, or hold one socket. It raises nothing."""
        if scope["type"] == "http" or scope["path"] not in SOCKETS:
            await super().__call__(scope, receive, send, request_id)
            return
        begin(scope, self._request_id, request_id)
        try:
            await self._socket(scope, receive, send)
        except FaultError as error:
            await self.refuse_socket(scope, send, error)
        except Exception as error:  # noqa: BLE001 -- an error in one socket must not affect others; it is logged
            self._observe(UnexpectedError(f"socket {request_id}", error))
