"""The few ASGI pieces every surface shares: reading a body within bounds, sending an answer, knowing who left."""

import asyncio
import functools
import re
from collections.abc import Callable, Coroutine, Iterable, MutableMapping
from ipaddress import IPv6Address
from typing import Any, Final, TypeAlias

from fairlead.domain.faults import BodyTooLarge, FaultError, InvalidInput

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Coroutine[Any, Any, Message]]
Send: TypeAlias = Callable[[Message], Coroutine[Any, Any, None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

HOST_MAX: Final = 259
"""The longest host with its port: a name of 253 characters, a colon, five digits."""

REQUEST_ID: Final = "fairlead.request_id"
"""Under which name a call's id stands in its scope."""
FRAMES: Final = "fairlead.websocket.frames"
"""The ASGI extension of a server that writes frames as they are, and the type of a message with such `frames`."""
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""The longest message of a socket's client; the server in front of the application refuses longer ones."""
_BODY_SECONDS: Final = 120.0
_PORT_MAX: Final = 65_535
# Underscores are in no name of the internet, but in those of containers.
_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST: Final = re.compile(
    rf"(?:{_LABEL}(?:\.{_LABEL})*\.?|\[(?P<address>[0-9A-Fa-f:.]{{2,45}})\])(?::(?P<port>[1-9][0-9]{{0,4}}))?"
)


class CallerLeftError(Exception):
    """The connection closed before the request was whole: there is nobody to answer."""


async def read_whole(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Read a request body of at most `limit` bytes, within a bounded time; FaultError, or CallerLeftError."""
    length = header(scope, b"content-length")
    if length is not None and length.isdigit() and int(length) > limit:
        raise FaultError(BodyTooLarge(limit))
    message = _at_hand(receive)
    if message is not None and message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        if len(body) > limit:
            raise FaultError(BodyTooLarge(limit))
        return body
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await _read_rest(message or await receive(), receive, limit)
    except TimeoutError as error:
        raise FaultError(InvalidInput(f"The request body did not arrive within {_BODY_SECONDS:g} seconds.")) from error


async def _read_rest(message: Message, receive: Receive, limit: int) -> bytes:
    chunks, size = [], 0
    while True:
        if message["type"] == "http.disconnect":
            raise CallerLeftError
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise FaultError(BodyTooLarge(limit))
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)
        message = await receive()


def has_left(receive: Receive) -> bool:
    """Whether the caller has closed the connection by now. Only after the body was read; never waits.

    A task that waits for the disconnect would be the other way, at 10 µs and a kilobyte for every call that is held.
    uvicorn knows without being asked: `receive` is a method of its record of the exchange. Asking would cost every run
    a future that nobody waits for.
    """
    left = getattr(getattr(receive, "__self__", None), "disconnected", None)
    if isinstance(left, bool):
        return left
    message = _at_hand(receive)
    return message is not None and bool(message["type"] == "http.disconnect")


def _at_hand(receive: Receive) -> Message | None:
    """The next message where it is there already, else None, without waiting.

    One step of `receive` is taken by hand: it ends at once with the message, or would wait and is dropped unharmed.
    """
    waiting = receive().__await__()
    try:
        next(waiting)
    except StopIteration as ended:
        message: Message = ended.value
        return message
    waiting.close()
    return None


def header(scope: Scope, name: bytes) -> bytes | None:
    """The value of a request header by its lower-case name; the first where it was sent twice."""
    headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
    for key, value in headers:
        if key == name:
            return value
    return None


def base_url_of(scope: Scope, scheme: str | None = None, host: str | None = None) -> str:
    """How the caller reached this server, for links made for him alone: scheme and host, as told or as they look.

    The host is the one he named; where he named none that could stand in a link, the address he is connected to.
    """
    return f"{scheme or scope['scheme']}://{host or _named_host(scope) or _own_host(scope)}"


def is_host(text: str) -> bool:
    """Whether a text is a host as links have it: a name or an address, IPv6 in brackets, perhaps with a port."""
    return len(text) <= HOST_MAX and _is_host(text)


@functools.lru_cache(maxsize=256)
def _is_host(text: str) -> bool:
    """Read a host; remembered, because most calls name the same one."""
    match = _HOST.fullmatch(text)
    if match is None or int(match["port"] or 1) > _PORT_MAX:
        return False
    return match["address"] is None or _is_ipv6(match["address"])


def _named_host(scope: Scope) -> str | None:
    value = header(scope, b"host")
    named = "" if value is None else value.decode("latin-1")
    return named if is_host(named) else None


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


async def answer(send: Send, status: int, headers: Headers, content: bytes) -> None:
    """Send a whole response; its length is added. Where the transport is a JoiningTransport it is written at once."""
    headers.append((b"content-length", b"%d" % len(content)))
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if isinstance(transport, JoiningTransport):
        transport.hold()
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
    if isinstance(transport, JoiningTransport):
        transport.release()


class JoiningTransport:
    """A connection's transport that can hold what is written until all of it goes out in one system call.

    uvicorn writes the head of a response and its body apart, and uvloop sends each at once: for a small answer the
    second call is 3 to 6 % of what its whole run costs.
    """

    __slots__ = (
        "_held",
        "_transport",
        "get_extra_info",
        "is_closing",
        "pause_reading",
        "resume_reading",
        "set_protocol",
    )

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: list[bytes] | None = None
        # What uvicorn asks of a transport beside writing.
        self.is_closing = transport.is_closing
        self.get_extra_info = transport.get_extra_info
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading
        self.set_protocol = transport.set_protocol

    def hold(self) -> None:
        """Keep what is written from now on."""
        self._held = []

    def release(self) -> None:
        """Send what was kept."""
        held, self._held = self._held, None
        if held:
            self._transport.writelines(held)  # one call, and nothing is copied

    def write(self, data: bytes) -> None:
        """Send, or keep until the release."""
        if self._held is None:
            self._transport.write(data)
        else:
            self._held.append(data)

    def close(self) -> None:
        """Close once everything is sent."""
        self.release()
        self._transport.close()
