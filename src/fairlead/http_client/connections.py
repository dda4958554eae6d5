"""One connection to a partner: it sends one request at a time and reads its answer."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias, cast

from fairlead.http_client.answers import AnswerReader
from fairlead.http_client.outcomes import SUCCESS, BrokenOffError, Reply, TooSlowError, TransportError, UnreachableError
from fairlead.http_client.targets import Origin

Sink: TypeAlias = Callable[[bytes], Awaitable[None] | None]
Place: TypeAlias = tuple[Origin, bool]

_SLICE: Final = 64 * 1024
_READ_AHEAD: Final = 256 * 1024
_TAKEN_BYTES: Final = 4 * 2**20
"""A larger body is taken by a thread."""
_CUT: Final = "the connection was closed before the answer was complete"


class Request(NamedTuple):
    """A request as it is sent; `head` is whole, `is_bodyless` where the answer has no body whatever its headers say."""

    head: bytes
    content: bytes | None
    is_bodyless: bool


class Received(NamedTuple):
    """An answer whose body went to a sink: `size` bytes of it."""

    status: int
    headers: dict[str, str]
    size: int


class Connection(asyncio.Protocol):
    """A connection from its opening to its loss; `lost` is called once, at its end.

    A request that ends in anything but a whole answer closes it. `loop` is the one it lives in; `place` is its origin,
    and whether its address was checked; `was_heard` says whether a byte of the current answer has arrived; its owner
    sets `idle_since`, in seconds of the loop's time.
    """

    __slots__ = (
        "_busy",
        "_fault",
        "_held_back",
        "_is_bodyless",
        "_limit",
        "_lost",
        "_reader",
        "_reading",
        "_streams",
        "_transport",
        "_unsent",
        "_waiter",
        "idle_since",
        "loop",
        "place",
        "was_heard",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, place: Place, lost: "Callable[[Connection], None]") -> None:
        self.loop = loop
        self.place = place
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None  # made when the first byte arrives: a waiting call must stay small
        self._waiter: asyncio.Future[None] | None = None
        self._fault: TransportError | None = None
        self._busy = self._held_back = self._streams = self._unsent = self.was_heard = False
        self._reading = True
        self._limit = 0
        self._is_bodyless = False
        self.idle_since = 0.0

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent, as far as is known here."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def may_be_kept(self) -> bool:
        """Whether the last answer left the connection such that another request can follow."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._reader is not None
            and self._reader.keeps_alive
            and not self._unsent
            and not self._transport.get_write_buffer_size()
        )

    async def ask(self, request: Request, *, limit: int) -> Reply:
        """Send a request and read its answer, with a body of at most `limit` bytes.

        The caller bounds the time (`expire`). UnreachableError where the connection was closed before; BrokenOffError
        as it says.
        """
        try:
            if not self._begin(request, limit, streams=False):
                await self._send_slices(request)
            while (reader := self._reader) is None or not reader.complete:
                await self._change()
            content = await asyncio.to_thread(reader.take) if reader.size > _TAKEN_BYTES else reader.take()
        except BaseException:
            self.abort()
            self._finish()
            raise
        self._busy = False
        return Reply(reader.status, reader.headers, content)

    async def stream(self, request: Request, *, limit: int, sink: Sink) -> Received:
        """Send a request and hand the body of a success to a sink, piece by piece, in its own time.

        The body of any other answer is not read, and neither is more than 256 KiB ahead of the sink. The caller bounds
        the time. BrokenOffError as it says; what the sink raises goes through.
        """
        try:
            if not self._begin(request, limit, streams=True):
                await self._send_slices(request)
            return await self._drain_into(sink)
        except BaseException:
            self.abort()
            raise
        finally:
            self._finish()

    def expire(self, seconds: float) -> None:
        """End a request whose time is up with TooSlowError, unless its answer is complete."""
        if self._busy and self._fault is None and not (self._reader is not None and self._reader.complete):
            self._fail(TooSlowError(f"no answer within {seconds:g} s"))

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not its subclasses

    def data_received(self, data: bytes) -> None:
        """Read on; bytes that answer nothing end the connection."""
        reader = self._reader
        if not self._busy or self._fault is not None or (reader is not None and reader.complete):
            self.abort()
            return
        self.was_heard = True
        if reader is None:
            reader = self._reader = AnswerReader(self._limit, is_bodyless=self._is_bodyless)
        try:
            reader.feed(data)
        except BrokenOffError as error:
            self._fail(error)
        else:
            if reader.complete:
                self._wake()
            elif self._streams:
                self._hold_back_reading(reader)
                self._wake()
            elif len(data) >= _SLICE and self._reading and self._transport is not None:
                # The event loop would read on for as long as there is more, which may be megabytes.
                self._reading = False
                self._transport.pause_reading()
                self.loop.call_soon(self._read_on)

    def eof_received(self) -> None:
        """The partner closed its side; over TLS that counts only with a close_notify."""
        reader = self._reader
        if not self._busy or self._fault is not None or (reader is not None and reader.complete):
            return
        if reader is None or not _is_authentic_end(self._transport):
            self._fail(BrokenOffError(_CUT))
            return
        try:
            reader.end()
        except BrokenOffError as error:
            self._fail(error)
        else:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the waiting request."""
        if self._busy and self._fault is None and not (self._reader is not None and self._reader.complete):
            self._fail(BrokenOffError(str(exc or "") or _CUT))
        if self._reader is not None:
            self._reader.close()
        self._lost(self)

    def pause_writing(self) -> None:
        """The partner takes no more for now."""
        self._held_back = True

    def resume_writing(self) -> None:
        """The partner takes more."""
        self._held_back = False
        self._wake()

    def _begin(self, request: Request, limit: int, *, streams: bool) -> bool:
        """Write the head of a request, and with it a body that is small; False where the body is still to be sent."""
        self._busy, self._streams = True, streams
        self.was_heard = self._unsent = False
        self._limit, self._is_bodyless = limit, request.is_bodyless
        if self._reader is not None:
            self._reader.expect(limit, is_bodyless=request.is_bodyless)
        transport = self._transport
        if transport is None or transport.is_closing():
            raise UnreachableError("the connection was closed before anything was sent")
        content = request.content
        is_small = content is None or len(content) <= _SLICE
        transport.write(request.head + content if content and is_small else request.head)
        return is_small

    def _finish(self) -> None:
        """Become idle; a stored error would, by its traceback, keep this object until the garbage collector runs."""
        self._busy = False
        self._fault = None

    async def _send_slices(self, request: Request) -> None:
        """Write a large body slice by slice, as far as the partner takes it before it answers."""
        transport = self._transport
        rest = memoryview(request.content or b"")
        self._unsent = True
        while (
            rest
            and transport is not None
            and not transport.is_closing()
            and not (self._reader is not None and self._reader.complete)
        ):
            if self._held_back:
                await self._change()
            else:
                transport.write(rest[:_SLICE])
                rest = rest[_SLICE:]
                await asyncio.sleep(0)  # without this, a fast partner would never let other tasks run
        self._unsent = bool(rest)

    async def _drain_into(self, sink: Sink) -> Received:
        while self._reader is None or self._reader.status == 0:
            await self._change()
        reader = self._reader
        if reader.status not in SUCCESS:
            self.abort()
            return Received(reader.status, reader.headers, 0)
        while not reader.complete or reader.waiting:
            if piece := reader.take():
                stored = sink(piece)
                if stored is not None:
                    await stored
            else:
                self._read_on()
                await self._change()
        self._read_on()
        return Received(reader.status, reader.headers, reader.size)

    def _change(self) -> asyncio.Future[None]:
        """What to wait for until something has changed; raises what has ended the request, where that has happened."""
        if self._fault is not None:
            raise self._fault
        self._waiter = self.loop.create_future()
        return self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: TransportError) -> None:
        error.status = None if self._reader is None else self._reader.status or None
        self._fault = error
        self.abort()
        self._wake()

    def _hold_back_reading(self, reader: AnswerReader) -> None:
        if self._reading and reader.waiting >= _READ_AHEAD and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _read_on(self) -> None:
        if not self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()


def _is_authentic_end(transport: asyncio.Transport | None) -> bool:
    """Whether the partner itself ended the connection.

    Under TLS an attacker can send a bare FIN, which would truncate a body without a length.
    """
    tls = None if transport is None else transport.get_extra_info("ssl_object")
    if tls is None:
        return True
    try:
        return bool(tls.read(1) == b"")
    except ssl.SSLZeroReturnError:
        return True
    except ssl.SSLError:  # no close_notify has come: the read would wait for more
        return False
