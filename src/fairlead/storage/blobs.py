"""Blobs: bytes kept under their own BLAKE3, in a local folder or in any S3-compatible store.

A blob is written to a file of its own beside the store first, so that memory stays flat and its name is known before
it is put anywhere. What becomes visible is whole: a rename in a folder, one upload elsewhere. The same bytes are one
blob, however often they are written. Blobs of the first versions are named by their SHA-256, which looks the same: a
name is never compared with the bytes again.
"""

import asyncio
import errno
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import obstore
from blake3 import blake3
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, MemoryStore, S3Store

from fairlead.domain.media import HEAD_BYTES
from fairlead.storage.local_copies import LocalCopies
from fairlead.storage.spool_files import discard, send_on, write_all

BlobStore: TypeAlias = LocalStore | MemoryStore | S3Store | GCSStore | AzureStore

FAN_OUT: Final = tuple(f"{number:02x}" for number in range(256))
"""The folders of the first level, by which a store is walked in parts."""

_NAME: Final = re.compile(r"[0-9a-f]{64}")
_BUFFER_BYTES: Final = 1024 * 1024
_SENT_ON_BYTES: Final = 4 * 1024 * 1024
_READ_BYTES: Final = 1024 * 1024
_PART_BYTES: Final = 8 * 1024 * 1024
_PARTS_AT_ONCE: Final = 2
_PAGE: Final = 1000


class BlobTooLargeError(Exception):
    """More bytes were written than the writer's limit allows; nothing was kept."""


class BlobMissingError(Exception):
    """There is no blob of this name."""


class BlobsUnavailableError(Exception):
    """The store cannot be read or written: the disk is full, or the store is away. Worth trying again."""


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """What a walk finds: a name, and when the blob was last written, in milliseconds since 1970."""

    name: str
    written_at: int


@dataclass(frozen=True, slots=True)
class AdoptedBlob:
    """A file that became a blob: its name, how many bytes it has, and the first of them."""

    name: str
    size: int
    head: bytes


class Writer(Protocol):
    """Takes the bytes of one blob. `abort` may always be called, and does nothing after `commit`."""

    async def write(self, chunk: bytes) -> None:
        """Take more bytes; BlobTooLargeError, BlobsUnavailableError."""
        ...

    async def commit(self) -> str:
        """Make the blob whole, durable and visible, and return its name; BlobsUnavailableError."""
        ...

    async def abort(self) -> None:
        """Forget what was written."""
        ...


class FileWriter(Writer, Protocol):
    """Takes the bytes of one blob, which can be read as a file before it is one."""

    async def finish(self) -> tuple[str, Path]:
        """Take no more; the blob's name, and where it can be read until `commit` or `abort`. BlobsUnavailableError."""
        ...


class Blobs(Protocol):
    """A place for blobs. Names are 64 digits of lower-case hexadecimal; ValueError for anything else."""

    def writer(self, limit: int) -> Writer:
        """Begin a blob of at most `limit` bytes."""
        ...

    async def size(self, name: str) -> int | None:
        """The size of a blob in bytes, None when there is none; BlobsUnavailableError."""
        ...

    async def exists(self, name: str) -> bool:
        """Whether there is such a blob; BlobsUnavailableError."""
        ...

    async def read(self, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Stream the bytes from `start` up to `end`, not included; BlobMissingError, BlobsUnavailableError."""
        ...

    async def delete(self, name: str) -> None:
        """Remove a blob; one that is not there is removed already. BlobsUnavailableError."""
        ...

    def walk(self, folder: str) -> AsyncIterator[Sequence[StoredBlob]]:
        """The blobs of one folder of FAN_OUT, a bounded page at a time; BlobsUnavailableError."""
        ...

    async def sweep(self, older_than: float) -> int:
        """Remove what writers left behind that ended without a word, older than so many seconds; how many."""
        ...


class FileBlobs(Blobs, Protocol):
    """Blobs that programs of this machine read and write as files: engine hosts do."""

    def writer(self, limit: int) -> FileWriter:
        """Begin a blob of at most `limit` bytes."""
        ...

    async def adopt(self, path: Path, limit: int) -> "AdoptedBlob":
        """Make a local file a blob, and take the file away, also where that fails.

        ValueError for what is no plain file, BlobTooLargeError past `limit` bytes, BlobsUnavailableError.
        """
        ...

    async def local_path(self, name: str) -> Path:
        """Where a program of this machine can read a blob; it must not write there.

        BlobMissingError, BlobsUnavailableError.
        """
        ...


class StoredBlobs:
    """Blobs in an object store. `spool` is a local folder for blobs that are being written.

    With a LocalStore it must be on the store's own file system: a finished blob is moved, not copied. `parts` is how
    many bytes an upload to another store sends at once; `copies` keeps what programs of this machine read of another
    store, and is not needed for a LocalStore.
    """

    def __init__(
        self, store: BlobStore, spool: Path, *, parts: int = _PART_BYTES, copies: LocalCopies | None = None
    ) -> None:
        self._store = store
        self._spool = spool
        self._parts = parts
        self._copies = copies
        self._root = Path(store.prefix) if isinstance(store, LocalStore) and store.prefix is not None else None

    def writer(self, limit: int) -> "SpooledWriter":
        """Begin a blob of at most `limit` bytes."""
        return SpooledWriter(self, self._spool, limit)

    async def adopt(self, path: Path, limit: int) -> AdoptedBlob:
        """Make a local file a blob, and take the file away, also where that fails.

        ValueError for what is no plain file, BlobTooLargeError past `limit` bytes, BlobsUnavailableError.
        """
        try:
            adopted, spooled = await asyncio.to_thread(_take_in, path, self._spool, limit)
            try:
                await self.place(spooled, adopted.name)
            finally:
                await asyncio.to_thread(spooled.unlink, missing_ok=True)
        except OSError as error:
            raise BlobsUnavailableError(str(error)) from error
        return adopted

    async def local_path(self, name: str) -> Path:
        """Where a program of this machine can read a blob; it must not write there.

        BlobMissingError, BlobsUnavailableError.
        """
        if self._root is not None:
            path = self._root / _path(name)
            if not await asyncio.to_thread(path.is_file):
                raise BlobMissingError(name)
            return path
        if self._copies is None:
            raise BlobsUnavailableError("no folder for local copies of blobs was given")
        size = await self.size(name)
        if size is None:
            raise BlobMissingError(name)
        try:
            return await self._copies.path(name, size, await self.read(name, 0, size))
        except OSError as error:
            raise BlobsUnavailableError(str(error)) from error

    async def size(self, name: str) -> int | None:
        """The size of a blob in bytes, None when there is none; BlobsUnavailableError."""
        try:
            return (await obstore.head_async(self._store, _path(name)))["size"]
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise BlobsUnavailableError(str(error)) from error

    async def exists(self, name: str) -> bool:
        """Whether there is such a blob; BlobsUnavailableError."""
        return await self.size(name) is not None

    async def read(self, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Stream the bytes from `start` up to `end`, not included; BlobMissingError, BlobsUnavailableError.

        The stream may break off with BlobsUnavailableError as well.
        """
        size = await self.size(name)
        if size is None:
            raise BlobMissingError(name)
        end = min(end, size)
        if start >= end:
            return _chunks(())
        if self._root is not None:
            return self._pieces(_path(name), start, end)
        try:
            found = await obstore.get_async(self._store, _path(name), options={"range": (start, end)})
        except FileNotFoundError as error:
            raise BlobMissingError(name) from error
        except (BaseError, OSError) as error:
            raise BlobsUnavailableError(str(error)) from error
        return _chunks(found.stream(min_chunk_size=_READ_BYTES))

    async def _pieces(self, path: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Read a local file piece by piece: ten times as fast as its stream, which reads 8 KiB at once."""
        try:
            for place in range(start, end, _READ_BYTES):
                yield bytes(
                    await obstore.get_range_async(self._store, path, start=place, end=min(end, place + _READ_BYTES))
                )
        except (BaseError, OSError) as error:
            raise BlobsUnavailableError(str(error)) from error

    async def delete(self, name: str) -> None:
        """Remove a blob; one that is not there is removed already. BlobsUnavailableError."""
        try:
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._store, _path(name))
        except (BaseError, OSError) as error:
            raise BlobsUnavailableError(str(error)) from error

    async def walk(self, folder: str) -> AsyncIterator[Sequence[StoredBlob]]:
        """The blobs of one folder of FAN_OUT, a bounded page at a time; BlobsUnavailableError."""
        try:
            async for page in obstore.list(self._store, folder, chunk_size=_PAGE):
                yield [
                    StoredBlob(name, int(found["last_modified"].timestamp() * 1000))
                    for found in page
                    if _NAME.fullmatch(name := found["path"].rpartition("/")[2])
                ]
        except (BaseError, OSError) as error:
            raise BlobsUnavailableError(str(error)) from error

    async def sweep(self, older_than: float) -> int:
        """Remove what writers left behind that ended without a word, older than so many seconds; how many."""
        return await asyncio.to_thread(_remove_old, self._spool, time.time() - older_than)

    async def place(self, spooled: Path, name: str) -> None:
        """Make a spooled file the blob of a name, whole or not at all; BlobsUnavailableError."""
        try:
            if self._root is not None:
                await asyncio.to_thread(_move, spooled, self._root, self._root / _path(name))
            else:
                await obstore.put_async(
                    self._store, _path(name), spooled, chunk_size=self._parts, max_concurrency=_PARTS_AT_ONCE
                )
        except (BaseError, OSError) as error:
            raise BlobsUnavailableError(str(error)) from error


def local_blobs(folder: Path) -> StoredBlobs:
    """Blobs in a folder of this machine, made for its owner alone; OSError when it cannot be."""
    spool = folder / "spool"
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    return StoredBlobs(LocalStore(folder), spool)


class SpooledWriter:
    """Writes one blob: gathered in memory up to a mebibyte, hashed and spooled by threads, placed by `commit`.

    While a thread has a mebibyte the next one is gathered; whoever is faster than the disk waits for it then.
    """

    def __init__(self, blobs: StoredBlobs, spool: Path, limit: int) -> None:
        self._blobs = blobs
        self._folder = spool
        self._limit = limit
        self._size = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._digest = blake3()
        self._file: Any = None
        self._spooled = 0
        self._sent_on = 0
        self._busy: asyncio.Future[None] | None = None
        self._name: str | None = None

    async def write(self, chunk: bytes) -> None:
        """Take more bytes; BlobTooLargeError, BlobsUnavailableError."""
        self._size += len(chunk)
        if self._size > self._limit:
            raise BlobTooLargeError(f"more than {self._limit} bytes")
        self._waiting.append(bytes(chunk))
        self._waiting_bytes += len(chunk)
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
        await self._blobs.place(spooled, name)
        await self.abort()
        return name

    async def abort(self) -> None:
        """Forget what was written."""
        if self._busy is not None:
            await asyncio.wait([self._busy])  # a thread still writes: closing under it would be a race
            self._busy.exception()  # asked for, or its loss would be complained of
        if self._file is not None:
            file, self._file = self._file, None
            await asyncio.to_thread(discard, file)

    async def _hand_over(self, *, durably: bool) -> None:
        """Give a thread what was gathered, once it is through with what it had before."""
        await self._thread()
        chunks, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self._busy = asyncio.get_running_loop().run_in_executor(None, self._spool, chunks, durably)

    async def _thread(self) -> None:
        if self._busy is None:
            return
        try:
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
        elif self._spooled - self._sent_on >= _SENT_ON_BYTES:
            send_on(self._file.fileno(), self._sent_on, self._spooled)
            self._sent_on = self._spooled


def _path(name: str) -> str:
    """Where a blob is in its store: two levels of folders, so that none has too many entries."""
    if not _NAME.fullmatch(name):
        raise ValueError("a blob's name is 64 digits of hexadecimal")
    return f"{name[:2]}/{name[2:4]}/{name}"


def _move(spooled: Path, root: Path, target: Path) -> None:
    """Move a finished file to its place, and make the move itself durable."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    spooled.replace(target)
    for folder in (target.parent, target.parent.parent, root):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _take_in(path: Path, spool: Path, limit: int) -> tuple[AdoptedBlob, Path]:
    """Bring a file into the spool, durable, and hash it there, where its maker does not find it any more."""
    try:
        spooled = _spooled(path, spool, limit)
    finally:
        with suppress(OSError):  # it was moved, or is nothing that could be taken away
            path.unlink()
    try:
        with spooled.open("rb", buffering=0) as file:
            os.fsync(file.fileno())
            return _hashed(file, limit), spooled
    except BaseException:
        spooled.unlink(missing_ok=True)
        raise


def _spooled(path: Path, spool: Path, limit: int) -> Path:
    """A file of the spool with the bytes of another: that very file, or a copy where it lies on another file system."""
    with _opened_plain(path, limit) as file:
        found = os.fstat(file.fileno())
        handle, name = tempfile.mkstemp(dir=spool)
        try:
            with os.fdopen(handle, "wb") as target:
                if found.st_dev != os.fstat(handle).st_dev:
                    shutil.copyfileobj(file, target, _BUFFER_BYTES)
                    return Path(name)
            _move_in(path, Path(name), found)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    return Path(name)


def _move_in(path: Path, spooled: Path, found: os.stat_result) -> None:
    path.replace(spooled)
    moved = spooled.lstat()
    if (moved.st_dev, moved.st_ino) != (found.st_dev, found.st_ino):
        raise ValueError("the file was exchanged while it was kept")
    spooled.chmod(0o600)
    os.utime(spooled)  # it is new here, however long it took to be made


def _opened_plain(path: Path, limit: int) -> Any:
    """Open a file that is a file: no link to one, no device, and no other name for what is somewhere else."""
    try:
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


def _hashed(file: Any, limit: int) -> AdoptedBlob:
    """Name the bytes of a file. They are read, not mapped: whoever made it might still shorten it."""
    digest, size, head = blake3(), 0, b""
    while chunk := file.read(_BUFFER_BYTES):
        digest.update(chunk)
        size += len(chunk)
        head = head or bytes(chunk[:HEAD_BYTES])
        if size > limit:
            raise BlobTooLargeError(f"more than {limit} bytes")
    return AdoptedBlob(digest.hexdigest(), size, head)


def _remove_old(folder: Path, before: float) -> int:
    removed = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # its writer has just ended
            if path.stat().st_mtime < before:
                path.unlink()
                removed += 1
    return removed


async def _chunks(stream: Any) -> AsyncIterator[bytes]:
    """The chunks of a stream as bytes; `()` is the stream without any."""
    if stream == ():
        return
    try:
        async for chunk in stream:
            yield bytes(chunk)
    except (BaseError, OSError) as error:
        raise BlobsUnavailableError(str(error)) from error
