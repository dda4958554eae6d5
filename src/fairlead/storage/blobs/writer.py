"""Writes one blob: spooled to a file that only the server has open, hashed meanwhile, placed when it is complete."""

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from blake3 import blake3

from fairlead.storage.blobs.errors import BlobsUnavailableError, BlobTooLargeError
from fairlead.storage.blobs.local_files import discard, write_all, write_out

_BUFFER_BYTES: Final = 1024 * 1024
_PART_BYTES: Final = 2 * _BUFFER_BYTES
"""How much is written out to the disk at a time, while the next part is written."""


class SpooledWriter:
    """Writes one blob: gathered in memory up to a mebibyte, hashed and spooled by threads, placed by `commit`.

    While a thread has a mebibyte the next one is gathered; a writer that is faster than the disk waits for it then.
    `place` makes a spooled file the blob of a name.
    """

    def __init__(self, place: Callable[[Path, str], Awaitable[None]], spool: Path, limit: int) -> None:
        self._place = place
        self._folder = spool
        self._limit = limit
        self._size = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._digest = blake3()
        self._file: Any = None
        self._spooled = self._written_out = 0
        self._busy: asyncio.Future[None] | None = None
        self._name: str | None = None

    async def write(self, chunk: bytes) -> None:
        """Take more bytes; BlobTooLargeError, BlobsUnavailableError."""
        self._size += len(chunk)
        if self._size > self._limit:
            raise BlobTooLargeError(f"more than {self._limit} bytes")
        # A file that is written at once is made durable at once, and commits of the database would wait for that.
        for start in range(0, len(chunk), _BUFFER_BYTES):
            piece = chunk[start : start + _BUFFER_BYTES]
            self._waiting.append(bytes(piece))
            self._waiting_bytes += len(piece)
            if self._waiting_bytes >= _BUFFER_BYTES:
                await self._hand_over(durably=False)

    async def finish(self) -> tuple[str, Path]:
        """Take no more; the blob's name, and where it can be read until `commit` or `abort`. BlobsUnavailableError."""
        if self._name is None:
            await self._hand_over(durably=True)
            await self._thread()
            self._name = self._digest.hexdigest()
        return self._name, Path(self._file.name)

    async def commit(self) -> str:
        """Make the blob whole, durable and visible, and return its name; BlobsUnavailableError."""
        name, spooled = await self.finish()
        await self._place(spooled, name)
        await self.abort()
        return name

    async def abort(self) -> None:
        """Discard what was written."""
        if self._busy is not None:
            await asyncio.wait([self._busy])  # a thread still writes: closing under it would be a race
            self._busy.exception()  # retrieve the exception, which would otherwise be logged
        if self._file is not None:
            file, self._file = self._file, None
            await asyncio.to_thread(discard, file)

    async def _hand_over(self, *, durably: bool) -> None:
        """Pass what was gathered to a thread, once it has written what it had before."""
        await self._thread()
        chunks, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._busy = asyncio.get_running_loop().run_in_executor(None, self._spool, chunks, durably)

    async def _thread(self) -> None:
        if self._busy is None:
            return
        try:
            # The thread goes on whatever becomes of the caller, and `abort` must be able to wait for it.
            await asyncio.shield(self._busy)
        except OSError as error:
            raise BlobsUnavailableError(str(error)) from error

    def _spool(self, chunks: Sequence[bytes], durably: bool) -> None:  # noqa: FBT001 -- run_in_executor has no keywords
        if self._file is None:
            self._file = tempfile.NamedTemporaryFile("wb", buffering=0, dir=self._folder, delete=False)  # noqa: SIM115 -- it outlives this call
        whole = b"".join(chunks)  # one step each: between steps a thread waits until the event loop lets it go on
        self._digest.update(whole)
        write_all(self._file, whole)
        self._spooled += len(whole)
        if durably:
            os.fsync(self._file.fileno())
        elif self._spooled - self._written_out >= _PART_BYTES:
            write_out(self._file.fileno(), self._written_out, self._spooled)
            self._written_out = self._spooled
