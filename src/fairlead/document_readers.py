"""Large documents are read in separate processes, so that one that takes long blocks nobody else (S-02).

Parsing and validating JSON hold the interpreter lock, so a thread would not help. A process reads a whole document and
answers what the server asks about it (documents/examining.py). A document of up to INLINE_BYTES is read in the server,
by the same rules.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from fairlead.documents.examining import FoundMembers, OfSubmission, Question
from fairlead.documents.members import BadDocumentError, Members, Wanted, members_of
from fairlead.documents.program import LENGTH
from fairlead.fair_shares import FairShares, NoRoomError
from fairlead.processes.child import Child, Program

INLINE_BYTES: Final = 256 * 1024
_PROGRAM: Final = Program("fairlead.documents.program", is_tied=True)
_READ_SECONDS: Final = 30.0
_PIECE_BYTES: Final = 2**18
_JOINED_BYTES: Final = 2**20
_NICENESS: Final = 10

F = TypeVar("F")


class NoReaderError(Exception):
    """No process can read the document now; it may be tried again."""


class UnreadableDocumentError(Exception):
    """The process that read the document ended, or took too long: it is not tried again."""


class _Reader:
    """One process, and our end of the connection to it."""

    def __init__(self, child: Child, line: socket.socket) -> None:
        self.child = child
        self._line = line
        line.settimeout(0)  # the event loop waits for it

    async def ask(self, question: bytes, content: bytes) -> tuple[bytes, Sequence[bytes]]:
        """What is found of a document, and parts of it; ConnectionError where the process ends before it answers."""
        loop = asyncio.get_running_loop()
        for message in (LENGTH.pack(len(question)), question, LENGTH.pack(len(content)), content):
            whole = memoryview(message)
            for start in range(0, len(message), _PIECE_BYTES):
                await loop.sock_sendall(self._line, whole[start : start + _PIECE_BYTES])
                await asyncio.sleep(0)  # without this, a fast reader would never let other tasks run
        found = await self._message()
        return found, [await self._message() for _ in range(await self._number())]

    async def _message(self) -> bytes:
        return await self._exactly(await self._number())

    async def _number(self) -> int:
        number: int = LENGTH.unpack(await self._exactly(LENGTH.size))[0]
        return number

    async def _exactly(self, size: int) -> bytes:
        loop, pieces, left = asyncio.get_running_loop(), list[bytes](), size
        while left:
            piece = await loop.sock_recv(self._line, min(left, _PIECE_BYTES))
            if not piece:
                raise ConnectionResetError
            pieces.append(piece)
            left -= len(piece)
            if left:
                await asyncio.sleep(0)
        if size <= _JOINED_BYTES:
            return b"".join(pieces)
        return await asyncio.to_thread(b"".join, pieces)  # without the interpreter lock

    def is_alive(self) -> bool:
        """Whether the socket is open, as it is until the process ends; the process sends nothing unasked."""
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


class DocumentReaders:
    """Reads large documents in at most so many `processes`, which are started when they are needed.

    Where there are several, an owner, such as a workspace, has one of them at a time, so that its documents do not hold
    up those of others. At most `waiting_max` documents wait, each for `wait_seconds` at most: with the size of the
    largest document, that bounds the memory they take. `report` is called with the reason when a process fails.
    """

    def __init__(
        self, processes: int, report: Callable[[str], None], waiting_max: int = 16, wait_seconds: float | None = 30.0
    ) -> None:
        self._report = report
        self._wait_seconds = wait_seconds
        self._shares = FairShares(processes, waiting_max, max(1, processes - 1))
        self._idle: list[_Reader] = []
        self._readings = set[asyncio.Task[tuple[bytes, Sequence[bytes]]]]()

    async def ask(
        self, owner_id: str, question: Question, content: bytes, finding: type[F]
    ) -> tuple[F, Sequence[bytes]]:
        """What is found of a document, and the parts of it that were wanted; NoReaderError, UnreadableDocumentError."""
        asked = msgspec.json.encode(question)
        reading = asyncio.get_running_loop().create_task(self._read(owner_id, asked, content))
        self._readings.add(reading)
        reading.add_done_callback(self._readings.discard)
        found, parts = await asyncio.shield(reading)  # a caller that leaves does not end a process that others need
        return msgspec.json.decode(found, type=finding), parts

    async def members(self, owner_id: str, content: bytes, wanted: Wanted) -> Members:
        """Some members of a document, whatever its size; BadDocumentError, NoReaderError, UnreadableDocumentError."""
        if len(content) <= INLINE_BYTES:
            return members_of(content, wanted)
        found, parts = await self.ask(owner_id, OfSubmission(wanted), content, FoundMembers)
        if found.refusal is not None:
            raise BadDocumentError(found.refusal, is_too_deep=found.is_too_deep)
        names = [name for name, has in zip(wanted.names, found.has, strict=True) if has]
        lists = frozenset(place for place, has in zip(wanted.lists, found.lists, strict=True) if has)
        return Members(dict(zip(names, parts, strict=True)), lists)

    async def close(self) -> None:
        """End the processes."""
        for reading in tuple(self._readings):
            reading.cancel()
        await asyncio.gather(*self._readings, return_exceptions=True)
        idle, self._idle = self._idle, []
        for reader in idle:
            reader.end("the server stops")
        await asyncio.gather(*(reader.child.end("the server stops") for reader in idle))

    async def _read(self, owner_id: str, question: bytes, content: bytes) -> tuple[bytes, Sequence[bytes]]:
        try:
            async with self._shares.place(owner_id, self._wait_seconds):
                return await self._by_reader(question, content)
        except NoRoomError as error:
            raise NoReaderError from error

    async def _by_reader(self, question: bytes, content: bytes) -> tuple[bytes, Sequence[bytes]]:
        """Let one process do it. A document that ends the process or takes too long is not tried again."""
        reader = await self._reader()
        try:
            async with asyncio.timeout(_READ_SECONDS):
                found = await reader.ask(question, content)
        except (OSError, TimeoutError) as error:
            reader.end("it did not answer")
            self._report(f"{type(error).__name__} while it read")
            raise UnreadableDocumentError from error
        except BaseException:
            reader.end("its answer is wanted no more")
            raise
        self._idle.append(reader)
        return found

    async def _reader(self) -> _Reader:
        """A running process; NoReaderError where none can be started."""
        while self._idle:
            reader = self._idle.pop()
            if reader.is_alive():
                return reader
            reader.end("it has ended")
        try:
            child, line = await Child.start_connected(_PROGRAM)
        except OSError as error:
            self._report(f"{type(error).__name__} at its start")
            raise NoReaderError from error
        child.tree.give_way(_NICENESS)
        return _Reader(child, line)
