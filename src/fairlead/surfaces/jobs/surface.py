"""The jobs API as a whole: its paths, and its handlers behind the table of routes."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from fairlead.observing.observations import Observer
from fairlead.surfaces.asgi import Receive, Scope, Send
from fairlead.surfaces.jobs.addresses import PATH_PREFIX, DeploymentAddresses
from fairlead.surfaces.jobs.errors import refusal
from fairlead.surfaces.jobs.routes import PREFIX, ROUTES
from fairlead.surfaces.surface import Endpoint, Surface, routes_of

_REFUSED: Final = 1008


class JobsSurface:
    """Answers the jobs API. `owners` are the classes of handlers; each method of theirs the table names is the one.

    With `addresses` it is also at those of deployments.
    """

    def __init__(
        self,
        owners: Sequence[object],
        request_id: bytes,
        observe: Observer,
        addresses: DeploymentAddresses | None = None,
    ) -> None:
        self._addresses = addresses
        self._http = Surface(routes_of(_table(owners)), refusal, request_id, observe)

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


def _table(owners: Sequence[Any]) -> Iterator[tuple[str, str, Endpoint]]:
    for route in ROUTES:
        owner = next(one for one in owners if hasattr(one, route.handler))
        yield route.method, route.path, getattr(owner, route.handler)
