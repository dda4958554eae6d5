"""Files on this machine that become blobs: written whole, written out to the disk, and moved into durable folders."""

import ctypes
import os
import time
from pathlib import Path
from typing import IO, Final

_sync_file_range: Final = getattr(ctypes.CDLL(None), "sync_file_range", None)  # of Linux alone
_ON_ITS_WAY_BYTES: Final = 8 * 2**20
_WRITE: Final = 2
_WRITE_AND_WAIT: Final = 1 | _WRITE | 4
"""SYNC_FILE_RANGE_WRITE, and with _WAIT_BEFORE and _WAIT_AFTER, of sync_file_range(2)."""


def write_all(file: IO[bytes], chunk: bytes) -> None:
    """Write a chunk whole: an unbuffered file may take less than it is given."""
    view = memoryview(chunk)
    while view:
        view = view[file.write(view) :]


def write_out(descriptor: int, start: int, end: int) -> None:
    """Have the kernel begin to write a part of a file to the disk, and wait for much earlier parts.

    Does nothing where that is not supported. It does not make the parts durable, as fsync does. But writes that are
    pending when a database commits may delay the commit's fsync, on ext4 until all are done: so never more than 8 MiB
    and a part are pending.
    """
    if _sync_file_range is not None:
        _sync_file_range(descriptor, ctypes.c_int64(start), ctypes.c_int64(end - start), _WRITE)
        if start > _ON_ITS_WAY_BYTES:
            behind = start - _ON_ITS_WAY_BYTES
            before = max(0, behind - (end - start))
            _sync_file_range(descriptor, ctypes.c_int64(before), ctypes.c_int64(behind - before), _WRITE_AND_WAIT)


def discard(file: IO[bytes]) -> None:
    """Close a temporary file and remove it."""
    file.close()
    Path(file.name).unlink(missing_ok=True)


_OLD_SECONDS: Final = 10
_MODE: Final = 0o400
"""The mode of a blob's file.

Only the owner can enter its folder, and its sandbox keeps an engine host from writing there.
"""
_REMEMBERED_MAX: Final = 10_000


class BlobFolders:
    """Moves files into folders, two below the store's own, which are made as they are needed."""

    def __init__(self) -> None:
        self._durable: set[Path] = set()
        """Folders whose entries in their parent folders are durable, and need no further fsync."""

    def move(self, spooled: Path, target: Path) -> None:
        """Move a finished file to its place, where nobody opens it for writing by mistake; make the move durable.

        OSError. May be called by several threads at once.
        """
        folders = (target.parent.parent, target.parent)
        spooled.chmod(_MODE)
        # Any later write changes this time, even within the same tick of the system's clock.
        written_at = time.time_ns() - _OLD_SECONDS * 1_000_000_000
        os.utime(spooled, ns=(written_at, written_at))
        for folder in folders:
            if folder not in self._durable:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            spooled.replace(target)
        except FileNotFoundError:  # somebody has removed an empty folder
            self._durable.difference_update(folders)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            spooled.replace(target)
        # A rename is durable only once its folder is.
        _sync(target.parent)
        for folder in reversed(folders):
            if folder not in self._durable:
                _sync(folder.parent)
        if len(self._durable) > _REMEMBERED_MAX:
            self._durable.clear()
        self._durable.update(folders)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
