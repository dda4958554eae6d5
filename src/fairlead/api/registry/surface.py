"""The registry as a whole: its paths at the root, and its routes."""

from typing import Final

from fairlead.api.http.asgi import Receive, Scope, Send
from fairlead.api.http.route import bind_handlers
from fairlead.api.http.surface import Surface, routes_of
from fairlead.api.registry.errors import refusal
from fairlead.api.registry.handlers import RegistryHandlers
from fairlead.api.registry.routes import ROUTES
from fairlead.observing.observations import Observer

_HEADS: Final = frozenset(route.path.split("/")[1] for route in ROUTES)
"""The first segments of all paths; what nobody serves behind one is still the registry's to refuse."""
_REFUSED: Final = 1008


class RegistrySurface:
    """Answers the registry's paths, all of which begin with `prefix`. It has no sockets."""

    def __init__(self, handlers: RegistryHandlers, request_id: bytes, observe: Observer, prefix: str = "") -> None:
        routes = routes_of(ROUTES, bind_handlers([handlers]), handlers.authorize, prefix)
        self._http = Surface(routes, refusal, request_id, observe)
        self._prefix = prefix

    def serves(self, path: str) -> bool:
        """Whether a path is one of the registry's."""
        rest = path.removeprefix(self._prefix)
        return path.startswith(self._prefix) and rest[:1] == "/" and rest[1:].partition("/")[0] in _HEADS

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer one request; nothing that happens in it escapes."""
        if scope["type"] == "http":
            await self._http(scope, receive, send, request_id)
        else:
            await send({"type": "websocket.close", "code": _REFUSED})  # before it was accepted: 403
