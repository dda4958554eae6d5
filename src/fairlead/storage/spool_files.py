"""Files of blobs that are being written: written whole, sent on to the disk, and forgotten."""

import os
from pathlib import Path
from typing import Any


def write_all(file: Any, chunk: bytes) -> None:
    """Write a chunk whole: an unbuffered file may take less than it is given."""
    view = memoryview(chunk)
    while view:
        view = view[file.write(view) :]


def send_on(descriptor: int, start: int, end: int) -> None:
    """Have the kernel begin to write a part to the disk, without waiting: little is left for the fsync in the end."""
    if hasattr(os, "posix_fadvise"):  # on Linux the advice that a part is not needed does so; what is dirty stays
        os.posix_fadvise(descriptor, start, end - start, os.POSIX_FADV_DONTNEED)


def discard(file: Any) -> None:
    """Close a temporary file and take it away."""
    file.close()
    Path(file.name).unlink(missing_ok=True)
