"""The server that bench/sockets.py measures: real sockets with real keys, and a job that is nothing but its events.

It prints its port and a key as JSON. A line `COUNT PER_SECOND` on its standard input has it publish so many messages at
that pace, each with the moment of its publication (`time.perf_counter`, one clock for all processes); it answers with
what that has cost. With the address of a NATS behind the folder, several servers of one folder tell each other. With
`--bare` it is the yardstick: connections without any protocol, and a loop that writes to them.
"""

import asyncio
import gc
import json
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, cast

import uvicorn
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fairlead.api.cloud.credentials import CloudCallers
from fairlead.api.cloud.frames import PLAIN, pack_broadcast
from fairlead.api.cloud.socket import CloudSocket
from fairlead.api.http.credentials import CredentialReader
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.rate_windows import Quotas
from fairlead.domain.jobs.events import EventEnvelope, Executed, Place
from fairlead.messaging.event_hub import Broadcast, EventHub
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.messaging.nats import nats_messaging
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.accounts.keys import issue_key
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.accounts.workspaces import NewWorkspace, create_workspace
from fairlead.operations.jobs.follow import follow_nobody
from fairlead.server.drain import Drain
from fairlead.server.web_server import WebServer
from fairlead.storage.db.migrate import migrate
from fairlead.storage.db.opening import open_database

_BACKLOG: Final = 4096
_PREFIX: Final = "flk_"
_GC_THRESHOLDS: Final = (50_000, 50, 100)
"""As `serve` has them."""
_PLACE: Final = Place("7", "7")
_JOB: Final = "0197f000-0000-7000-8000-000000000001"


class Speaker(Protocol):
    """Something that can tell everybody."""

    def say(self, envelope: EventEnvelope) -> None:
        """Tell it to all."""
        ...


class Bare:
    """Connections, and nothing else."""

    def __init__(self) -> None:
        self._connections: set[asyncio.Transport] = set()

    def protocol(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        return _BareConnection(self._connections)

    def say(self, envelope: EventEnvelope) -> None:
        """Write to all, one after another."""
        content = pack_broadcast(Broadcast(envelope), PLAIN)
        for transport in self._connections:
            transport.write(content)


class _BareConnection(asyncio.Protocol):
    """One that is greeted as a socket is, so that clients need not know the difference."""

    def __init__(self, connections: set[asyncio.Transport]) -> None:
        self._connections = connections
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way there."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, _data: bytes) -> None:
        """Take the request for granted."""
        if self._transport is not None and self._transport not in self._connections:
            self._transport.write(b"HTTP/1.1 101 \r\n\r\n\x81\x02{}")
            self._connections.add(self._transport)

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget it."""
        if self._transport is not None:
            self._connections.discard(self._transport)


class Room:
    """An event hub that can be published to like a set of bare connections."""

    def __init__(self, event_hub: EventHub) -> None:
        self._event_hub = event_hub

    def say(self, envelope: EventEnvelope) -> None:
        """Publish."""
        self._event_hub.publish(envelope)


async def _serve_bare(listener: socket.socket) -> None:
    bare = Bare()
    server = await asyncio.get_running_loop().create_server(bare.protocol, sock=listener, backlog=_BACKLOG)
    _announce(listener, "")
    async with server:
        await _obey(bare, "")


async def _serve(listener: socket.socket, folder: Path, nats: str | None) -> None:
    url = f"sqlite:///{folder / 'watched.db'}"
    database, clock = open_database(url), Clock()
    messaging = None if nats is None else nats_messaging([nats], "bench")
    event_hub: EventHub = LocalEventHub() if messaging is None else messaging.events
    if messaging is not None:
        messaging.start()
    room = folder / "room.json"
    if room.exists():
        workspace_id, key = json.loads(room.read_text("utf-8"))
    else:
        await migrate(database)
        workspace_id = await create_workspace(database, NewWorkspace(name="lab"), clock)
        key = (await issue_key(database, "lab", "a key", None, _PREFIX, clock)).text
        room.write_text(json.dumps([workspace_id, key]), "utf-8")
    callers = CloudCallers(
        Authenticator(database, None), RateWindows(database, Quotas(), clock, print), CredentialReader(_PREFIX)
    )
    application = CloudSocket(event_hub, callers, _nothing_left, follow_nobody, print)
    config = uvicorn.Config(
        application, loop="none", lifespan="off", interface="asgi3", log_level="warning", access_log=False
    )
    web = WebServer(config, 120.0)
    web.drain = Drain(5)
    web.drain.tell(event_hub.close)
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    _announce(listener, key)
    await _obey(Room(event_hub), workspace_id)
    web.should_exit = True
    await serving
    if messaging is not None:
        await messaging.close()
    await database.close()


async def _nothing_left(_: Caller) -> int:
    return 0


def _announce(listener: socket.socket, key: str) -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    print(json.dumps({"port": listener.getsockname()[1], "key": key}), flush=True)


async def _obey(speaker: Speaker, workspace_id: str) -> None:
    """Publish as often as standard input says so."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        count, per_second = line.split()
        spent = await _publish(speaker.say, workspace_id, int(count), float(per_second))
        print(json.dumps(spent), flush=True)


async def _publish(
    say: Callable[[EventEnvelope], None], workspace_id: str, count: int, per_second: float
) -> dict[str, float]:
    """Publish at a pace; what it has cost: processor time, and the longest time that nothing else could be done."""
    cpu, began, longest = time.process_time(), time.perf_counter(), 0.0
    for turn in range(count):
        await asyncio.sleep(max(0.0, began + turn / per_second - time.perf_counter()))
        now = time.perf_counter()
        say(EventEnvelope(workspace_id, _JOB, _JOB, 0, Executed(_PLACE, {"sent": now, "turn": turn})))
        longest = max(longest, time.perf_counter() - now)
    await asyncio.sleep(1.0)
    return {"cpu": time.process_time() - cpu, "longest": longest}


def main() -> None:
    """Serve until standard input ends."""
    with socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG) as listener:
        if sys.argv[1] == "--bare":
            uvloop.run(_serve_bare(listener))
        else:
            uvloop.run(_serve(listener, Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))


if __name__ == "__main__":
    main()
