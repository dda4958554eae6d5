"""Calls over connections that stay open: as many at once as there are connections, or so many a second.

Times are of `time.perf_counter`: the loop's own clock counts milliseconds.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, cast

from bench.measuring import CannotMeasureError, Gateway

_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"
_PATIENCE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; `seconds` from the moment its call was sent, or should have been, to its last byte."""

    status: int
    body: bytes
    seconds: float


def request(server: Gateway, method: str, path: str, body: str = "", key: str | None = None) -> bytes:
    """A call as it is sent; `key` is its idempotency key."""
    head = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}", f"X-API-Key: {server.key}"]
    if key is not None:
        head.append(f"Idempotency-Key: {key}")
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body.encode())}"]
    return ("\r\n".join((*head, "", "")) + body).encode()


class Session(asyncio.Protocol):
    """One connection to the gateway: a call, its answer, the next call."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._answered: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way there."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not its subclasses

    def data_received(self, data: bytes) -> None:
        """Read what has come; an answer is whole when its length is there."""
        self._received += data
        end = self._received.find(_END)
        if end < 0:
            return
        head = self._received[:end].lower()
        at = head.find(_LENGTH)
        length = 0 if at < 0 else int(head[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
        body = self._received[end + len(_END) :]
        if len(body) >= length and self._answered is not None and not self._answered.done():
            self._received = b""
            self._answered.set_result((int(head[9:12]), body))

    def connection_lost(self, _error: Exception | None) -> None:
        """Tell who waits that nothing will come."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(CannotMeasureError("The gateway closed a connection without an answer."))

    async def ask(self, content: bytes, due: float | None = None) -> Reply:
        """Send a call and wait for its answer; `due` is when it should have been sent."""
        self._answered = asyncio.get_running_loop().create_future()
        began = time.perf_counter() if due is None else due
        if self._transport is None:
            raise CannotMeasureError("The connection is not open.")
        self._transport.write(content)
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                status, body = await self._answered
        except TimeoutError as error:
            raise CannotMeasureError("The gateway did not answer a call.") from error
        return Reply(status, body, time.perf_counter() - began)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


@asynccontextmanager
async def sessions(server: Gateway, number: int) -> AsyncIterator[list[Session]]:
    """So many open connections."""
    loop = asyncio.get_running_loop()
    opened = [(await loop.create_connection(Session, "127.0.0.1", server.port))[1] for _ in range(number)]
    try:
        yield opened
    finally:
        for session in opened:
            session.close()


async def ask_all(opened: Sequence[Session], calls: Sequence[bytes]) -> list[Reply]:
    """Make all calls, one after another on each connection; the answers in the order of the calls."""
    replies: list[Reply | None] = [None] * len(calls)
    left = iter(range(len(calls)))

    async def go(session: Session) -> None:
        for index in left:
            replies[index] = await session.ask(calls[index])

    await asyncio.gather(*(go(session) for session in opened))
    return [reply for reply in replies if reply is not None]


async def ask_paced(opened: Sequence[Session], calls: Sequence[bytes], per_second: float) -> list[Reply]:
    """Make calls at a pace, whatever the answers take; one that finds no free connection has begun to wait already."""
    free: asyncio.LifoQueue[Session] = asyncio.LifoQueue()
    for session in opened:
        free.put_nowait(session)

    async def go(content: bytes, due: float) -> Reply:
        session = await free.get()
        try:
            return await session.ask(content, due)
        finally:
            free.put_nowait(session)

    began, tasks = time.perf_counter(), []
    for turn, content in enumerate(calls):
        due = began + turn / per_second
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(go(content, due)))
    return await asyncio.gather(*tasks)
