"""Reading blobs: their bytes are compared with their names before the first of them is handed out (S-08).

Files of up to VERIFIED_BYTES_MAX are compared whole, whatever part is asked for. A larger one is compared while it is
read from its beginning to its end, and breaks off before its last piece where it is damaged; parts of it are not
compared, which `fairlead audit --blobs` does. A file that was written here or compared lately is not compared again:
its inode, its size, its mtime and its ctime are cached, of which only the system sets the last. A file that was changed
less than two seconds before is not cached, because a further change might leave the same times; one that was written
here gets an older mtime, which any change would replace. Corruption on the disk changes no times, so nothing is cached
for longer than a minute.
"""

import asyncio
import hashlib
import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol, Self

import msgspec
from blake3 import blake3

from fairlead.storage.blobs.errors import BlobDamagedError

VERIFIED_BYTES_MAX: Final = 16 * 1024 * 1024
PIECE_BYTES: Final = 1024 * 1024
_REMEMBERED_SECONDS: Final = 60.0
_REMEMBERED_MOST: Final = 16_384
_SETTLED_SECONDS: Final = 2.0
_MODE: Final = 0o400


class Digest(Protocol):
    """What BLAKE3 and SHA-256 have in common."""

    def update(self, data: bytes, /) -> object:
        """Take more bytes."""

    def hexdigest(self) -> str:
        """Return the digest of all bytes so far."""


class FileState(NamedTuple):
    """The identity and state of a file; times in nanoseconds since 1970."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class OpenBlob:
    """A blob's file that is open for reading, as it was when it was opened."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self.name = name
        self.file = file
        self.state = _state(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def piece(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`; BlobDamagedError where the file has changed."""
        piece = os.pread(self.file.fileno(), end - start, start)
        now = _state(self.file)
        if len(piece) != end - start or (now.size, now.modified_ns) != (self.state.size, self.state.modified_ns):
            raise BlobDamagedError(self.name)
        return piece

    def pieces(self) -> Iterator[bytes]:
        """All of the bytes, from the beginning."""
        for start in range(0, self.state.size, PIECE_BYTES):
            yield self.piece(start, min(start + PIECE_BYTES, self.state.size))

    def check_name(self) -> None:
        """Read the file; BlobDamagedError where its bytes are not those that its name stands for."""
        _check_name(self.name, self.pieces)


class BlobVerifier:
    """Opens files of blobs, compares those of at most `limit` bytes with their names, and caches which it has compared.

    To be called in threads, because it waits for the disk.
    """

    def __init__(
        self,
        limit: int = VERIFIED_BYTES_MAX,
        *,
        remembered_seconds: float = _REMEMBERED_SECONDS,
        settled_seconds: float = _SETTLED_SECONDS,
    ) -> None:
        self.limit: Final = limit
        self._remembered_seconds = remembered_seconds
        self._settled_ns = int(settled_seconds * 1_000_000_000)
        self._known: OrderedDict[str, tuple[FileState, float]] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: Path, name: str, trusted: FileState | None = None) -> OpenBlob:
        """Open a blob's file, compared with its name unless it is in the state that is trusted.

        BlobDamagedError, OSError.
        """
        blob = OpenBlob(name, _open(path))
        try:
            if blob.state.size <= self.limit and blob.state != trusted and not self.knows(name, blob.state):
                self._compare(blob)
        except BaseException:
            blob.file.close()
            raise
        return blob

    def check(self, path: Path, name: str) -> FileState:
        """The state of a blob's file, compared with its name as far as `open` does; BlobDamagedError, OSError."""
        with self.open(path, name) as blob:
            return blob.state

    def knows(self, name: str, state: FileState) -> bool:
        """Whether a blob's file was written here or compared lately, in the state it has now."""
        with self._lock:
            known, until = self._known.get(name, (None, 0.0))
        return known == state and until > time.monotonic()

    def trust(self, path: Path, name: str) -> None:
        """Cache the state of a blob's file that was just written here, under the name of its bytes; OSError."""
        with _open(path) as file:
            self._remember(name, _state(file))

    def note_compared(self, blob: OpenBlob, begun_ns: int) -> None:
        """Cache the state of a compared file, unless it was changed shortly before `begun_ns`.

        That is when the comparison began, in nanoseconds since 1970.
        """
        is_settled = max(blob.state.modified_ns, blob.state.changed_ns) < begun_ns - self._settled_ns
        if is_settled and _state(blob.file) == blob.state:
            self._remember(blob.name, blob.state)
            return
        with self._lock:
            self._known.pop(blob.name, None)

    def _compare(self, blob: OpenBlob) -> None:
        begun_ns = time.time_ns()
        blob.check_name()
        self.note_compared(blob, begun_ns)

    def _remember(self, name: str, state: FileState) -> None:
        with self._lock:
            self._known[name] = state, time.monotonic() + self._remembered_seconds
            self._known.move_to_end(name)
            while len(self._known) > _REMEMBERED_MOST:
                self._known.popitem(last=False)


async def read_file(path: Path, name: str, start: int, end: int, verifier: BlobVerifier) -> AsyncGenerator[bytes, None]:
    """The bytes of a blob's file from `start` up to `end`, not included; BlobDamagedError, OSError.

    What is found damaged is raised here, before anything is handed out, or by the stream (see above).
    """
    part = await asyncio.to_thread(_begin, path, name, start, end, verifier)
    return _rest(path, name, part, verifier)


async def read_download(
    content: AsyncIterator[bytes], name: str, start: int, end: int, spool: Path
) -> AsyncGenerator[bytes, None]:
    """The same of a blob that is not a file here, but is fetched whole.

    BlobDamagedError, OSError, and what `content` raises.
    """
    file: IO[bytes] = tempfile.SpooledTemporaryFile(PIECE_BYTES, "w+b", dir=str(spool))  # noqa: SIM115 -- it outlives this call
    try:
        async for chunk in content:
            await asyncio.to_thread(file.write, chunk)
        await asyncio.to_thread(_check_name, name, lambda: _from_start(file))
    except BaseException:
        file.close()
        raise
    return _download(file, start, end)


class _Part(msgspec.Struct, frozen=True):
    """The part of a file that is read, the state of the file, and the first piece."""

    state: FileState
    start: int
    end: int
    first: bytes


def _begin(path: Path, name: str, start: int, end: int, verifier: BlobVerifier) -> _Part:
    with verifier.open(path, name) as blob:
        end = max(start, min(end, blob.state.size))
        return _Part(blob.state, start, end, blob.piece(start, min(end, start + PIECE_BYTES)))


async def _rest(path: Path, name: str, part: _Part, verifier: BlobVerifier) -> AsyncGenerator[bytes, None]:
    if part.first:
        yield part.first
    if part.start + len(part.first) == part.end:
        return
    is_whole = (part.start, part.end) == (0, part.state.size)
    is_compared = is_whole and part.state.size > verifier.limit and not verifier.knows(name, part.state)
    digest, begun_ns = blake3(part.first), time.time_ns()
    with await asyncio.to_thread(verifier.open, path, name, part.state) as blob:
        for start in range(part.start + PIECE_BYTES, part.end, PIECE_BYTES):
            end = min(start + PIECE_BYTES, part.end)
            piece = await asyncio.to_thread(_next, blob, start, end, digest if is_compared else None)
            if is_compared and end == part.end:
                if digest.hexdigest() != name:
                    await asyncio.to_thread(blob.check_name)  # it may have the name of the first versions
                verifier.note_compared(blob, begun_ns)
            yield piece


def _next(blob: OpenBlob, start: int, end: int, digest: Digest | None) -> bytes:
    piece = blob.piece(start, end)
    if digest is not None:
        digest.update(piece)
    return piece


async def _download(file: IO[bytes], start: int, end: int) -> AsyncGenerator[bytes, None]:
    with file:
        file.seek(start)
        while piece := await asyncio.to_thread(file.read, min(PIECE_BYTES, max(0, end - start))):
            start += len(piece)
            yield piece


def _from_start(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        yield piece


def _check_name(name: str, pieces: Callable[[], Iterator[bytes]]) -> None:
    """Compare bytes with a name: their BLAKE3 or, as in the first versions, their SHA-256. BlobDamagedError."""
    if not any(_digest(new(), pieces()) == name for new in (blake3, hashlib.sha256)):
        raise BlobDamagedError(name)


def _digest(digest: Digest, pieces: Iterator[bytes]) -> str:
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _open(path: Path) -> IO[bytes]:
    """Open a blob's file. One whose mode was changed still belongs to the server, and is made readable."""
    try:
        return path.open("rb", buffering=0)
    except PermissionError:
        path.chmod(_MODE)
        return path.open("rb", buffering=0)


def _state(file: IO[bytes]) -> FileState:
    found = os.fstat(file.fileno())
    return FileState(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
