"""Adopts files that other programs have written: they are copied into an inode that only the server has ever opened.

The process that made a file may keep a descriptor of it, or a mapping, and write on. So its inode never becomes a blob:
its bytes are cloned or copied, and the name is computed of the copy.
"""

import errno
import fcntl
import os
import stat
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

import msgspec
from blake3 import blake3

from fairlead.domain.assets.media_types import HEAD_BYTES
from fairlead.storage.blobs.errors import BlobTooLargeError
from fairlead.storage.blobs.local_files import write_all

_BUFFER_BYTES: Final = 1024 * 1024
_COPIED_BYTES: Final = 64 * 1024 * 1024
_FICLONE: Final = 0x40049409
"""FICLONE of ioctl_ficlonerange(2): share the extents of another file until one of the two is written."""


class AdoptedBlob(msgspec.Struct, frozen=True):
    """A file that became a blob: its name, how many bytes it has, and the first of them."""

    name: str
    size: int
    head: bytes


def take_in(path: Path, spool: Path, limit: int) -> tuple[AdoptedBlob, Path]:
    """Copy a file into the spool, durable and hashed there; one that cannot become a blob is removed.

    ValueError for what is not a plain file, BlobTooLargeError past `limit` bytes, OSError.
    """
    try:
        with _opened_plain(path, limit) as source:
            return _copy(source, spool, limit)
    except (ValueError, BlobTooLargeError):
        take_away(path)
        raise


def spool_bytes(content: bytes, spool: Path) -> tuple[AdoptedBlob, Path]:
    """Write bytes into the spool, durable there. OSError.

    A thread has to win the interpreter's lock from a busy event loop after each call of the system: there are few.
    """
    spooled = spool / uuid.uuid4().hex
    descriptor = os.open(spooled, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except BaseException:
        take_away(spooled)
        raise
    finally:
        os.close(descriptor)
    return AdoptedBlob(blake3(content).hexdigest(), len(content), content[:HEAD_BYTES]), spooled


def take_away(*paths: Path) -> None:
    """Remove files that are not needed any more, where they can be removed."""
    for path in paths:
        with suppress(OSError):
            path.unlink()


def _copy(source: IO[bytes], spool: Path, limit: int) -> tuple[AdoptedBlob, Path]:
    handle, name = tempfile.mkstemp(dir=spool)
    spooled = Path(name)
    try:
        with os.fdopen(handle, "r+b", buffering=0) as target:
            copy_bytes(source, target, limit)
            os.fsync(target.fileno())
            target.seek(0)
            return _hash(target), spooled
    except BaseException:
        spooled.unlink(missing_ok=True)
        raise


def copy_bytes(source: IO[bytes], target: IO[bytes], limit: int) -> None:
    """Give an empty file the bytes of another: cloned where the file system can, else copied by the kernel, else read.

    Holes stay holes: a file takes no more of the disk than it did of the quota of whoever made it. BlobTooLargeError
    past `limit` bytes, however fast the other grows meanwhile; OSError.
    """
    if not _clone(source.fileno(), target.fileno()):
        size = os.fstat(source.fileno()).st_size
        for start, end in _data(source.fileno(), min(size, limit + 1)):
            source.seek(start)
            target.seek(start)
            _copy_range(source, target, end - start)
        # What the other has grown by meanwhile is not copied, and a hole at the end is made here.
        os.ftruncate(target.fileno(), min(size, limit + 1))
    if os.fstat(target.fileno()).st_size > limit:
        raise BlobTooLargeError(f"more than {limit} bytes")


def _clone(source: int, target: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:  # not possible between or in these file systems; other errors show up when bytes are copied
        return False
    return True


def _data(source: int, size: int) -> Iterator[tuple[int, int]]:
    """Where the bytes of a file are within its first `size`, from and up to; the rest of it are holes."""
    end = 0
    while end < size:
        try:
            start = os.lseek(source, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # the file system does not know its holes
                yield end, size
            return  # there is nothing but a hole behind
        end = min(os.lseek(source, start, os.SEEK_HOLE), size)
        if start < end:
            yield start, end


def _copy_range(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copy at most `size` bytes from where both files stand."""
    left = size
    if sys.platform == "linux":
        with suppress(
            OSError
        ):  # from one file system to another, before Linux 5.19; or a full disk, which shows up next
            while left and (count := os.copy_file_range(source.fileno(), target.fileno(), min(left, _COPIED_BYTES))):
                left -= count
    while left and (chunk := source.read(min(left, _BUFFER_BYTES))):
        write_all(target, chunk)
        left -= len(chunk)


def _opened_plain(path: Path, limit: int) -> IO[bytes]:
    """Open a regular file: no link, no device, and no hard link to a file elsewhere."""
    try:
        # Without O_NONBLOCK a named pipe would hold up the server until something is written to it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO):
            raise ValueError("there is no such file") from error
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise ValueError("only a plain file can become a blob")
    if found.st_size > limit:
        os.close(descriptor)
        raise BlobTooLargeError(f"more than {limit} bytes")
    return os.fdopen(descriptor, "rb", buffering=0)


def _hash(file: IO[bytes]) -> AdoptedBlob:
    """Name the bytes of the server's own copy."""
    digest, size, head = blake3(), 0, b""
    while chunk := file.read(_BUFFER_BYTES):
        digest.update(chunk)
        size += len(chunk)
        head = head or bytes(chunk[:HEAD_BYTES])
    return AdoptedBlob(digest.hexdigest(), size, head)
