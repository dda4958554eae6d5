"""The cloud API as a whole: its paths, its routes, and its sockets."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from fairlead.api.cloud.errors import refusal
from fairlead.api.cloud.routes import ROUTES, SOCKETS
from fairlead.api.http.asgi import Receive, Scope, Send
from fairlead.api.http.route import Authorize, Bind
from fairlead.api.http.surface import Surface, routes_of
from fairlead.observing.observations import Observer, UnexpectedError

Socket: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEADS: Final = frozenset(
    path.split("/")[1] for path in (*SOCKETS, *(path for route in ROUTES for path in route.paths))
)
"""The first segments of all paths. The prefix is among them: what nobody serves there is still this API's to refuse."""
_REFUSED: Final = 1008


class CloudSurface:
    """Answers the cloud API; `bind` finds what answers each of its routes, `authorize` who calls."""

    def __init__(self, bind: Bind, authorize: Authorize, socket: Socket, request_id: bytes, observe: Observer) -> None:
        self._socket = socket
        self._observe = observe
        # Editors keep files in folders, and send their slashes encoded.
        self._http = Surface(routes_of(ROUTES, bind, authorize), refusal, request_id, observe, splits_encoded=True)

    def serves(self, path: str) -> bool:
        """Whether a path is one of this API's."""
        return path[1:].partition("/")[0] in _HEADS

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer one request, or hold one socket; nothing that happens in it escapes."""
        if scope["type"] == "http":
            await self._http(scope, receive, send, request_id)
        elif scope["path"] in SOCKETS:
            try:
                await self._socket(scope, receive, send)
            except Exception as error:  # noqa: BLE001 -- one socket's trouble is nobody else's; the log has it
                self._observe(UnexpectedError(f"socket {request_id}", error))
        else:
            await send({"type": "websocket.close", "code": _REFUSED})  # before it was accepted: 403
