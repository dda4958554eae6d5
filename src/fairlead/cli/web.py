"""uvicorn as `serve` runs it: stopping is success, and no connection may be silent for ever."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairlead.cli.sockets import SocketProtocol, configure_sockets
from fairlead.surfaces.asgi import JoiningTransport

_TICKS_BETWEEN_LOOKS: Final = 10
"""uvicorn ticks ten times a second."""


class WebProtocol(HttpToolsProtocol):
    """uvicorn's connection, on a transport that can send a whole response at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stand between uvicorn and the transport; uvloop's are not asyncio's subclasses."""
        self._bare = cast("asyncio.Transport", transport)
        super().connection_made(cast("Any", JoiningTransport(self._bare)))

    def handle_websocket_upgrade(self) -> None:
        """Become a socket, which has responses no more; uvicorn would lose one whose address it cannot read."""
        if self.url.isascii():
            self.transport = self._bare
            super().handle_websocket_upgrade()
        else:
            self.send_400_response("Invalid HTTP request received.")

    def hang_up(self) -> None:
        """End the connection."""
        self.transport.close()


class WebServer(uvicorn.Server):
    """A uvicorn server that closes connections on which no request has been under way for `patience` seconds.

    uvicorn bounds the time between two requests of a connection, but neither the time to the first one nor the time a
    request's head may take to arrive: a caller that sends nothing, or a byte a minute, would keep its place for ever.
    `begin_stop` is called before it waits for what is still being answered: streams would go on for ever.
    """

    def __init__(self, config: uvicorn.Config, patience: float, begin_stop: Callable[[], None]) -> None:
        config.http = WebProtocol
        configure_sockets(config)
        super().__init__(config)
        self._patience = patience
        self._begin_stop = begin_stop
        self._silent: dict[Any, tuple[Any, float]] = {}

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Stop in good order; uvicorn would raise the signal again afterwards, as if we had died of it."""
        super().handle_exit(sig, frame)
        self._captured_signals.clear()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop: first all that would begin anew or never end, then what is still being answered."""
        self._begin_stop()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Look after the connections once a second."""
        if counter % _TICKS_BETWEEN_LOOKS == 0:
            self._close_silent(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def _close_silent(self, now: float) -> None:
        silent: dict[Any, tuple[Any, float]] = {}
        for connection in list(self.server_state.connections):
            if isinstance(connection, SocketProtocol) and connection.is_open:
                continue
            exchange = getattr(connection, "cycle", None)
            if exchange is not None and not exchange.response_complete:
                continue
            known = self._silent.get(connection)
            # The same last exchange as before: not a byte of a whole request since then.
            since = known[1] if known is not None and known[0] is exchange else now
            silent[connection] = (exchange, since)
            if now - since > self._patience:
                cast("WebProtocol | SocketProtocol", connection).hang_up()
        self._silent = silent
