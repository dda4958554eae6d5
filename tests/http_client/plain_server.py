"""A server of bare connections for tests of the transport: what it does with each is the test's own coroutine."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import uvloop

Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class PlainServer:
    """Where it listens, how many connections it has accepted, and how many of them are still open."""

    def __init__(self) -> None:
        self.port = 0
        self.accepted = 0
        self.open = 0

    @property
    def url(self) -> str:
        """The address of `/x` on it."""
        return f"http://127.0.0.1:{self.port}/x"


@asynccontextmanager
async def serving(
    handler: Handler, host: str = "127.0.0.1", context: ssl.SSLContext | None = None
) -> AsyncIterator[PlainServer]:
    """Serve connections in this loop until the block ends."""
    state = PlainServer()
    tasks: set[asyncio.Task[Any]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state.accepted += 1
        state.open += 1
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await handler(reader, writer)
        finally:
            state.open -= 1
            writer.close()
            with suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
                await writer.wait_closed()
            tasks.discard(task)

    server = await asyncio.start_server(accept, host, 0, ssl=context)
    state.port = server.sockets[0].getsockname()[1]
    try:
        yield state
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=60)
        await server.wait_closed()


async def request_of(reader: asyncio.StreamReader) -> bytes:
    """Read a whole request: its head and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    _, found, rest = head.lower().partition(b"content-length: ")
    return head + (await reader.readexactly(int(rest.split(b"\r\n")[0])) if found else b"")


def answering(answer: bytes, *, close: bool = False) -> Handler:
    """Answer every request of a connection with the same bytes, or the first and close."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request_of(reader)
            writer.write(answer)
            await writer.drain()
            if close:
                return

    return handle


def run_on(loop: str, work: Coroutine[Any, Any, None]) -> None:
    """Run a test on one of the two event loops a server may have."""
    factory = uvloop.new_event_loop if loop == "uvloop" else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(work)
