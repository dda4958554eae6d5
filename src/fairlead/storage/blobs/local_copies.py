"""Copies on this machine of blobs that are kept elsewhere, for programs that read files: a bounded folder."""

import asyncio
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

_BYTES_MAX: Final = 8 * 2**30
_MODE: Final = 0o400
_USES_MOST: Final = 16_384
"""How many copies are known to have been used since they were made."""


class LocalCopies:
    """A folder of copies, of at most `limit` bytes: the least recently used are removed.

    The newest stays whatever its size. A copy may be removed while it is read, which does not affect an open file.
    When a copy was used is kept in memory, and after a start it counts from when it was made. It is not written to the
    file: whoever reads that compares its times, to notice what changes it meanwhile (reading.py).
    """

    def __init__(self, folder: Path, limit: int = _BYTES_MAX) -> None:
        self._folder = folder
        self._limit = limit
        self._total: int | None = None
        """How many bytes there are as far as this process knows: the folder is looked through only when it is full."""
        self._uses: OrderedDict[str, float] = OrderedDict()
        """When copies were last used, in seconds since 1970; the longest unused first."""
        self._lock = threading.Lock()

    async def path(self, name: str, size: int, content: Callable[[], AsyncIterator[bytes]]) -> Path:
        """The copy of a blob, made of its bytes where there is none of that size; OSError, and what the bytes raise."""
        path = self._folder / name
        if not await asyncio.to_thread(_is_whole, path, size):
            await self._write(path, content())
            await asyncio.to_thread(self._make_room, path, size)
        self._note_use(name)
        return path

    def _note_use(self, name: str) -> None:
        self._uses[name] = time.time()
        self._uses.move_to_end(name)
        if len(self._uses) > _USES_MOST:
            self._uses.popitem(last=False)

    async def _write(self, path: Path, content: AsyncIterator[bytes]) -> None:
        """Write beside the copy and move it into its place: several may do so at once."""
        file = await asyncio.to_thread(_new_file, self._folder)
        try:
            with file:
                async for chunk in content:
                    await asyncio.to_thread(file.write, chunk)
            await asyncio.to_thread(_place, file.name, path)
        finally:
            await asyncio.to_thread(Path(file.name).unlink, missing_ok=True)  # where it was not moved

    def _make_room(self, newest: Path, size: int) -> None:
        """Count a copy that was made, and remove others where there are too many bytes."""
        with self._lock:
            if self._total is not None:
                self._total += size
            if self._total is None or self._total > self._limit:
                self._total = self._shrink(newest)

    def _shrink(self, newest: Path) -> int:
        """Remove the least recently used copies; returns how many bytes are left."""
        found = []
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another has removed it
                told = path.stat()
                used = self._uses.get(path.name, 0.0)
                found.append((max(told.st_mtime, used), told.st_size, path))
        total = sum(size for _, size, _ in found)
        if total <= self._limit:
            return total
        for _, size, path in sorted(found):
            if total <= self._limit * 9 // 10:  # or the next copy would look through the folder again
                break
            if path != newest:
                path.unlink(missing_ok=True)
                total -= size
        return total


def _new_file(folder: Path) -> IO[bytes]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tempfile.NamedTemporaryFile("wb", dir=folder, delete=False)


def _place(made: str, path: Path) -> None:
    os.chmod(made, _MODE)  # noqa: PTH101 -- the name of a temporary file is a text
    os.replace(made, path)  # noqa: PTH105 -- likewise


def _is_whole(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except FileNotFoundError:
        return False
