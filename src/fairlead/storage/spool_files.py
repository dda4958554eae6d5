"""Files of blobs that are being written: written whole, written out to the disk, and forgotten."""

import ctypes
from pathlib import Path
from typing import IO, Final

_sync_file_range: Final = getattr(ctypes.CDLL(None), "sync_file_range", None)  # of Linux alone
_WRITE_AND_WAIT: Final = 1 | 2 | 4
"""SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER of sync_file_range(2)."""


def write_all(file: IO[bytes], chunk: bytes) -> None:
    """Write a chunk whole: an unbuffered file may take less than it is given."""
    view = memoryview(chunk)
    while view:
        view = view[file.write(view) :]


def write_out(descriptor: int, start: int, end: int) -> None:
    """Have the kernel write a part of a file to the disk, and wait for that; nothing where it cannot be asked to.

    It does not make the part durable, as fsync does. But what is on its way when a database commits may hold the
    commit's fsync up, on ext4 for all of it: so no more than a part is ever on its way.
    """
    if _sync_file_range is not None:
        _sync_file_range(descriptor, ctypes.c_int64(start), ctypes.c_int64(end - start), _WRITE_AND_WAIT)


def discard(file: IO[bytes]) -> None:
    """Close a temporary file and take it away."""
    file.close()
    Path(file.name).unlink(missing_ok=True)
