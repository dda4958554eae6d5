"""Bodies of requests as `serve` takes them in: whole and in order, in whatever pieces they come."""

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import pytest
import uvicorn
import uvloop
from blake3 import blake3

from conftest import Run
from fairlead.cli.web import WebServer
from fairlead.surfaces.asgi import Receive, Scope, Send

SIZE: Final = 3_000_000
PATIENCE: Final = 30.0


class Digests:
    """An application that answers with the digest of a body, which it reads with pauses."""

    def __init__(self) -> None:
        self.left = asyncio.Event()
        """Set when a caller has left before his body was whole."""

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


def chunked(content: bytes, sizes: tuple[int, ...]) -> bytes:
    """A body in chunks of these sizes, again and again."""
    parts, at, turn = [], 0, 0
    while at < len(content):
        part = content[at : at + sizes[turn % len(sizes)]]
        parts.append(b"%x\r\n%b\r\n" % (len(part), part))
        at, turn = at + len(part), turn + 1
    return b"".join((*parts, b"0\r\n\r\n"))


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Return what runs a coroutine in an event loop of either kind: they begin to read in different ways."""
    with asyncio.Runner(loop_factory=request.param) as runner:
        yield runner.run


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[int, Digests]]:
    """Run a server that answers with digests; its port, and what answers."""
    application = Digests()
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(application, loop="none", lifespan="off", log_level="warning", access_log=False)
    web = WebServer(config, PATIENCE, lambda: None)
    task = asyncio.create_task(web.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(PATIENCE):
            yield listener.getsockname()[1], application
    finally:
        web.should_exit = True
        await task


@pytest.mark.parametrize("sizes", [None, (200_000,), (100_000, 7, 70_000), (1_000,), (65_536, 65_537)])
def test_a_body_is_read_otherwise_than_it_was_sent(sizes: tuple[int, ...] | None, run: Run) -> None:
    """Two bodies on one connection, sent at once, in large and small pieces and in both, arrive as they are."""
    bodies = [os.urandom(SIZE), os.urandom(SIZE)]
    framing = b"Content-Length: %d" % SIZE if sizes is None else b"Transfer-Encoding: chunked"
    calls = [
        b"POST / HTTP/1.1\r\nHost: a\r\n%b\r\n\r\n%b" % (framing, body if sizes is None else chunked(body, sizes))
        for body in bodies
    ]

    async def send_both() -> None:
        async with serving() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"".join(calls))
            for body in bodies:
                await reader.readuntil(b"\r\n\r\n")
                assert (await reader.readexactly(64)).decode() == blake3(body).hexdigest()
            writer.close()

    run(send_both())


def test_a_caller_who_leaves_in_a_large_body_is_waited_for(run: Run) -> None:
    """Whoever hangs up in the middle of a large body has left; others go on."""

    async def leave() -> None:
        async with serving() as (port, application):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % SIZE + bytes(SIZE - 1))
            await writer.drain()
            writer.close()
            await application.left.wait()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
            writer.close()

    run(leave())


@pytest.mark.parametrize("size", [5, 200_000])
def test_a_call_for_a_socket_with_a_body_goes_on(size: int, caplog: pytest.LogCaptureFixture, run: Run) -> None:
    """A call that would become a socket and has a body, however large, loses its connection, and nobody stumbles."""
    head = (
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nContent-Length: %d\r\n\r\n" % size
    )

    async def send() -> None:
        async with serving() as (port, _):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + b"x" * size)
            with suppress(ConnectionError):
                await reader.read()
            writer.close()

    run(send())
    assert not [record for record in caplog.records if record.exc_info]
