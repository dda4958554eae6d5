"""The one place that opens connections to partners. Every failure becomes one of three errors of our own.

Redirects are never followed (they would carry our credentials along), encodings are declined, no cookie is kept, no
proxy is taken from the environment, every wait and every body has a bound.
"""

import asyncio
import functools
import math
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from fairlead.clock import Deadlines
from fairlead.http_client.addresses import AddressBook, IPAddress, Resolver, is_public, resolve
from fairlead.http_client.connections import Connection, Place, Received, Request, Sink
from fairlead.http_client.outcomes import BrokenOffError, Reply, TooSlowError, TransportError, UnreachableError
from fairlead.http_client.targets import Target, read_target

__all__ = ["BrokenOffError", "Received", "TooSlowError", "Transport", "TransportError", "UnreachableError"]

_CONNECT_SECONDS: Final = 10.0
_ADDRESS_SECONDS: Final = 2.5
_ADDRESSES_MOST: Final = 6
_CLOSE_SECONDS: Final = 5.0
_IDLE_SECONDS: Final = 50.0
_IDLE_MOST: Final = 1024
_SWEEP_SECONDS: Final = 5.0
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEAD_MAX: Final = 64 * 1024
# Headers that frame a message or belong to one connection are set here; encodings are declined, because none is read.
_OURS: Final = frozenset({
    "accept-encoding", "connection", "content-length", "expect", "host", "keep-alive", "proxy-connection", "te",
    "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
_REPEATABLE: Final = frozenset({"GET", "HEAD"})
# Node, uvicorn and Apache close a connection that was idle for five seconds. A POST that crosses with such a close is
# lost, and nobody may repeat it; a GET is repeated.
_FRESH_SECONDS: Final = 4.0


class Pool:
    """The open connections, and the idle ones of them, by their place."""

    def __init__(self) -> None:
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}  # the one idle longest comes first, here and in each place
        self._places: dict[Place, dict[Connection, None]] = {}
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed: asyncio.Event | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is to be opened."""
        return self._closed is not None

    def watch(self, connection: Connection) -> None:
        """Add an open connection, so that it can be closed with the others."""
        self._open.add(connection)

    def take(self, place: Place, now: float, within: float) -> Connection | None:
        """The connection of a place that was used last, if it has been idle for `within` seconds or less."""
        idle = self._places.get(place)
        while idle:
            connection = next(reversed(idle))
            if now - connection.idle_since > within:
                return None
            del idle[connection], self._idle[connection]
            if connection.is_open:
                return connection
        return None

    def put(self, connection: Connection) -> None:
        """Keep a connection for the next request, or close it where it cannot be kept.

        Where too many are idle, the one idle longest has to go.
        """
        if self._closed is not None or not connection.may_be_kept:
            connection.abort()
            return
        if len(self._idle) >= _IDLE_MOST:
            self._close_oldest()
        connection.idle_since = connection.loop.time()
        self._idle[connection] = None
        self._places.setdefault(connection.place, {})[connection] = None
        if self._sweeping is None:
            self._sweeping = connection.loop.call_later(_SWEEP_SECONDS, self._sweep)

    def forget(self, connection: Connection) -> None:
        """Remove a connection that was closed."""
        self._open.discard(connection)
        if connection in self._idle:
            del self._idle[connection], self._places[connection.place][connection]
        if self._closed is not None and not self._open:
            self._closed.set()

    async def close(self, seconds: float) -> None:
        """Close every connection, and wait at most so long until they are."""
        self._closed = asyncio.Event()
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in list(self._open):
            connection.abort()
        if self._open:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._closed.wait()

    def _close_oldest(self) -> None:
        connection = next(iter(self._idle))
        del self._idle[connection], self._places[connection.place][connection]
        connection.abort()

    def _sweep(self) -> None:
        """Close what has been idle for too long, and look again later while anything is idle."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - _IDLE_SECONDS
        while self._idle and next(iter(self._idle)).idle_since <= oldest:
            self._close_oldest()
        self._places = {place: idle for place, idle in self._places.items() if idle}
        self._sweeping = loop.call_later(_SWEEP_SECONDS, self._sweep) if self._idle else None


class Transport:
    """A pool of connections to partners, for one event loop.

    `trusted` are addresses an operator wrote: a guarded request may go to their hosts and ports, wherever those are.
    Any other guarded request goes only where `allows` agrees to every address that `resolver` finds.
    `trust` makes the TLS settings when they are first needed.
    """

    def __init__(
        self,
        *,
        trusted: Iterable[str] = (),
        allows: Callable[[IPAddress], bool] = is_public,
        resolver: Resolver = resolve,
        trust: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._book = AddressBook(resolver, allows, trusted)
        self._trust = trust
        self._tls: ssl.SSLContext | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pool = Pool()
        self._deadlines = Deadlines()

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        *,
        seconds: float,
        limit: int,
        guarded: bool = False,
    ) -> Reply:
        """Make one request and read the whole answer: within `seconds`, `limit` in bytes.

        A `guarded` request is for addresses that an operator did not write. Raises the errors of this module.
        """
        target = read_target(method, url)
        request = Request(write_head(target, headers, content), content, method == "HEAD")
        place = (target.origin, guarded and not self._book.trusts(target))
        repeatable = method in _REPEATABLE
        loop = self._loop or self._adopt_loop()
        started = loop.time()
        connection = self._pool.take(place, started, math.inf if repeatable else _FRESH_SECONDS)
        if connection is not None:
            deadline = self._deadlines.begin(loop, seconds, connection.expire)
            try:
                reply = await connection.ask(request, limit=limit)
            except BrokenOffError:
                if connection.was_heard or not repeatable:
                    raise
            else:
                self._pool.put(connection)
                return reply
            finally:
                deadline.cancel()
        connection = await self._connect(target, place, seconds + started - loop.time())
        # What is left of the time differs from one connection to the next, so these waits cannot share a timer.
        timer = loop.call_later(seconds + started - loop.time(), connection.expire, seconds)
        try:
            reply = await connection.ask(request, limit=limit)
        finally:
            timer.cancel()
        self._pool.put(connection)
        return reply

    async def fetch(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        seconds: float,
        limit: int,
        sink: Sink,
        guarded: bool = True,
    ) -> Received:
        """Bring a body of any size to a sink, which is given pieces of bytes and may be a coroutine function.

        Only the body of a success goes there; another answer has size 0. Everything, the sink's own time included,
        within `seconds`; `limit` in bytes. After an error the sink may have a part: throw it away.
        Raises the errors of this module, and what the sink raises.
        """
        target = read_target("GET", url)
        request = Request(write_head(target, headers, None), None, is_bodyless=False)
        place = (target.origin, guarded and not self._book.trusts(target))
        connection = self._pool.take(place, (self._loop or self._adopt_loop()).time(), _FRESH_SECONDS)
        scope = asyncio.timeout(seconds)
        try:
            async with scope:
                connection = connection or await self._connect(target, place, seconds)
                received = await connection.stream(request, limit=limit, sink=sink)
        except TimeoutError as error:
            if scope.expired():
                raise TooSlowError(f"no whole answer within {seconds:g} s") from error
            raise
        self._pool.put(connection)
        return received

    async def close(self) -> None:
        """Close every connection; a request under way ends in BrokenOffError."""
        await self._pool.close(_CLOSE_SECONDS)

    async def _connect(self, target: Target, place: Place, seconds: float) -> Connection:
        """Open a connection to the first address that answers; UnreachableError when none does."""
        if self._pool.is_closed:
            raise UnreachableError("the transport is closed")
        within = min(seconds, _CONNECT_SECONDS)
        scope = asyncio.timeout(within)
        try:
            async with scope:
                return await self._reach(target, place)
        except TimeoutError as error:
            if not scope.expired():
                raise UnreachableError(f"{target.host}: {error}") from error
            raise UnreachableError(f"{target.host}: no connection within {within:g} s") from error
        except (OSError, ValueError) as error:
            raise UnreachableError(f"{target.host}: {error}") from error

    async def _reach(self, target: Target, place: Place) -> Connection:
        """Try the addresses one after another; only the last may take all the time that is left."""
        addresses = (await self._book.look_up(target, guarded=place[1]))[:_ADDRESSES_MOST]
        failure: OSError = OSError("no address")
        for number, address in enumerate(addresses, 1):
            try:
                async with asyncio.timeout(_ADDRESS_SECONDS if number < len(addresses) else None):
                    return await self._open(target, place, address)
            except OSError as error:  # a timeout is one
                failure = error
        self._book.forget(target)
        raise failure

    async def _open(self, target: Target, place: Place, address: str) -> Connection:
        """Connect to the very address that was checked; the name is only for the certificate."""
        loop = self._loop or self._adopt_loop()
        connection = Connection(loop, place, self._pool.forget)
        try:
            if target.is_secure:
                await loop.create_connection(
                    lambda: connection,
                    address,
                    target.port,
                    ssl=self._tls or self._build_tls(),
                    server_hostname=target.host,
                    ssl_handshake_timeout=_CONNECT_SECONDS,
                )
            else:
                await loop.create_connection(lambda: connection, address, target.port)
        except BaseException:
            connection.abort()  # a cancellation that crosses with the success of what it cancels would leave it open
            raise
        if not connection.is_open:
            raise ConnectionResetError("the connection was closed at once")
        self._pool.watch(connection)
        return connection

    def _adopt_loop(self) -> asyncio.AbstractEventLoop:
        """Remember the loop: until Python 3.12, asking for the running one is a system call each time."""
        self._loop = asyncio.get_running_loop()
        return self._loop

    def _build_tls(self) -> ssl.SSLContext:
        """Read the trusted certificates once, when TLS is first used."""
        self._tls = self._trust()
        self._tls.set_alpn_protocols(["http/1.1"])
        return self._tls


def write_head(target: Target, headers: Mapping[str, str], content: bytes | None) -> bytes:
    """The whole head of a request.

    UnreachableError, before anything is sent, for a header that callers may not set, a malformed name, a value with
    anything but printable ASCII, or more than 64 KiB. The error never shows a value: it may be a credential.
    """
    lines = [target.opening]
    names_agent = False
    for name, value in headers.items():
        beginning, is_agent = _header(name)
        names_agent = names_agent or is_agent
        if not (value.isascii() and value.isprintable()):
            raise UnreachableError(f"the value of the header {name} has characters that no header has")
        lines.append(beginning + value)
    if not names_agent:
        lines.append("User-Agent: fairlead")
    if content is not None:
        lines.append(f"Content-Length: {len(content)}")
    lines.append("\r\n")
    head = "\r\n".join(lines).encode("ascii")
    if len(head) > _HEAD_MAX:
        raise UnreachableError(f"the request's headers pass {_HEAD_MAX} bytes")
    return head


@functools.lru_cache(maxsize=512)
def _header(name: str) -> tuple[str, bool]:
    """How the line of a header begins, and whether it says who we are."""
    lower = name.lower()
    if not _NAME.fullmatch(name) or lower in _OURS:
        raise UnreachableError(f"{name[:64]!r} is not a header a request may bring along")
    return f"{name}: ", lower == "user-agent"
