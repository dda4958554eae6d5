"""The interface of a store of blobs, wherever the bytes are."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from fairlead.storage.blobs.adoption import AdoptedBlob

FAN_OUT: Final = tuple(f"{number:02x}" for number in range(256))
"""The folders of the first level, by which a store is walked in parts."""


class StoredBlob(msgspec.Struct, frozen=True):
    """What a walk finds: a name, and when the blob was last written, in milliseconds since 1970."""

    name: str
    written_at: int


class Writer(Protocol):
    """Takes the bytes of one blob. `abort` may always be called, and does nothing after `commit`."""

    async def write(self, chunk: bytes) -> None:
        """Take more bytes; BlobTooLargeError, BlobsUnavailableError."""
        ...

    async def commit(self) -> str:
        """Make the blob whole, durable and visible, and return its name; BlobsUnavailableError."""
        ...

    async def abort(self) -> None:
        """Discard what was written."""
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

    async def check(self, name: str, size: int) -> None:
        """Check that there is a blob of a size; BlobMissingError, BlobDamagedError, BlobsUnavailableError."""
        ...

    async def verify(self, name: str, size: int) -> None:
        """The same, and compare its bytes with its name, as `read` does."""
        ...

    async def read(self, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Stream the bytes from `start` up to `end`, not included; BlobMissingError, BlobsUnavailableError.

        BlobDamagedError before the first byte for a blob of at most VERIFIED_BYTES_MAX; a larger one that is read
        whole breaks off with it before the last.
        """
        ...

    async def delete(self, name: str) -> None:
        """Remove a blob, if it exists. BlobsUnavailableError."""
        ...

    def walk(self, folder: str) -> AsyncIterator[Sequence[StoredBlob]]:
        """The blobs of one folder of FAN_OUT, a bounded page at a time; BlobsUnavailableError."""
        ...

    async def sweep(self, older_than: float) -> int:
        """Remove files of writers that did not finish, older than so many seconds; returns how many."""
        ...


class FileBlobs(Blobs, Protocol):
    """Blobs that programs of this machine read and write as files: engine hosts do."""

    def writer(self, limit: int) -> FileWriter:
        """Begin a blob of at most `limit` bytes."""
        ...

    async def adopt(self, path: Path, limit: int) -> AdoptedBlob:
        """Make a copy of a local file a blob, and remove the file.

        ValueError for what is not a plain file, BlobTooLargeError past `limit` bytes: in both cases it is removed.
        BlobsUnavailableError: it stays, and may be adopted later.
        """
        ...

    async def put(self, content: bytes, limit: int) -> AdoptedBlob:
        """Make some bytes a blob; BlobTooLargeError past `limit` bytes, BlobsUnavailableError."""
        ...

    async def sizes(self, names: Sequence[str]) -> dict[str, int | None]:
        """The sizes of blobs in bytes, None for those that are missing; BlobsUnavailableError."""
        ...

    async def local_path(self, name: str) -> Path:
        """The path at which a program of this machine can read a blob, verified as by `read`; it must not write there.

        BlobMissingError, BlobDamagedError, BlobsUnavailableError.
        """
        ...

    async def check_writable(self) -> None:
        """Write a file where every blob is written first, and remove it; BlobsUnavailableError."""
        ...
