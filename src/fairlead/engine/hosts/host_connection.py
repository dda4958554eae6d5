"""The server's end of the socket to one engine process: it sends records, and passes on each that arrives."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fairlead.engine.hosts.callbacks import CheckQuestions
from fairlead.engine.hosts.frames import BadFrameError, FrameReader, framed, read_from_host
from fairlead.engine.hosts.host_call import HostCall
from fairlead.engine.hosts.notes import TakeNote
from fairlead.engine.hosts.protocol import (
    TOLD_BYTES_MAX,
    Answer,
    ChildEnded,
    FromHost,
    Loading,
    Pong,
    Previewed,
    Ready,
    Said,
    ToHost,
    Told,
)

_TOLD_AHEAD_BYTES: Final = 2**20
_LONG_READ_BYTES: Final = 2**16


class HostConnection(asyncio.Protocol):
    """The socket to an engine process. `of_process` is told what it says of itself, and may raise BadFrameError.

    `kill` ends the process for a reason. `closed` is set when nothing more is said.
    """

    def __init__(
        self,
        folder: Path,
        note: TakeNote,
        of_process: "Callable[[Loading | Ready | Pong | ChildEnded], None]",
        kill: Callable[[str], None],
    ) -> None:
        self.closed: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self.folder = folder
        """Where the process may write files to be kept."""
        self.is_deaf = False
        """Whether nothing that is said is heard any more."""
        self._note = note
        self._of_process = of_process
        self._kill = kill
        self._reader: Final = FrameReader(2 * TOLD_BYTES_MAX)
        self._calls: Final[dict[str, HostCall]] = {}
        self._told_bytes = 0
        self._holds = 0
        """How many reasons there are to read nothing for now."""
        self._transport: asyncio.Transport | None = None
        self._pausing: asyncio.Task[None] | None = None

    async def connect(self, end: socket.socket) -> None:
        """Speak through a socket, which is closed with the connection."""
        self._transport, _ = await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=end)

    @property
    def is_held(self) -> bool:
        """Whether nothing is read for now, because somebody here has to catch up first."""
        return self._holds > 0

    @property
    def is_silent(self) -> bool:
        """Whether nothing that is said is heard any more, or nothing more is said."""
        return self.is_deaf or self.closed.done()

    def abort(self) -> None:
        """Close the socket, whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    async def settled(self, seconds: float) -> None:
        """Return when no order is open, or after some seconds."""
        if self._calls:
            await asyncio.wait([call.result for call in self._calls.values()], timeout=seconds)

    async def close_calls(self) -> None:
        """Close every open call; returns when none is answering a question any more."""
        if self._calls:
            await asyncio.gather(*(call.close() for call in self._calls.values()))

    def open(self, job: str, expected: tuple[type, ...], callbacks: CheckQuestions | None) -> HostCall:
        """Open the call for an order. The caller sends the order next."""
        self._calls[job] = call = HostCall(expected, callbacks, self.folder, self._note)
        return call

    def send(self, record: ToHost | Answer[object]) -> None:
        """Say something; a process that is gone hears nothing. FrameTooLargeError for too much."""
        frame = framed(record)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    # What is heard.

    def data_received(self, data: bytes) -> None:
        """Hear what the process says; one that says what it may not is ended."""
        if self.is_deaf:
            return
        told: dict[str, HostCall] = {}
        try:
            for content in self._reader.feed(data):
                self._hear(read_from_host(content), len(content), told)
        except BadFrameError as error:
            self.is_deaf = True
            self._kill(f"it said what it may not: {error}")
        for call in told.values():
            call.flush()
        if len(data) >= _LONG_READ_BYTES:
            self._let_others_run()
        if self._told_bytes > _TOLD_AHEAD_BYTES and self._pausing is None and told:
            self._pausing = asyncio.ensure_future(self._pause(list(told.values())))

    def _hear(self, record: FromHost, length: int, told: dict[str, HostCall]) -> None:
        if isinstance(record, Loading | Ready | Pong | ChildEnded):
            self._of_process(record)
            return
        call = self._calls.get(record.job)
        if call is None:
            raise BadFrameError("something about an order it does not have")
        call.hear(record, self.send)
        if isinstance(record, Told | Previewed | Said):
            told[record.job] = call
            self._told_bytes += length
        if call.result.done():
            del self._calls[record.job]

    async def _pause(self, calls: list[HostCall]) -> None:
        """Read nothing more until everybody has caught up: it is the process that then waits."""
        self._hold()
        try:
            for call in calls:
                await call.caught_up()
        finally:
            self._told_bytes, self._pausing = 0, None
            self._release()

    def _let_others_run(self) -> None:
        """Read on in the next round of the event loop: it would else read megabytes of one process at a time."""
        self._hold()
        asyncio.get_running_loop().call_soon(self._release)

    def pause_writing(self) -> None:
        """The process does not read what it is answered: hear no more questions until it does."""
        self._hold()

    def resume_writing(self) -> None:
        """The process has read on."""
        self._release()

    def _hold(self) -> None:
        self._holds += 1
        if self._holds == 1 and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def _release(self) -> None:
        self._holds -= 1
        if self._holds == 0 and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        """The socket is closed."""
        if not self.closed.done():
            self.closed.set_result(None)
