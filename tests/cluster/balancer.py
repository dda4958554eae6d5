"""A load balancer of TCP connections: it asks servers whether they are ready, and repeats nothing.

A server that answers 503 on `/readyz` gets no new connection and keeps those it has, until it closes them: it drains.
One that does not answer at all is cut off, as proxies do with a host that is down, so that callers can try again.
Where it balances requests, it asks servers to close a connection after its first answer, which callers are told too,
and names the caller; it connects from an address of its own then, which the servers know as that of a proxy.
"""

import asyncio
import itertools
import re
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.1
_ANSWER_SECONDS: Final = 2.0
_PIECE: Final = 64 * 1024
_CONNECT_SECONDS: Final = 5.0
_HEAD_BYTES_MAX: Final = 1 << 20
_HEAD_END: Final = b"\r\n\r\n"
_CONNECTION: Final = re.compile(rb"\r\nconnection:[^\r\n]*", re.IGNORECASE)
_UPGRADE: Final = re.compile(rb"\r\nupgrade:", re.IGNORECASE)


class Balancer:
    """Passes connections to servers in turn, on a port of its own and in a thread of its own.

    With `per_request` each request is a connection of its own, however long callers would keep theirs.
    """

    def __init__(self, *, per_request: bool = False) -> None:
        self._per_request = per_request
        self.address = "127.0.0.2" if per_request else "127.0.0.1"
        self._backends: dict[int, _Backend] = {}
        self._turns = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="balancer")
        self._thread.start()
        self._listener: asyncio.Server = self._call(self._listen())
        self.url = f"http://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    def add(self, port: int, *, is_watched: bool = True) -> None:
        """Know a server, which gets connections while it says that it is ready, or always where nobody watches it."""
        self._call(self._know(_Backend(port), is_watched=is_watched))

    def remove(self, port: int) -> None:
        """Forget a server that has ended."""
        self._call(self._forget(port))

    def is_ready(self, port: int) -> bool:
        """Whether a server gets new connections."""
        backend = self._backends.get(port)
        return backend is not None and backend.is_ready

    def stop(self) -> None:
        """Close every connection and end the thread; does nothing when it has ended."""
        if self._loop.is_closed():
            return
        for port in list(self._backends):
            self.remove(port)
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

    async def _know(self, backend: "_Backend", *, is_watched: bool) -> None:
        self._backends[backend.port] = backend
        backend.is_ready = not is_watched
        if is_watched:
            backend.watch = asyncio.ensure_future(self._look_after(backend))

    async def _forget(self, port: int) -> None:
        backend = self._backends.pop(port)
        if backend.watch is not None:
            backend.watch.cancel()
        backend.cut_off()

    async def _look_after(self, backend: "_Backend") -> None:
        while True:
            status = await _status_of(backend.port)
            backend.is_ready = status == b"200"
            if status is None:
                backend.cut_off()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = [backend for backend in self._backends.values() if backend.is_ready]
        if not ready:
            writer.close()
            return
        backend = ready[next(self._turns) % len(ready)]
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                their_reader, their_writer = await asyncio.open_connection(
                    "127.0.0.1", backend.port, local_addr=(self.address, 0)
                )
        except OSError:  # TimeoutError is one
            writer.close()
            return
        there = _send_one(reader, their_writer) if self._per_request else _copy(reader, their_writer)
        directions = asyncio.gather(there, _copy(their_reader, writer))
        backend.connections.add(directions)
        try:
            await directions
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            backend.connections.discard(directions)
            for end in (writer, their_writer):
                end.close()


class _Backend:
    """A server, whether it is ready, and the connections that lead to it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.is_ready = False
        self.connections = set[asyncio.Future[Any]]()
        self.watch: asyncio.Task[None] | None = None

    def cut_off(self) -> None:
        """Break every connection to it."""
        for connection in list(self.connections):
            connection.cancel()


@contextmanager
def balancing() -> Iterator[Balancer]:
    """Run a balancer, and stop it whatever happens."""
    balancer = Balancer()
    try:
        yield balancer
    finally:
        balancer.stop()


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


async def _status_of(port: int) -> bytes | None:
    """The status that a server answers on `/readyz`; None where it does not answer in time."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                line = await reader.readline()
            finally:
                writer.close()
    except OSError:  # TimeoutError is one
        return None
    return line.split(b" ")[1] if line.startswith(b"HTTP/") else None
