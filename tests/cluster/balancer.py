"""A load balancer that gives each request to the next server, whether that is ready or not, and repeats nothing.

It asks servers to close a connection after its first answer, which callers are told too, and names the caller; it
connects from an address of its own, which the servers know as that of a proxy.
"""

import asyncio
import itertools
import re
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")

_PIECE: Final = 64 * 1024
_CONNECT_SECONDS: Final = 5.0
_HEAD_BYTES_MAX: Final = 1 << 20
_HEAD_END: Final = b"\r\n\r\n"
_CONNECTION: Final = re.compile(rb"\r\nconnection:[^\r\n]*", re.IGNORECASE)
_UPGRADE: Final = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


class Balancer:
    """Passes requests to servers in turn, on a port of its own and in a thread of its own.

    Each request is a connection of its own, however long callers would keep theirs.
    """

    def __init__(self) -> None:
        self.address = "127.0.0.2"
        self._ports: list[int] = []
        self._turns = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="balancer")
        self._thread.start()
        self._listener: asyncio.Server = self._call(self._listen())
        self.url = f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    def add(self, port: int) -> None:
        """Know a server, which gets requests from now on."""
        self._ports.append(port)

    def stop(self) -> None:
        """Close every connection and end the thread; does nothing when it has ended."""
        if self._loop.is_closed():
            return
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._pass_on, "127.0.0.1", 0, backlog=1024, limit=_HEAD_BYTES_MAX)

    async def _close(self) -> None:
        self._listener.close()
        mine = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not mine:
                task.cancel()
        await asyncio.sleep(0)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self._ports[next(self._turns) % len(self._ports)]
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                their_reader, their_writer = await asyncio.open_connection(
                    "127.0.0.1", port, local_addr=(self.address, 0)
                )
        except OSError:  # TimeoutError is one
            writer.close()
            return
        try:
            await asyncio.gather(_send_one(reader, their_writer), _copy(their_reader, writer))
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            for end in (writer, their_writer):
                end.close()


async def _send_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on a request whose answer is to be the last of its connection, unless it becomes a socket."""
    try:
        head = await reader.readuntil(_HEAD_END)
    except asyncio.IncompleteReadError as error:
        head = error.partial
    except asyncio.LimitOverrunError:
        head = b""
    if head.endswith(_HEAD_END):
        added = b"X-Forwarded-For: 127.0.0.1\r\n"
        if not _UPGRADE.search(head):
            head = _CONNECTION.sub(b"", head)
            added += b"Connection: close\r\n"
        head = head.removesuffix(b"\r\n") + added + b"\r\n"
    writer.write(head)
    await _copy(reader, writer)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until one side has closed; then close the other."""
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    writer.close()
