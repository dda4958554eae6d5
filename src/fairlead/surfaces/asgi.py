"""The few ASGI pieces every surface shares: reading a body within bounds, sending an answer, knowing who left."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, MutableMapping
from typing import Any, Final, TypeAlias

from fairlead.domain.faults import BodyTooLarge, FaultError, InvalidInput

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Coroutine[Any, Any, Message]]
Send: TypeAlias = Callable[[Message], Coroutine[Any, Any, None]]
Headers: TypeAlias = list[tuple[bytes, bytes]]

_BODY_SECONDS: Final = 120.0


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
    """
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


async def answer(send: Send, status: int, headers: Headers, content: bytes) -> None:
    """Send a whole response; its length is added."""
    headers.append((b"content-length", b"%d" % len(content)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
