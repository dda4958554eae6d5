"""Bodies of requests as `serve` takes them in: whole and in order, in whatever pieces they come."""

import asyncio
import os
import random
from contextlib import suppress
from typing import Final

import pytest
from blake3 import blake3

from conftest import Run
from fairlead.api.http.asgi import Receive, Scope, Send
from server.connections import serving

SIZE: Final = 3_000_000


class Digests:
    """An application that answers with the digest of a body, which it reads with pauses."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        """Set when a caller has left before the whole body was sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1001})
            return
        hashed, more = blake3(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.set()
                return
            hashed.update(message["body"])
            more = message["more_body"]
            await asyncio.sleep(random.choice((0, 0, 0.001)))  # noqa: S311 -- pieces come one by one and together
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"64")]})
        await send({"type": "http.response.body", "body": hashed.hexdigest().encode()})


def chunk(content: bytes, sizes: tuple[int, ...]) -> bytes:
    """A body in chunks of these sizes, again and again."""
    parts, at, turn = [], 0, 0
    while at < len(content):
        part = content[at : at + sizes[turn % len(sizes)]]
        parts.append(b"%x\r\n%b\r\n" % (len(part), part))
        at, turn = at + len(part), turn + 1
    return b"".join((*parts, b"0\r\n\r\n"))


@pytest.mark.parametrize("sizes", [None, (200_000,), (100_000, 7, 70_000), (1_000,), (65_536, 65_537)])
def test_bodies_are_read_as_they_were_sent(sizes: tuple[int, ...] | None, run: Run) -> None:
    """Two bodies on one connection, sent at once, in large and small pieces and in both, arrive as they are."""
    bodies = [os.urandom(SIZE), os.urandom(SIZE)]
    framing = b"Content-Length: %d" % SIZE if sizes is None else b"Transfer-Encoding: chunked"
    calls = [
        b"POST / HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n%b" % (framing, body if sizes is None else chunk(body, sizes))
        for body in bodies
    ]

    async def send_both() -> None:
        async with serving(Digests()) as web, web.caller() as caller:
            caller.send(b"".join(calls))
            for body in bodies:
                assert (await caller.answer())[1].decode() == blake3(body).hexdigest()

    run(send_both())


def test_caller_who_leaves_in_a_large_body_is_not_waited_for(run: Run) -> None:
    """Anyone who hangs up in the middle of a large body has left; others go on."""

    async def leave() -> None:
        application = Digests()
        async with serving(application) as web:
            async with web.caller() as leaving:
                leaving.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % SIZE + bytes(SIZE - 1))
                await leaving.wait_until_sent()
            await application.left.wait()
            async with web.caller() as caller:
                caller.send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
                assert (await caller.head())["status"].startswith("HTTP/1.1 200")

    run(leave())


@pytest.mark.parametrize("size", [5, 200_000])
def test_websocket_call_with_a_body_loses_its_connection(size: int, caplog: pytest.LogCaptureFixture, run: Run) -> None:
    """A call that would become a socket and has a body, however large, loses its connection, and nobody stumbles."""
    head = (
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: %d\r\n\r\n" % size
    )

    async def send() -> None:
        async with serving(Digests()) as web, web.caller() as caller:
            caller.send(head + b"x" * size)
            with suppress(ConnectionError):
                await caller.rest()

    run(send())
    assert not [record for record in caplog.records if record.exc_info]
