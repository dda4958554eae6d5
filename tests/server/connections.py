"""uvicorn as `serve` runs it, around an application of a test, and the bytes of bare connections to it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import uvicorn

from fairlead.api.http.asgi import Receive, Scope, Send
from fairlead.server.web_server import WebServer

PATIENCE: Final = 30.0
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Caller:
    """A connection, from the side that asks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)

    async def wait_until_sent(self) -> None:
        """Wait until most of what was sent has gone."""
        await self._writer.drain()

    async def head(self) -> dict[str, str]:
        """The head of a response; its status line is named `status`."""
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        return {"status": lines[0], **dict(line.split(": ", 1) for line in lines[1:])}

    async def answer(self) -> tuple[dict[str, str], bytes]:
        """A response: its head and its body."""
        head = await self.head()
        return head, await self._reader.readexactly(int(head["content-length"]))

    async def rest(self) -> bytes:
        """All that comes until the server closes."""
        return await self._reader.read()

    def leave(self) -> None:
        """Be gone at once."""
        self._writer.transport.abort()


class Web:
    """A server that runs, on a port of its own."""

    def __init__(self, port: int) -> None:
        self._port = port

    @asynccontextmanager
    async def caller(self) -> AsyncIterator[Caller]:
        """A connection to it, closed in the end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            yield Caller(reader, writer)
        finally:
            writer.close()


@asynccontextmanager
async def serving(
    application: Application,
    *,
    keep_alive: int = 75,
    log_level: str = "warning",
    connections: int = 0,
    is_secure: bool = False,
) -> AsyncIterator[Web]:
    """Run a server around an application; nothing in it takes longer than PATIENCE."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application,
        loop="none",
        lifespan="off",
        interface="asgi3",
        log_level=log_level,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=keep_alive,
    )
    web = WebServer(config, PATIENCE, connections, is_secure=is_secure)
    task = asyncio.create_task(web.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(PATIENCE):
            yield Web(listener.getsockname()[1])
    finally:
        web.should_exit = True
        await task
