"""The files of archives: JSON Lines, compressed by gzip. Tools for either format read them: zcat, jq, DuckDB, pandas.

A file takes its name when it is complete and durable, and never changes afterwards. Its name has its digest, so that
two files of one number never replace each other.
"""

import fcntl
import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Self

import msgspec

from fairlead.domain.ledger.archives import (
    FORMAT,
    FORMAT_VERSION,
    ArchivedRun,
    ArchiveHeader,
    ArchiveLine,
    ArchiveSummary,
)

_PATTERN: Final = "fairlead-archive-*.jsonl.gz"
_LEVEL: Final = 6
_PIECE: Final = 1 << 20
_DIGITS: Final = 16
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(ArchiveLine).decode


class ArchiveFileError(Exception):
    """A file or a folder of archives cannot be used; the text says which one and why."""


class WrittenFile(msgspec.Struct, frozen=True):
    """A file that is durable: its name, its size in bytes and its SHA-256."""

    name: str
    size: int
    digest: str


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Make a folder where there is none, for its owner alone, and keep other commands out; ArchiveFileError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ArchiveFileError(f"the folder {folder} cannot be used: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise ArchiveFileError(f"another `fairlead archive` writes into {folder}") from error
    finally:
        os.close(descriptor)


class ArchiveWriter:
    """Writes a file line by line; to be used in a locked folder, and as a context. OSError."""

    def __init__(self, folder: Path, header: ArchiveHeader) -> None:
        self._folder = folder
        self._number = header.number
        self._partial = folder / ".archive.part"
        self._file = _HashedFile(self._partial)
        # Without a time in it the same lines are the same bytes, whenever they are written.
        self._lines = gzip.GzipFile("", "wb", _LEVEL, self._file, mtime=0)
        self.write(header)

    def __enter__(self) -> Self:
        """Write."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove an unfinished file."""
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, line: ArchiveLine) -> None:
        """Write a line."""
        self._lines.write(_encode(line) + b"\n")

    def keep(self, summary: ArchiveSummary) -> WrittenFile:
        """Write the last line and make the file durable under its name."""
        self.write(summary)
        self._lines.close()
        size, digest = self._file.make_durable()
        name = f"fairlead-archive-{self._number:06d}-{digest[:_DIGITS]}.jsonl.gz"
        self._partial.replace(self._folder / name)
        _sync_folder(self._folder)
        return WrittenFile(name, size, digest)


class _HashedFile:
    """A file that knows the digest of what was written to it."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> int:
        """Write."""
        self._digest.update(data)
        self._size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        """Flush everything to the system."""
        self._file.flush()

    def make_durable(self) -> tuple[int, str]:
        """Wait for the disk; the size and the SHA-256 of the file."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._size, self._digest.hexdigest()

    def close(self) -> None:
        """Close."""
        with suppress(OSError):  # what can no longer be flushed belongs to a file that is discarded
            self._file.close()


def files_of(folder: Path) -> list[str]:
    """The names of the archives in a folder, in the order of their numbers; ArchiveFileError where there is none."""
    if not folder.is_dir():
        raise ArchiveFileError(f"there is no folder {folder}")
    return sorted(path.name for path in folder.glob(_PATTERN))


def digest_of(path: Path) -> str:
    """The SHA-256 of a file; ArchiveFileError where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
    except OSError as error:
        raise ArchiveFileError(f"{path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def read_archive(path: Path) -> Iterator[ArchiveLine]:
    """The lines of an archive; ArchiveFileError where they cannot be read, or are of a later format."""
    try:
        with gzip.open(path) as lines:
            for line in lines:
                found = _decode(line)
                if isinstance(found, ArchiveHeader) and (found.format, found.version) != (FORMAT, FORMAT_VERSION):
                    raise ArchiveFileError(f"{path} has the format {found.format} {found.version}, which is not known")
                yield found
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as error:
        raise ArchiveFileError(f"{path} cannot be read: {error}") from error


def archived_runs(path: Path) -> Iterator[ArchivedRun]:
    """The runs of an archive, in order; ArchiveFileError."""
    return (line for line in read_archive(path) if isinstance(line, ArchivedRun))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
