"""uvicorn as `serve` runs it: stopping is success, and no connection may be silent for ever."""

import asyncio
import socket
import weakref
from collections.abc import Callable
from typing import Any, Final, cast
from urllib.parse import unquote

import httptools
import uvicorn
from uvicorn._types import ASGIVersions, HTTPScope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from fairlead.cli.sockets import SocketProtocol, configure_sockets
from fairlead.surfaces.asgi import WHOLE, Headers

_ASGI: Final[ASGIVersions] = {"version": "3.0", "spec_version": "2.3"}
_TICKS_BETWEEN_LOOKS: Final = 10
"""uvicorn ticks ten times a second."""
_JOINED_MAX: Final = 64 * 1024
"""A larger answer is not copied to be one with its head, in bytes."""


class LazyEvent:
    """An `asyncio.Event` that is made when somebody waits for it, as no call does whose body is taken whole."""

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        self._event: asyncio.Event | None = None
        self._is_set = False

    def set(self) -> None:
        """Let go on whoever waits, now and until it is cleared."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    def clear(self) -> None:
        """Have whoever comes wait."""
        self._is_set = False
        if self._event is not None:
            self._event.clear()

    async def wait(self) -> None:
        """Wait until it is set."""
        if self._is_set:
            return
        if self._event is None:
            self._event = asyncio.Event()
        await self._event.wait()


class WebExchange(RequestResponseCycle):
    """A request and its response, which can also be taken and answered whole (`WholeExchange` in surfaces/asgi.py).

    Piece by piece, every message is a dictionary and a step of a coroutine, and every header is looked at three times:
    a tenth of what a whole run costs.
    """

    def take_whole(self) -> bytes | None:
        """The body of the request where all of it has arrived; who is left to wait for is the caller's leaving."""
        if self.more_body or self.disconnected or self.response_complete:
            return None
        self.waiting_for_100_continue = False
        self.message_event.clear()
        body = bytes(self.body)
        self.body.clear()
        return body

    def answer_whole(self, status: int, headers: Headers, content: bytes) -> bool:
        """Write a response at once; False where it has to go through `send`, which knows what to do or to refuse."""
        if self.response_started or self.flow.write_paused or self.scope["method"] == "HEAD":
            return False
        lines = [name + b": " + value for name, value in (*self.default_headers, *headers)]
        together = b"".join(lines)
        if not (together.isascii() and together.decode().isprintable()):
            return False
        if not self.disconnected:
            self.response_started = self.response_complete = True
            end = b"\r\n\r\n" if self.keep_alive else b"\r\nconnection: close\r\n\r\n"
            self._write(STATUS_LINE[status] + b"\r\n".join(lines) + end, content)
        return True

    def _write(self, head: bytes, content: bytes) -> None:
        if len(content) > _JOINED_MAX:
            self.transport.writelines((head, content))
        else:
            self.transport.write(head + content)
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


class WebProtocol(HttpToolsProtocol):
    """uvicorn's connection, with exchanges of ours. The server closes it when it is idle: no timer for every answer."""

    def on_message_begin(self) -> None:
        """Forget the request before."""
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        """Begin an exchange as uvicorn does, without the limit, the root path and the state that we do not set.

        What asks for another protocol is left to it.
        """
        if self.parser.should_upgrade():
            self.scope = self._scope_at(b"", b"")
            super().on_headers_complete()
            return
        before: RequestResponseCycle | None = self.cycle
        url = httptools.parse_url(self.url)
        self.scope = scope = self._scope_at(url.path, url.query or b"")
        self.cycle = exchange = WebExchange(
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            self.access_log,
            self.server_state.default_headers,
            cast("asyncio.Event", LazyEvent()),
            self.expect_100_continue,
            scope["http_version"] != "1.0" and self.parser.should_keep_alive(),
            self.on_response_complete,
        )
        # Weakly: each would else keep the other until the garbage collector comes.
        cast("dict[str, Any]", scope)[WHOLE] = weakref.proxy(exchange)
        if before is None or before.response_complete:
            self._start_asgi_task(exchange, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))

    def _scope_at(self, raw_path: bytes, query: bytes) -> HTTPScope:
        """The scope of the request whose head has just been read."""
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": self.parser.get_http_version(),
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme or "http",
            "method": self.parser.get_method().decode("ascii"),
            "root_path": "",
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
        }

    def on_message_complete(self) -> None:
        """Read on: uvicorn paused for a large body, and would not hear of the caller's leaving."""
        super().on_message_complete()
        if not self.pipeline:
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """Go on with the next request, where it has come already."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def handle_websocket_upgrade(self) -> None:
        """Become a socket; uvicorn would lose one whose address it cannot read."""
        if self.url.isascii():
            super().handle_websocket_upgrade()
        else:
            self.send_400_response("Invalid HTTP request received.")

    def hang_up(self) -> None:
        """End the connection."""
        self.transport.close()


class WebServer(uvicorn.Server):
    """A uvicorn server that closes connections on which no request has been under way for `patience` seconds.

    uvicorn bounds the time between two requests of a connection, with a timer for each, but neither the time to the
    first one nor the time a request's head may take to arrive: a caller that sends nothing, or a byte a minute, would
    keep its place for ever. Here the bound of a used connection is the shorter of both.
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
            patience = self._patience if exchange is None else min(self._patience, self.config.timeout_keep_alive)
            if now - since > patience:
                cast("WebProtocol | SocketProtocol", connection).hang_up()
        self._silent = silent
