"""A server of sockets and nothing else, in the event loop of a test, and clients that speak the real protocol."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from websockets.asyncio.client import ClientConnection, connect

from fairlead.api.cloud.api import CloudApi
from fairlead.api.cloud.credentials import CloudCallers
from fairlead.api.cloud.socket import CloudSocket
from fairlead.api.http.asgi import Receive, Scope, Send
from fairlead.api.http.credentials import CredentialReader
from fairlead.api.http.route import Endpoint, Handler
from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.rate_windows import Quotas
from fairlead.domain.jobs.events import EventEnvelope, JobEvent, Place, Preview
from fairlead.messaging.event_hub import HubLimits
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.observing.observations import FaultAnswered, Observation
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.accounts.keys import IssuedKey, issue_key
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.accounts.workspaces import NewWorkspace, create_workspace
from fairlead.operations.jobs.follow import follow_nobody
from fairlead.server.drain import Drain
from fairlead.server.web_server import WebServer
from fairlead.storage.db.database import Database

JOB: Final = "0197f000-0000-7000-8000-000000000001"
NOW: Final = 1_790_000_000_000
PATIENCE: Final = 60.0
"""How long a message may take before a test fails, in seconds."""
_CLOCK: Final = Clock()


def place(node: str = "7") -> Place:
    """Where a node stands that is part of the workflow itself."""
    return Place(node, node)


def picture(size: int, node: str = "7") -> Preview:
    """A preview of so many bytes."""
    return Preview(place(node), "image/png", bytes(size))


class ServerFixture:
    """A running server, its event_hub and a workspace with a key."""

    def __init__(self, database: Database, limits: HubLimits, patience: float, recheck: float) -> None:
        self.database = database
        self.event_hub = LocalEventHub(limits)
        self.seen: list[Observation] = []
        self.remaining = 0
        self.workspace_id = ""
        self.key = ""
        self.key_id = ""
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        callers = CloudCallers(
            Authenticator(database, None),
            RateWindows(database, Quotas(), _CLOCK, self.seen.append),
            CredentialReader("flk_"),
        )
        socket_ = CloudSocket(self.event_hub, callers, self._count, follow_nobody, self.seen.append, recheck)
        self.api = CloudApi(_bind_nothing, callers.caller, socket_, b"x-service-request-id", self.seen.append)
        config = uvicorn.Config(
            self._answer, loop="none", lifespan="off", interface="asgi3", log_level="warning", access_log=False
        )
        self.web = WebServer(config, patience)
        self.web.drain = Drain(5)
        self.web.drain.tell(self.event_hub.close)

    @property
    def port(self) -> int:
        """Where the server listens."""
        port: int = self.listener.getsockname()[1]
        return port

    async def new_workspace(self, name: str) -> tuple[str, IssuedKey]:
        """Make a workspace with a key."""
        workspace_id = await create_workspace(self.database, NewWorkspace(name=name), _CLOCK)
        return workspace_id, await issue_key(self.database, name, "a key", None, "flk_", _CLOCK)

    def tell(self, *events: JobEvent, job: str | None = JOB, workspace_id: str | None = None) -> None:
        """Publish what has happened to a job."""
        for event in events:
            self.event_hub.publish(EventEnvelope(workspace_id or self.workspace_id, job, job, NOW, event))

    def url(self, path: str = "/ws", **query: str) -> str:
        """The address of a socket."""
        return f"ws://127.0.0.1:{self.port}{path}?{urlencode(query)}"

    @asynccontextmanager
    async def watching(self, *, key: str | None = None, **query: str) -> AsyncIterator["Client"]:
        """A client that has been greeted; `hello` is what it was told."""
        async with connect(self.url(token=key or self.key, **query), compression=None, proxy=None) as connection:
            client = Client(connection)
            client.hello = await client.message()
            yield client

    @asynccontextmanager
    async def raw(
        self, target: bytes | None = None, *, headers: bytes = b"", buffer: int | None = None
    ) -> AsyncIterator["RawClient"]:
        """A client that has asked for a socket; `buffer` is how much its side of the connection takes unread."""
        client = socket.socket()
        if buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.settimeout(0)
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.port))
        raw = RawClient(*await asyncio.open_connection(sock=client, limit=2**16 if buffer is None else 1024))
        asked = target or b"/ws?token=" + self.key.encode()
        head = b"Host: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n" + headers
        key = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        raw.writer.write(b"GET " + asked + b" HTTP/1.1\r\n" + head + key + b"\r\n")
        try:
            yield raw
        finally:
            raw.writer.transport.abort()
            await asyncio.sleep(0)

    async def _count(self, _: Caller) -> int:
        return self.remaining

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self.api(scope, receive, send, new_id())
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


def _bind_nothing(_handler: Handler) -> Endpoint:
    """Bind the routes, of which none is asked for, to what answers nothing."""

    async def answer_nothing(_request: Request) -> Response:
        raise AssertionError

    return answer_nothing


class Client:
    """A client of /ws."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.hello: dict[str, Any] = {}

    async def next(self) -> str | bytes:
        """What comes next."""
        return await asyncio.wait_for(self.connection.recv(), PATIENCE)

    async def message(self) -> dict[str, Any]:
        """The next message, which is JSON."""
        text = await self.next()
        assert isinstance(text, str)
        read: dict[str, Any] = json.loads(text)
        return read

    async def kinds(self, count: int) -> list[str]:
        """The types of the next messages."""
        return [(await self.message())["type"] for _ in range(count)]

    async def frame(self) -> bytes:
        """The next frame, which is binary."""
        content = await self.next()
        assert isinstance(content, bytes)
        return content

    async def shake_hands(self, **flags: Any) -> dict[str, Any]:
        """Say what can be read; what the server says."""
        await self.connection.send(json.dumps({"type": "feature_flags", "data": flags}))
        return await self.message()

    async def wait_for_close(self) -> tuple[int | None, str | None]:
        """Wait for the end: its code and reason."""
        await asyncio.wait_for(self.connection.wait_closed(), PATIENCE)
        return self.connection.close_code, self.connection.close_reason


class RawClient:
    """A client below the protocol: it sends any bytes, and reads only when it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def head(self) -> bytes:
        """The head of the answer."""
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE)

    def send(self, first: int, content: bytes = b"") -> None:
        """Send a frame with a first byte of one's own choice."""
        length = len(content)
        size = struct.pack(">B", 0x80 | length) if length < 126 else struct.pack(">BQ", 0xFF, length)
        self.writer.write(bytes([first]) + size + bytes(4) + content)

    async def closing(self) -> tuple[int, str]:
        """Read on to the closing frame: its code and reason."""
        async with asyncio.timeout(PATIENCE):
            while True:
                first, length = await self.reader.readexactly(2)
                if length > 125:
                    length = int.from_bytes(await self.reader.readexactly(2 if length == 126 else 8), "big")
                content = await self.reader.readexactly(length)
                if first == 0x88:
                    return int.from_bytes(content[:2], "big"), content[2:].decode()

    async def rest(self) -> bytes:
        """Everything until the connection ends."""
        try:
            return await asyncio.wait_for(self.reader.read(), PATIENCE)
        except ConnectionError:
            return b""


@asynccontextmanager
async def run_server(
    database: Database, *, limits: HubLimits | None = None, patience: float = 60.0, recheck: float = 60.0
) -> AsyncIterator[ServerFixture]:
    """Run a server of sockets, and stop it in good order."""
    server = ServerFixture(database, limits or HubLimits(), patience, recheck)
    server.workspace_id, issued = await server.new_workspace("lab")
    server.key, server.key_id = issued.text, issued.id
    serving = asyncio.create_task(server.web.serve(sockets=[server.listener]))
    try:
        while not server.web.started:  # noqa: ASYNC110 -- uvicorn has no event for it
            await asyncio.sleep(0.01)
        yield server
    finally:
        server.web.should_exit = True
        await serving
    assert [one for one in server.seen if not isinstance(one, FaultAnswered)] == []
