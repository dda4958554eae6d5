"""The jobs API as a whole: its paths, and its routes."""

from typing import Final

from fairlead.api.http.asgi import Receive, Scope, Send
from fairlead.api.http.route import Authorize, Bind
from fairlead.api.http.surface import Surface, routes_of
from fairlead.api.jobs.addresses import PATH_PREFIX, PREFIX, DeploymentAddresses
from fairlead.api.jobs.errors import refusal
from fairlead.api.jobs.routes import ROUTES
from fairlead.observing.observations import Observer

_REFUSED: Final = 1008


class JobsSurface:
    """Answers the jobs API; `bind` finds what answers each of its routes, `authorize` who calls.

    With `addresses` it is also at those of deployments.
    """

    def __init__(
        self,
        bind: Bind,
        authorize: Authorize,
        request_id: bytes,
        observe: Observer,
        addresses: DeploymentAddresses | None = None,
    ) -> None:
        self._addresses = addresses
        self._http = Surface(routes_of(ROUTES, bind, authorize), refusal, request_id, observe)

    def serves(self, path: str) -> bool:
        """Whether a path is one of this API's."""
        return path == PREFIX or path.startswith((f"{PREFIX}/", PATH_PREFIX))

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer one request; nothing that happens in it escapes. There are no sockets here."""
        if scope["type"] == "http":
            placed = scope if self._addresses is None else self._addresses.placed(scope)
            await self._http(placed, receive, send, request_id)
        else:
            await send({"type": "websocket.close", "code": _REFUSED})  # before it was accepted: 403
