"""uvicorn's connections for `serve`: every head has a bound, and whole answers are written at once.

Neither uvicorn nor its parser in C bounds the parts of a request around its body: its address, its headers, the
extensions of its chunks and its trailers.
"""

import asyncio
import time
import weakref
from collections.abc import Mapping, MutableMapping
from typing import Final, NoReturn, TypeAlias, cast
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn._types import ASGI3Application, ASGISendEvent, ASGIVersions, HTTPScope
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from fairlead.api.http.asgi import ROUTE_NAME, WHOLE, Headers, Pressure
from fairlead.api.http.headers import HeaderNames
from fairlead.clock import new_id
from fairlead.domain.faults import Bucket
from fairlead.observing.latency_meters import LEFT, UNMATCHED, RouteName
from fairlead.observing.run_meters import Times

_ASGI: Final[ASGIVersions] = {"version": "3.0", "spec_version": "2.3"}
_WHOLE_MAX: Final = 64 * 1024
"""The largest answer that is written at once, in bytes: the kernel would take a larger one only as fast as the caller
reads."""
_PRINTABLE: Final = bytes(range(0x20, 0x7F))
_SLICE_BYTES: Final = 256 * 1024
"""How much of a longer answer is written at a time."""
HEAD_BYTES: Final = 64 * 1024
"""The most bytes of the address and the headers of a request together."""
TARGET_BYTES: Final = 16 * 1024
FIELDS: Final = 128
HEAD_SECONDS: Final = 30.0
"""How long a head may take to arrive, from its first byte on."""
PIPELINED: Final = 256
"""The requests that may wait behind the one that is answered."""
_PLAIN_BYTES: Final = 8 * 1024
"""A head that arrived within as many bytes needs no counting."""
_FRAMING_PER_BYTE: Final = 16
FAREWELL_SECONDS: Final = 2.0
_BAD_REQUEST: Final = 400
_TOO_BUSY: Final = 503
_REFUSALS: Final = {
    400: b"Invalid HTTP request received.",
    408: b"The head of the request did not arrive within 30 seconds.",
    414: b"The address of the request is longer than 16384 bytes.",
    431: b"The head of the request has more than 65536 bytes or 128 fields.",
    503: b"This server has as many connections as it may; try again soon.",
}
_BUCKETS: Final[Mapping[int, Bucket]] = {_TOO_BUSY: "service_unavailable"}
"""Of those that are not the caller's fault."""
_Answered: TypeAlias = MutableMapping[tuple[RouteName, int], Times]


class LazyEvent(msgspec.Struct, eq=False):
    """An `asyncio.Event` that is made when something waits for it, which no call does whose body is taken whole."""

    _event: asyncio.Event | None = None
    _is_set: bool = False

    def set(self) -> None:
        """Let all waiters go on, now and until it is cleared."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    def clear(self) -> None:
        """Make later waiters wait."""
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
    """A request and its response, which can also be taken and answered whole (`WholeExchange` in api/http/asgi.py).

    Piece by piece, every message is a dictionary and a step of a coroutine, and every header is examined three times: a
    tenth of the cost of a whole run.
    """

    answered: _Answered
    """The meter that counts it when it has been answered."""
    began: float
    """When its head had been read, by the monotonic clock."""
    _status = LEFT

    def take_whole(self) -> bytes | None:
        """The body of the request where all of it has arrived; after this, `receive()` only reports a disconnect."""
        if self.more_body or self.disconnected or self.response_complete:
            return None
        self.waiting_for_100_continue = False
        self.message_event.clear()
        body = bytes(self.body)
        self.body.clear()
        return body

    def answer_whole(self, status: int, headers: Headers, content: bytes) -> bool:
        """Write a response at once; False where it must go through `send`, which handles or refuses it."""
        if self.response_started or self.flow.write_paused or self.scope["method"] == "HEAD":
            return False
        if len(content) > _WHOLE_MAX:
            return False
        lines = list(map(b": ".join, (*self.default_headers, *headers)))
        # Any other byte could end the head; `send` refuses such a header.
        if b"".join(lines).translate(None, _PRINTABLE):
            return False
        if not self.disconnected:
            self.response_started = self.response_complete = True
            end = b"\r\n\r\n" if self.keep_alive else b"\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + b"\r\n".join(lines) + end + content)
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            name: RouteName = self.scope.get(ROUTE_NAME, UNMATCHED)  # type: ignore[assignment]
            self.answered[name, status].add(time.monotonic() - self.began)
            self.on_response()
        return True

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message; a long body in slices, between which others run however fast the caller reads."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
        elif message["type"] == "http.response.body":
            body, sent = message.get("body", b""), 0
            while len(body) - sent > _SLICE_BYTES:
                piece = body[sent : sent + _SLICE_BYTES]
                await super().send({"type": "http.response.body", "body": piece, "more_body": True})
                await asyncio.sleep(0)
                sent += _SLICE_BYTES
            if sent:
                message["body"] = body[sent:]
        await super().send(message)
        if self.response_complete:
            self.count()

    def count(self) -> None:
        """Count the call, after its answer was sent in pieces or its caller has left."""
        name: RouteName = self.scope.get(ROUTE_NAME, UNMATCHED)  # type: ignore[assignment]
        self.answered[name, self._status].add(time.monotonic() - self.began)


class _RefusedExchange:
    """An exchange that ended when it began."""

    response_complete = True
    disconnected = False
    keep_alive = True
    message_event: Final = LazyEvent()


class WebProtocol(HttpToolsProtocol):
    """uvicorn's connection, with exchanges of ours and bounded heads.

    The server closes it when it is idle, or when a head takes too long: no timer for every answer.
    """

    answered: _Answered
    names: HeaderNames
    connections_most: int = 0
    """How many connections there may be; 0 means no limit."""
    is_leaving: bool = False
    """Whether every answer is the last one of its connection: the next call belongs to another server."""
    head_since: float | None = None
    """Since when an incomplete head is being received, by the clock of the event loop."""
    _in_head = False
    _is_refused = False
    _received = 0
    """What has come of the head, or around the pieces of the body, in bytes; the body counts against it."""
    _body_bytes = 0
    _trailers = 0
    _pressure: Pressure | None = None
    """Whether to ask the application if it refuses a call by its head."""
    _wrong: int | None = None
    """The status of the refusal that stops the parser."""
    _hosts = 0
    _answering: WebExchange | None = None
    """The exchange that is being answered; behind it others may wait that have arrived already."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many connections."""
        super().connection_made(transport)
        self._pressure = getattr(self.app, "pressure", None)
        if self.connections_most and len(self.connections) > self.connections_most:
            self._refuse(_TOO_BUSY)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the call that is being answered, which uvicorn tells only of the last that has arrived; and count it."""
        exchange = self._answering
        if exchange is not None and not exchange.response_complete:
            exchange.disconnected = True
            exchange.message_event.set()
            exchange.count()
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, within the bounds of a head."""
        if self._is_refused:
            return  # discarded: a connection that is closed with unread bytes is reset, and the caller never reads why
        headers, body = self.headers, self._body_bytes
        received = self._received
        self._received = len(data) if received <= 0 else received + len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse(self._wrong or _BAD_REQUEST)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                self._unsupported_upgrade_warning()
        if self.headers is not headers:  # a request began somewhere within these bytes
            self._received = 0
        elif not self._in_head:
            self._received += body - self._body_bytes
        if self._received > HEAD_BYTES + _FRAMING_PER_BYTE * self._body_bytes:
            self._refuse(431)
        elif self._in_head and self.head_since is None:
            self.head_since = self.loop.time()

    def _refuse(self, status: int) -> None:
        """Answer in plain text where nothing else is being answered, and close.

        The answer has an id, as every other has, by which the log tells of it; but not of connections beyond the bound,
        of which there may be thousands a second.
        """
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused, self.head_since = True, None
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self.transport.close()
            return
        self.answered[UNMATCHED, status].add(0.0)
        words, request_id, bucket = _REFUSALS[status], new_id(), _BUCKETS.get(status, "invalid_input")
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"connection", b"close"),
            (b"content-length", b"%d" % len(words)),
            (self.names.request_id, request_id.encode()),
            (self.names.error_type, bucket.encode()),
        ]
        if status == _TOO_BUSY:
            headers.append((b"retry-after", b"1"))
        self.transport.write(STATUS_LINE[status] + b"\r\n".join(map(b": ".join, headers)) + b"\r\n\r\n" + words)
        if status == _TOO_BUSY:
            self.transport.close()
            return
        self.logger.warning("request %s was refused with %d: %s", request_id, status, words.decode())
        # Read on for a moment: a connection that is closed with unread bytes is reset, and the caller never reads why.
        self.transport.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(FAREWELL_SECONDS, self.transport.abort)

    def refuse_slow_head(self) -> None:
        """End a connection whose head takes too long."""
        self._refuse(408)

    def _stop(self, status: int) -> NoReturn:
        """Stop the parser, and have the request refused."""
        self._wrong = status
        raise ValueError(status)

    # The parser calls what follows, or it replaces methods of uvicorn.

    def on_message_begin(self) -> None:
        """Reset the state of the request before."""
        self.url = b""
        self.expect_100_continue = False
        self.headers = []
        self._in_head = True
        self._body_bytes = self._trailers = self._hosts = 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        self.url += url
        if len(self.url) > TARGET_BYTES:
            self._stop(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Those after a body, which come too late, are dropped."""
        headers = self.headers
        if not self._in_head or len(headers) >= FIELDS:
            self._count_trailer()
            return
        name = name.lower()
        if name == b"host":
            self._hosts += 1
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        headers.append((name, value))

    def _count_trailer(self) -> None:
        """Bound the headers after a body, and refuse too many before it."""
        self._trailers += 1
        if self._in_head or self._trailers > FIELDS:
            self._stop(431)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body_bytes += len(body)
        exchange = self.cycle
        if (self.parser.should_upgrade() and self._should_upgrade()) or exchange.response_complete:
            return
        exchange.body += body
        if len(exchange.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        exchange.message_event.set()

    def on_headers_complete(self) -> None:
        """Begin an exchange as uvicorn does, without the limit, the root path and the state that we do not set.

        A request for another protocol is left to uvicorn.
        """
        is_short = self._received <= _PLAIN_BYTES and self.head_since is None
        self._in_head, self.head_since = False, None
        if not is_short and _size(self.url, self.headers) > HEAD_BYTES:
            self._stop(431)
        self._received = 0
        if self._hosts != 1 and (self._hosts or self.parser.get_http_version() != "1.0"):
            self._stop(_BAD_REQUEST)  # RFC 9112, 3.2: two readers of it could see two hosts
        if self.parser.should_upgrade():
            self.scope = self._scope_at(b"", b"")
            super().on_headers_complete()
            return
        before: RequestResponseCycle | None = self.cycle
        url = httptools.parse_url(self.url)
        self.scope = scope = self._scope_at(url.path, url.query or b"")
        is_next = before is None or before.response_complete
        keeps_alive = scope["http_version"] != "1.0" and self.parser.should_keep_alive() and not self.is_leaving
        is_pressed = self._pressure is not None and self._pressure.pressed_until and not self.expect_100_continue
        if is_next and keeps_alive and is_pressed and (refusal := self.app.refuse_at_once(scope)) is not None:
            self._answer_at_once(scope, *refusal)
            return
        self.cycle = exchange = self._exchange(scope, keeps_alive=keeps_alive)
        if is_next:
            self._answering = exchange
            self._start_asgi_task(exchange, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((exchange, self.app))
            if len(self.pipeline) > PIPELINED:
                self._stop(431)

    def _exchange(self, scope: HTTPScope, *, keeps_alive: bool) -> WebExchange:
        """The exchange of the request whose head has just been read."""
        exchange = WebExchange(
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            self.access_log,
            self.server_state.default_headers,
            LazyEvent(),  # type: ignore[arg-type]
            self.expect_100_continue,
            keeps_alive,
            self.on_response_complete,
        )
        exchange.answered, exchange.began = self.answered, time.monotonic()
        # A weak reference: otherwise each would keep the other until the garbage collector runs.
        scope[WHOLE] = weakref.proxy(exchange)  # type: ignore[typeddict-unknown-key]
        return exchange

    def _answer_at_once(self, scope: HTTPScope, status: int, headers: Headers, content: bytes) -> None:
        """Refuse a call whose body, which is still arriving, will not be read."""
        self.cycle = cast("RequestResponseCycle", _RefusedExchange())
        lines = map(b": ".join, (*self.server_state.default_headers, *headers))
        self.transport.write(STATUS_LINE[status] + b"\r\n".join(lines) + b"\r\n\r\n" + content)
        name: RouteName = scope.get(ROUTE_NAME, UNMATCHED)  # type: ignore[assignment]
        self.answered[name, status].add(0.0)
        self.server_state.total_requests += 1

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
        """Read on: uvicorn paused for a large body, and would not notice when the caller leaves."""
        if not ((self.parser.should_upgrade() and self._should_upgrade()) or self.cycle.response_complete):
            self.cycle.more_body = False
            self.cycle.message_event.set()
        if self.flow.read_paused and not self.pipeline:
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        """Continue with the next request, if it has arrived already."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._answering, application = cast("tuple[WebExchange, ASGI3Application]", self.pipeline.pop())
            self._start_asgi_task(self._answering, application)

    def handle_websocket_upgrade(self) -> None:
        """Become a socket; uvicorn would drop one whose address it cannot read."""
        if self.url.isascii():
            super().handle_websocket_upgrade()
        else:
            self._refuse(_BAD_REQUEST)

    def hang_up(self) -> None:
        """End the connection."""
        self.transport.close()


def _size(url: bytes, headers: Headers) -> int:
    """The size of a head in bytes, without its separators."""
    return len(url) + sum(len(name) + len(value) for name, value in headers)
