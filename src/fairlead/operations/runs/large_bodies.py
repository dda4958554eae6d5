"""Large bodies of runs, read in processes of their own: what takes long in one must keep nobody else waiting (S-02).

Reading JSON and holding it against a schema keep the interpreter lock, so a thread would not do. A process reads a body
whole and strictly, and says what is wrong with it; the server goes on with its outline (documents/outline.py). A body
up to INLINE_BYTES is read where it is.
"""

import asyncio
import secrets
import socket
from typing import Any, Final

import msgspec

from fairlead.documents.examining import Examination, Examined
from fairlead.documents.outline import LargeDocument
from fairlead.documents.program import LENGTH
from fairlead.domain.catalog.models import Model
from fairlead.domain.faults import FaultError, InvalidInput, ServiceUnavailable, Violation
from fairlead.domain.runs.body import read_body
from fairlead.fair_shares import FairShares, NoRoomError
from fairlead.observing.observations import BodyReaderFailed, Observer
from fairlead.processes.child import Child, Program

INLINE_BYTES: Final = 256 * 1024
_PROGRAM: Final = Program("fairlead.documents.program", is_tied=True)
_WAITING_MAX: Final = 16
_WAIT_SECONDS: Final = 30.0
_READ_SECONDS: Final = 30.0
_BUSY: Final = "Too many large bodies are being read; try again soon."
_UNREADABLE: Final = "The request body cannot be read: it takes too long or too much memory."


class ReadBody(msgspec.Struct, frozen=True):
    """A body that was read: what it says, and of a `large` one what breaks the schema of its model."""

    value: dict[str, Any]
    violations: tuple[Violation, ...] | None = None
    large: LargeDocument | None = None


def read_short_body(content: bytes) -> ReadBody | None:
    """A body of at most INLINE_BYTES, read here and now; None for a larger one. FaultError for no clean JSON object."""
    return ReadBody(read_body(content)) if len(content) <= INLINE_BYTES else None


class _Reader:
    """One process, and our end of the line to it."""

    def __init__(self, child: Child, line: socket.socket) -> None:
        self.child = child
        self._line = line
        line.settimeout(0)  # the event loop waits for it

    async def examine(self, asked: Examination, content: bytes) -> Examined:
        """Have a body examined; ConnectionError where the process does not live to answer."""
        loop, question = asyncio.get_running_loop(), msgspec.json.encode(asked)
        for piece in (LENGTH.pack(len(question)), question, LENGTH.pack(len(content)), content):
            await loop.sock_sendall(self._line, piece)
        size = LENGTH.unpack(await self._exactly(LENGTH.size))[0]
        return msgspec.json.decode(await self._exactly(size), type=Examined)

    async def _exactly(self, size: int) -> bytes:
        loop, content = asyncio.get_running_loop(), bytearray()
        while len(content) < size:
            piece = await loop.sock_recv(self._line, min(size - len(content), 2**18))
            if not piece:
                raise ConnectionResetError
            content += piece
        return bytes(content)

    def is_alive(self) -> bool:
        """Whether the other end of the line is open, as it is until the process ends; nobody says anything unasked."""
        try:
            self._line.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self.child.is_ending
        except OSError:  # the connection was reset: its process has ended
            return False
        return False

    def end(self, reason: str) -> None:
        """End the process."""
        self._line.close()
        self.child.kill(reason)


class LargeBodies:
    """Reads bodies, large ones in at most so many `processes`, which are started when they are needed.

    A workspace has one of them at a time where there are several, so a crowd of its bodies keeps no other waiting. So
    many bodies are read at once, and few more may wait: with the largest body there is, that bounds what they take.
    """

    def __init__(self, processes: int, observe: Observer) -> None:
        self._observe = observe
        self._shares = FairShares(processes, _WAITING_MAX, max(1, processes - 1))
        self._idle: list[_Reader] = []
        self._readings = set[asyncio.Task[Examined]]()

    async def read(self, workspace_id: str, content: bytes, model: Model | None = None) -> ReadBody:
        """Read a body of a run of a model; FaultError for what is no clean JSON object, or has no room here.

        Without a model, it is held against no schema.
        """
        if (short := read_short_body(content)) is not None:
            return short
        schema = None if model is None else model.input_schema
        name = model.name if model is not None and schema is not None and schema.declares_model else None
        asked = Examination(secrets.token_hex(16), None if schema is None else schema.text, name)
        reading = asyncio.get_running_loop().create_task(self._examined(workspace_id, asked, content))
        self._readings.add(reading)
        reading.add_done_callback(self._readings.discard)
        found = await asyncio.shield(reading)  # a caller who leaves does not end a process that others will need
        if found.refusal is not None:
            raise FaultError(InvalidInput(found.refusal))
        large = found.document(content, asked.nonce)
        return ReadBody(large.with_texts(read_body(large.outline)), found.violations, large)

    async def close(self) -> None:
        """End the processes."""
        for reading in tuple(self._readings):
            reading.cancel()
        await asyncio.gather(*self._readings, return_exceptions=True)
        while self._idle:
            self._idle.pop().end("the server stops")

    async def _examined(self, workspace_id: str, asked: Examination, content: bytes) -> Examined:
        try:
            async with self._shares.place(workspace_id, _WAIT_SECONDS):
                return await self._by_reader(asked, content)
        except NoRoomError as error:
            raise FaultError(ServiceUnavailable(_BUSY, 1)) from error

    async def _by_reader(self, asked: Examination, content: bytes) -> Examined:
        """Have one process do it. What ends the process, or takes it too long, is refused and not tried again."""
        reader = await self._reader()
        try:
            async with asyncio.timeout(_READ_SECONDS):
                found = await reader.examine(asked, content)
        except (OSError, TimeoutError) as error:
            reader.end("it did not answer")
            self._observe(BodyReaderFailed(f"{type(error).__name__} while it read"))
            raise FaultError(InvalidInput(_UNREADABLE)) from error
        except BaseException:
            reader.end("its answer is wanted no more")
            raise
        self._idle.append(reader)
        return found

    async def _reader(self) -> _Reader:
        """A process that lives; FaultError where none can be started."""
        while self._idle:
            reader = self._idle.pop()
            if reader.is_alive():
                return reader
            reader.end("it has ended")
        try:
            return _Reader(*await Child.start_connected(_PROGRAM))
        except OSError as error:
            self._observe(BodyReaderFailed(f"{type(error).__name__} at its start"))
            raise FaultError(ServiceUnavailable(_BUSY, 1)) from error
