"""Blobs: bytes kept under their own BLAKE3, in a local folder or in any S3-compatible store.

A blob is written to a file of its own beside the store first, so that memory stays flat and its name is known before
it is put anywhere. What becomes visible is whole: a rename in a folder, one upload elsewhere. The same bytes are one
blob, however often they are written. No program but the server ever has a blob's file open for writing (S-08), and
what is read is compared with its name: `blob_reading` says when. Blobs of the first versions are named by their
SHA-256, which looks the same.
"""

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, MemoryStore, S3Store

from fairlead.storage.blobs.adoption import AdoptedBlob, spool_bytes, take_away, take_in
from fairlead.storage.blobs.errors import (
    BlobDamagedError,
    BlobLostError,
    BlobMissingError,
    BlobsUnavailableError,
    BlobTooLargeError,
    StoreUnprovenError,
)
from fairlead.storage.blobs.gate import StoreGate, open_gate
from fairlead.storage.blobs.local_copies import LocalCopies
from fairlead.storage.blobs.local_files import BlobFolders, write_all
from fairlead.storage.blobs.markers import StoreMarkers
from fairlead.storage.blobs.ports import FAN_OUT, Blobs, FileBlobs, FileWriter, StoredBlob, Writer
from fairlead.storage.blobs.reading import BlobVerifier, read_download, read_file
from fairlead.storage.blobs.writer import SpooledWriter

__all__ = [
    "FAN_OUT",
    "AdoptedBlob",
    "BlobDamagedError",
    "BlobLostError",
    "BlobMissingError",
    "BlobTooLargeError",
    "Blobs",
    "BlobsUnavailableError",
    "FileBlobs",
    "FileWriter",
    "StoreUnprovenError",
    "StoredBlob",
    "StoredBlobs",
    "Writer",
    "blob_path",
]

BlobStore: TypeAlias = LocalStore | MemoryStore | S3Store | GCSStore | AzureStore

_THOROUGH: Final = BlobVerifier(sys.maxsize, remembered_seconds=0)
_NAME: Final = re.compile(r"[0-9a-f]{64}")
_DOWNLOADED_BYTES: Final = 4 * 1024 * 1024
"""How much of a blob of another store is requested at a time, so that no request stays open for a slow reader."""
_PART_BYTES: Final = 8 * 1024 * 1024
_PARTS_AT_ONCE: Final = 2
_PAGE: Final = 1000
_AGAIN_SECONDS: Final = (0.0, 0.2, 1.0)
"""Two servers may write the same bytes, and a store may return neither object while one replaces the other.
"""
_PROBE_BYTES: Final = 64 * 1024
_PROBE: Final = "probe"
_PROBED_SECONDS: Final = 10.0
"""How long a check that another store is writable counts, because each check costs money there."""


class StoredBlobs:
    """Blobs in an object store. `spool` is a local folder for blobs that are being written.

    With a LocalStore it must be on the store's own file system: a finished blob is moved, not copied. `parts` is how
    many bytes an upload to another store sends at once; `copies` are local copies for programs of this machine, and are
    not needed for a LocalStore. `report` is called with every blob that was asked for and is lost. `gate` says whether
    the store is the installation's; without one it is. `pauses` (seconds) come before a blob that arrived damaged from
    another store is fetched again.
    """

    def __init__(
        self,
        store: BlobStore,
        spool: Path,
        *,
        parts: int = _PART_BYTES,
        copies: LocalCopies | None = None,
        verifier: BlobVerifier | None = None,
        report: Callable[[BlobLostError], None] = lambda _: None,
        gate: StoreGate | None = None,
        pauses: Sequence[float] = _AGAIN_SECONDS,
    ) -> None:
        self._pauses = pauses
        self.gate: Final = gate or open_gate()
        self.markers: Final = StoreMarkers(store)
        self._store = store
        self._spool = spool
        self._parts = parts
        self._copies = copies
        self._verifier = verifier or BlobVerifier()
        self._report = report
        self._folders = BlobFolders()
        self._probed_until = 0.0
        self._root = Path(store.prefix) if isinstance(store, LocalStore) and store.prefix is not None else None

    def writer(self, limit: int) -> SpooledWriter:
        """Begin a blob of at most `limit` bytes."""
        return SpooledWriter(self.place, self._spool, limit)

    async def adopt(self, path: Path, limit: int) -> AdoptedBlob:
        """Make a copy of a local file a blob, and remove the file.

        ValueError for what is not a plain file, BlobTooLargeError past `limit` bytes: in both cases it is removed.
        BlobsUnavailableError: it stays, and may be adopted later.
        """
        return await self._spooled_and_placed(lambda: take_in(path, self._spool, limit), path)

    async def put(self, content: bytes, limit: int) -> AdoptedBlob:
        """Make some bytes a blob; BlobTooLargeError past `limit` bytes, BlobsUnavailableError."""
        if len(content) > limit:
            raise BlobTooLargeError(f"more than {limit} bytes")
        return await self._spooled_and_placed(lambda: spool_bytes(content, self._spool))

    async def _spooled_and_placed(self, spool: Callable[[], tuple[AdoptedBlob, Path]], *made: Path) -> AdoptedBlob:
        """Make a blob of what a function spools, and remove the source; in a folder all in one thread."""
        self.gate.check()
        root = self._root
        try:
            if root is not None:
                return await asyncio.to_thread(self._place, spool, root, *made)
            adopted, spooled = await asyncio.to_thread(spool)
        except OSError as error:
            raise BlobsUnavailableError(str(error)) from error
        try:
            await self.place(spooled, adopted.name)
        except BaseException:
            await asyncio.to_thread(take_away, spooled)
            raise
        await asyncio.to_thread(take_away, spooled, *made)
        return adopted

    def _place(self, spool: Callable[[], tuple[AdoptedBlob, Path]], root: Path, *made: Path) -> AdoptedBlob:
        """Make a blob of a folder of what a function spools, and remove the source."""
        adopted, spooled = spool()
        try:
            self._move(spooled, root, adopted.name)
        except BaseException:
            take_away(spooled)
            raise
        take_away(*made)
        return adopted

    def _move(self, spooled: Path, root: Path, name: str) -> None:
        """Make a spooled file the blob of a folder; its name was made of its bytes as they were written."""
        path = root / blob_path(name)
        self._folders.move(spooled, path)
        self._verifier.trust(path, name)

    async def check_writable(self) -> None:
        """Write a file where every blob is written first, and remove it; BlobsUnavailableError.

        Another store is also written to, at most every ten seconds.
        """
        self.gate.check()
        try:
            await asyncio.to_thread(_write_and_take_away, self._spool)
            if self._root is None and time.monotonic() >= self._probed_until:
                await obstore.put_async(self._store, _PROBE, b"")
                self._probed_until = time.monotonic() + _PROBED_SECONDS
        except (BaseError, OSError) as error:
            raise BlobsUnavailableError(str(error)) from error

    async def local_path(self, name: str) -> Path:
        """The path at which a program of this machine can read a blob, verified as by `read`; it must not write there.

        BlobMissingError, BlobDamagedError, BlobsUnavailableError.
        """
        with self._reporting(name):
            if self._root is None:
                if self._copies is None:
                    raise BlobsUnavailableError("no folder for local copies of blobs was given")
                return await self._local_copy(self._copies, name, await self._size_elsewhere(name))
            path = self._root / blob_path(name)
            await asyncio.to_thread(self._verifier.check, path, name)
            return path

    async def size(self, name: str) -> int | None:
        """The size of a blob in bytes, None when there is none; BlobsUnavailableError."""
        try:
            return (await obstore.head_async(self._store, blob_path(name)))["size"]
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise BlobsUnavailableError(str(error)) from error

    async def exists(self, name: str) -> bool:
        """Whether there is such a blob; BlobsUnavailableError."""
        return await self.size(name) is not None

    async def check(self, name: str, size: int) -> None:
        """Check that there is a blob of a size; BlobMissingError, BlobDamagedError, BlobsUnavailableError."""
        found = await self.size(name)
        with self._reporting(name):
            if found is None:
                raise self.gate.missing(name)
            if found != size:
                raise BlobDamagedError(name)

    async def verify(self, name: str, size: int) -> None:
        """The same, and compare its bytes with its name, as `read` does."""
        if self._root is None:
            await self.check(name, size)
            async for _ in await self.read(name, 0, 1):
                pass
            return
        with self._reporting(name):
            found = await asyncio.to_thread(self._verifier.check, self._root / blob_path(name), name)
            if found.size != size:
                raise BlobDamagedError(name)

    async def read(self, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Stream the bytes from `start` up to `end`, not included; BlobMissingError, BlobsUnavailableError.

        BlobDamagedError before the first byte for a blob of at most VERIFIED_BYTES_MAX; a larger one that is read
        whole breaks off with it before the last. The stream may break off with BlobsUnavailableError as well.
        """
        with self._reporting(name):
            if self._root is None:
                stream = await self._read_elsewhere(name, start, end)
            else:
                stream = await read_file(self._root / blob_path(name), name, start, end, self._verifier)
        return self._stream(name, stream)

    async def _stream(self, name: str, stream: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
        with self._reporting(name):
            # Closed when its reader stops: left to the collector, it would keep its file open.
            async with aclosing(stream):
                async for piece in stream:
                    yield piece

    async def _read_elsewhere(self, name: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        size = await self._size_elsewhere(name)
        start, end = min(start, size), min(end, size)
        if size > self._verifier.limit:
            return await self._download(name, start, end)
        if self._copies is not None:
            with suppress(FileNotFoundError):  # it was removed meanwhile to make room for others
                path = await self._local_copy(self._copies, name, size)
                return await read_file(path, name, start, end, self._verifier)
        return await read_download(await self._download(name, 0, size), name, start, end, self._spool)

    async def _size_elsewhere(self, name: str) -> int:
        size: int = (await obstore.head_async(self._store, blob_path(name)))["size"]
        return size

    async def _download(self, name: str, start: int, end: int) -> AsyncGenerator[bytes, None]:
        """The bytes of a blob from `start` up to `end`; the first of them have arrived when this returns."""
        return self._pieces(name, start, end, await self._piece(name, start, end) if start < end else b"")

    async def _pieces(self, name: str, start: int, end: int, piece: bytes) -> AsyncGenerator[bytes, None]:
        """A first piece and the following ones, each of which is requested while the one before is being sent."""
        while piece:
            start += len(piece)
            following = asyncio.ensure_future(self._piece(name, start, end)) if start < end else None
            try:
                yield piece
                piece = b"" if following is None else await following
            finally:
                if following is not None:
                    following.cancel()

    async def _piece(self, name: str, start: int, end: int) -> bytes:
        end = min(end, start + _DOWNLOADED_BYTES)
        return bytes(await obstore.get_range_async(self._store, blob_path(name), start=start, end=end))

    async def _local_copy(self, copies: LocalCopies, name: str, size: int) -> Path:
        """A copy of a blob of another store; one that is damaged is made again."""
        pauses = iter(self._pauses)
        while True:
            path = await copies.path(name, size, lambda: self._whole(name, size))
            try:
                await asyncio.to_thread(self._verifier.check, path, name)
            except BlobDamagedError:
                await asyncio.to_thread(path.unlink, missing_ok=True)
                if (pause := next(pauses, None)) is None:
                    raise
                await asyncio.sleep(pause)
            else:
                return path

    async def _whole(self, name: str, size: int) -> AsyncIterator[bytes]:
        async with aclosing(await self._download(name, 0, size)) as stream:
            async for piece in stream:
                yield piece

    @contextmanager
    def _reporting(self, name: str) -> Iterator[None]:
        """Translate errors while a blob is read, and report a lost one."""
        try:
            yield
        except BlobLostError as error:
            self._report(error)
            raise
        except FileNotFoundError as error:
            missing = self.gate.missing(name)
            if isinstance(missing, BlobLostError):
                self._report(missing)
            raise missing from error
        except (BaseError, OSError) as error:
            raise BlobsUnavailableError(str(error)) from error

    async def sizes(self, names: Sequence[str]) -> dict[str, int | None]:
        """The sizes of blobs in bytes, None for those that are missing; BlobsUnavailableError."""
        if self._root is None:
            return {name: await self.size(name) for name in names}
        paths = {name: self._root / blob_path(name) for name in names}
        try:
            return await asyncio.to_thread(_sizes, paths)
        except OSError as error:
            raise BlobsUnavailableError(str(error)) from error

    async def compare(self, name: str) -> int:
        """Read all of a blob, however large, and return its size.

        BlobMissingError, BlobDamagedError, BlobsUnavailableError.
        """
        with self._reporting(name):
            if self._root is not None:
                return (await asyncio.to_thread(_THOROUGH.check, self._root / blob_path(name), name)).size
            size = await self._size_elsewhere(name)
            async for _ in await read_download(await self._download(name, 0, size), name, 0, 1, self._spool):
                pass
            return size

    async def delete(self, name: str) -> None:
        """Remove a blob, if it exists. BlobsUnavailableError."""
        self.gate.check()
        try:
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._store, blob_path(name))
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
        """Remove files of writers that did not finish, older than so many seconds; returns how many."""
        return await asyncio.to_thread(_remove_old, self._spool, time.time() - older_than)

    async def place(self, spooled: Path, name: str) -> None:
        """Make a spooled file the blob of a name, whole or not at all; BlobsUnavailableError."""
        self.gate.check()
        try:
            if self._root is not None:
                await asyncio.to_thread(self._move, spooled, self._root, name)
            else:
                await obstore.put_async(
                    self._store, blob_path(name), spooled, chunk_size=self._parts, max_concurrency=_PARTS_AT_ONCE
                )
        except (BaseError, OSError) as error:
            raise BlobsUnavailableError(str(error)) from error


def blob_path(name: str) -> str:
    """Where a blob is in its store: two levels of folders, so that none has too many entries."""
    if not _NAME.fullmatch(name):
        raise ValueError("a blob's name is 64 digits of hexadecimal")
    return f"{name[:2]}/{name[2:4]}/{name}"


def _write_and_take_away(folder: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=folder, buffering=0) as file:
        write_all(file, bytes(_PROBE_BYTES))
        os.fsync(file.fileno())


def _sizes(paths: Mapping[str, Path]) -> dict[str, int | None]:
    found: dict[str, int | None] = dict.fromkeys(paths)
    for name, path in paths.items():
        with suppress(FileNotFoundError):
            found[name] = path.stat().st_size
    return found


def _remove_old(folder: Path, before: float) -> int:
    removed = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # its writer has just ended
            if path.stat().st_mtime < before:
                path.unlink()
                removed += 1
    return removed
