"""Copies on this machine of blobs that are kept elsewhere, for programs that read files: a bounded folder."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

_BYTES_MAX: Final = 8 * 2**30
_MODE: Final = 0o400


class LocalCopies:
    """A folder of copies, of at most `limit` bytes: those that were not asked for longest are removed.

    The newest stays whatever its size. A copy that somebody reads may be removed under him, which takes nothing away
    from a file that is open.
    """

    def __init__(self, folder: Path, limit: int = _BYTES_MAX) -> None:
        self._folder = folder
        self._limit = limit

    async def path(self, name: str, size: int, content: Callable[[], AsyncIterator[bytes]]) -> Path:
        """The copy of a blob, made of its bytes where there is none of that size; OSError, and what the bytes raise."""
        path = self._folder / name
        if not await asyncio.to_thread(_is_whole, path, size):
            await self._write(path, content())
            await asyncio.to_thread(self._shrink, path)
        return path

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

    def _shrink(self, newest: Path) -> None:
        found = []
        for path in self._folder.iterdir():
            with suppress(FileNotFoundError):  # another has removed it
                told = path.stat()
                found.append((told.st_mtime, told.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._limit:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                total -= size


def _new_file(folder: Path) -> IO[bytes]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tempfile.NamedTemporaryFile("wb", dir=folder, delete=False)


def _place(made: str, path: Path) -> None:
    os.chmod(made, _MODE)  # noqa: PTH101 -- the name of a temporary file is a text
    os.replace(made, path)  # noqa: PTH105 -- likewise


def _is_whole(path: Path, size: int) -> bool:
    """Whether there is a copy of a size; it then counts as asked for just now."""
    try:
        if path.stat().st_size != size:
            return False
        os.utime(path)
    except FileNotFoundError:
        return False
    return True
