"""ASGI pieces that all APIs share: bodies and their JSON within bounds (S-02), answers, callers that have left."""

import asyncio
import functools
import re
from collections.abc import Callable, Coroutine, MutableMapping
from ipaddress import IPv6Address
from typing import Any, Final, Protocol, TypeAlias, cast

from starlette.requests import Request
from starlette.responses import Response

from fairlead.document_readers import DocumentReaders, NoReaderError, UnreadableDocumentError
from fairlead.documents.members import BadDocumentError, Members, Wanted
from fairlead.documents.values import ValueCount, has_more_values
from fairlead.domain.faults import BodyTooLarge, FaultError, InvalidInput, ServiceUnavailable, TooManyValues

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Coroutine[object, object, Message]]
Send: TypeAlias = Callable[[Message], Coroutine[object, object, None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]
Refused: TypeAlias = tuple[int, Headers, bytes]
"""A whole answer to a call that is refused by its head: the status, all headers but those of the server, the body."""

HOST_MAX: Final = 259
"""The longest host with its port: a name of 253 characters, a colon, five digits."""

REQUEST_ID: Final = "fairlead.request_id"
"""The key of the request id in a call's scope."""
_OF_EVERY_ANSWER: Final = "fairlead.headers_of_answers"
FRAMES: Final = "fairlead.websocket.frames"
"""The ASGI extension of a server that writes frames as they are, and the type of a message with such `frames`."""
ROUTE_NAME: Final = "fairlead.route_name"
"""The key, in a call's scope, of the method and the path of its route, by which the web server counts it."""
WHOLE: Final = "fairlead.http.whole"
"""The key of a call's WholeExchange in its scope, where the server has one."""
_BY_NAME: Final = "fairlead.headers"
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""The longest message of a socket's client; the server in front of the application refuses longer ones."""
_BODY_SECONDS: Final = 120.0
_JOINED_BYTES: Final = 2**20
_PORT_MAX: Final = 65_535
# Public host names have no underscores, but names of containers do.
_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST: Final = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[(?P<address>[0-9A-Fa-f:.]{{2,45}})\])(?::(?P<port>[1-9][0-9]{{0,4}}))?"
)
_BUSY: Final = "Too many large documents are being read; try again soon."
SMALL_VALUES: Final = 20_000
"""How many values a body may hold that no setting limits; such bodies have a kilobyte or two."""


def begin(scope: Scope, name: bytes, request_id: str) -> None:
    """Give a call its id, which the header `name` returns; add a header for every answer here."""
    scope[REQUEST_ID] = request_id
    scope[_OF_EVERY_ANSWER] = [(name, request_id.encode())]


def headers_of_every_answer(scope: Scope) -> Headers:
    """The headers of every answer to a call that went through `begin`."""
    headers: Headers = scope[_OF_EVERY_ANSWER]
    return headers


class AsgiApplication(Protocol):
    """An application that answers requests and holds sockets."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hold one socket."""
        ...


class Pressure(Protocol):
    """An application whose `pressure` says whether it has more to do than it can, and may refuse calls early."""

    pressed_until: float
    """Not 0 where calls may be refused."""


class CallerLeftError(Exception):
    """The connection closed before the request was whole: nobody is left to answer."""


class WholeExchange(Protocol):
    """What a server may offer in addition to ASGI, as WHOLE in a call's scope: reading and writing whole bodies."""

    disconnected: bool
    """Whether the caller has closed the connection."""

    def take_whole(self) -> bytes | None:
        """The body of the request, or None where part of it has not arrived and must be read by ASGI."""
        ...

    def answer_whole(self, status: int, headers: Headers, content: bytes) -> bool:
        """Write a response with its headers, whose names are in lower case; False where ASGI must be used."""
        ...


async def read_whole(scope: Scope, receive: Receive, limit: int, values: int | None = None) -> bytes:
    """Read a request body of at most `limit` bytes, within a bounded time; FaultError, or CallerLeftError.

    Where `values` is given, the body is JSON, and is refused as soon as it holds more values than that (S-02).
    """
    length = header(scope, b"content-length")
    if length is not None and length.isdigit() and int(length) > limit:
        raise FaultError(BodyTooLarge(limit))
    exchange: WholeExchange | None = scope.get(WHOLE)
    content = None if exchange is None else exchange.take_whole()
    if content is not None:
        if len(content) > limit:
            raise FaultError(BodyTooLarge(limit))
        # A value takes a byte at least, so most bodies need no counting.
        if values is not None and len(content) >= values and has_more_values(content, values):
            raise FaultError(TooManyValues(values))
        return content
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await _read_rest(receive, limit, values)
    except TimeoutError as error:
        raise FaultError(InvalidInput(f"The request body did not arrive within {_BODY_SECONDS:g} seconds.")) from error


async def _read_rest(receive: Receive, limit: int, values: int | None) -> bytes:
    count = ValueCount()
    chunks, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerLeftError
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise FaultError(BodyTooLarge(limit))
        if values is not None and count.add(chunk) > values:
            raise FaultError(TooManyValues(values))
        chunks.append(chunk)
        more = message.get("more_body", False)
    if size <= _JOINED_BYTES:
        return b"".join(chunks)
    return await asyncio.to_thread(b"".join, chunks)  # without the interpreter lock


def has_left(scope: Scope, receive: Receive) -> bool:
    """Whether the caller has closed the connection by now. Only after the body was read; never waits.

    A task that waits for the disconnect would cost 10 µs and a kilobyte for every held call. Without a WholeExchange,
    one step of `receive` either returns the disconnect at once or would wait, and is then dropped.
    """
    exchange: WholeExchange | None = scope.get(WHOLE)
    if exchange is not None:
        return exchange.disconnected
    waiting = receive().__await__()
    try:
        next(waiting)
    except StopIteration as ended:
        return bool(ended.value["type"] == "http.disconnect")
    waiting.close()
    return False


def header(scope: Scope, name: bytes) -> bytes | None:
    """The value of a request header by its lower-case name; the first where it was sent twice."""
    known: dict[bytes, bytes] | None = scope.get(_BY_NAME)
    if known is None:
        known = scope[_BY_NAME] = dict(reversed(scope["headers"]))
    return known.get(name)


def is_read(scope: Scope) -> bool:
    """Whether a call changes nothing, by its method."""
    return scope["method"] in ("GET", "HEAD")


def base_url_of(scope: Scope, scheme: str | None = None, host: str | None = None) -> str:
    """Scheme and host by which the caller reached this server, for links made for this caller alone.

    The host is the one in the request; if that is unfit for a link, the address of the connection.
    """
    return f"{scheme or scope['scheme']}://{host or named_host(scope) or _own_host(scope)}"


def is_host(text: str) -> bool:
    """Whether a text is a host as links have it: a name or an address, IPv6 in brackets, perhaps with a port."""
    return len(text) <= HOST_MAX and _is_host(text)


@functools.lru_cache(maxsize=256)
def _is_host(text: str) -> bool:
    """Whether a text is a host; cached, because most calls name the same one."""
    match = _HOST.fullmatch(text)
    if match is None or int(match["port"] or 1) > _PORT_MAX:
        return False
    return match["address"] is None or _is_ipv6(match["address"])


def named_host(scope: Scope) -> str | None:
    """The host in a call's header, perhaps with a port; None where it is missing or invalid."""
    named = (header(scope, b"host") or b"").decode("latin-1")
    return named if len(named) <= HOST_MAX and _is_host(named) else None


def _own_host(scope: Scope) -> str:
    address, port = scope.get("server") or ("localhost", None)
    if port is None:  # a unix socket: its path is nothing that a link could name
        return "localhost"
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _is_ipv6(text: str) -> bool:
    try:
        IPv6Address(text)
    except ValueError:
        return False
    return True


async def answer(scope: Scope, send: Send, status: int, headers: Headers, content: bytes) -> None:
    """Send a whole response; its length and the headers of every answer are added."""
    headers.append((b"content-length", b"%d" % len(content)))
    headers += scope.get(_OF_EVERY_ANSWER, ())
    exchange: WholeExchange | None = scope.get(WHOLE)
    if exchange is None or not exchange.answer_whole(status, headers, content):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})


def answer_at_once(scope: Scope, response: Response) -> bool:
    """Send a whole response in one write; False where ASGI must be used, as for one that is streamed."""
    exchange: WholeExchange | None = scope.get(WHOLE)
    if exchange is None or type(response).__call__ is not Response.__call__ or response.background is not None:
        return False
    headers = [*response.raw_headers, *headers_of_every_answer(scope)]
    return exchange.answer_whole(response.status_code, headers, bytes(response.body))


async def read_small_json(request: Request, limit: int) -> bytes:
    """A JSON body of at most `limit` bytes with few values; FaultError, or CallerLeftError."""
    receive = cast("Receive", request.receive)  # the server's own: Starlette hands it on as it is
    return await read_whole(request.scope, receive, limit, SMALL_VALUES)


async def read_members(readers: DocumentReaders, workspace_id: str, content: bytes, wanted: Wanted) -> Members:
    """Some members of a body, whatever its size; BadDocumentError, or FaultError where too many are being read."""
    try:
        return await readers.members(workspace_id, content, wanted)
    except NoReaderError as error:
        raise FaultError(ServiceUnavailable(_BUSY, 1)) from error
    except UnreadableDocumentError as error:
        raise BadDocumentError("it takes too long or too much memory") from error
