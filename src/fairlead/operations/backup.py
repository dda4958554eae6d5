"""Backup and restore of an installation: its database, its files, and everything else that cannot be made again.

A backup is a folder. The tables are of one moment; the files that they name are copied afterwards, as files never
change. A file that was removed meanwhile, because nothing names it any more, is counted and not copied. The folder gets
its name when everything is written: after an interruption its name ends in `.partial`, and it is not a backup.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.storage.blobs.references import KINDS, references_after, references_to, replace_marker
from fairlead.storage.blobs.store import BlobDamagedError, BlobMissingError, StoredBlobs
from fairlead.storage.db.database import Database, Transaction
from fairlead.storage.db.migrate import HEAD, upgrade
from fairlead.storage.db.snapshots import Snapshot
from fairlead.storage.db.table_files import (
    BadTableFileError,
    TableFile,
    check_tables,
    dump_tables,
    file_digest,
    load_tables,
)

FORMAT: Final = 1
_PAGE: Final = 1000
_MANIFEST: Final = "manifest.json"
_TABLES: Final = "tables"
_BLOBS: Final = "blobs"
_FOLDERS: Final = "folders"
_SECRET: Final = "secret-key"  # noqa: S105 -- the name of a file
_PARTIAL: Final = ".partial"
_LARGEST: Final = 2**40


class BackupError(Exception):
    """A backup cannot be made or restored; the text says why."""


class BackedUpFile(msgspec.Struct, frozen=True):
    """A file of a folder of the data directory: its path there, its size, and the BLAKE3 of its bytes."""

    path: str
    size: int
    digest: str


class Manifest(msgspec.Struct, frozen=True):
    """The content of a backup. `created_at` is the time of its tables, in milliseconds since 1970.

    `missing` and `damaged` name blobs that the database names and the store did not have whole; `swept` counts those
    that were removed after the tables were read, as nothing names them any more.
    """

    format: int
    version: str
    revision: str
    created_at: int
    tables: list[TableFile]
    blobs: int
    blob_bytes: int
    swept: int
    missing: list[str]
    damaged: list[str]
    files: list[BackedUpFile]
    has_secret: bool

    @property
    def rows(self) -> int:
        """The rows of all tables."""
        return sum(table.rows for table in self.tables)


class _Copied(msgspec.Struct):
    blobs: int = 0
    bytes: int = 0
    swept: int = 0
    missing: list[str] = []
    damaged: list[str] = []


class BackupSource(msgspec.Struct, frozen=True):
    """What is backed up: the blobs, the database to ask what was swept, folders by name, and the secret's file or None.

    `version` is that of the program.
    """

    database: Database
    blobs: StoredBlobs
    folders: Mapping[str, Path]
    secret: Path | None
    version: str


async def back_up(target: Path, snapshot: Snapshot, source: BackupSource, clock: Clock) -> Manifest:
    """Make a backup of everything that a snapshot of the database names, as a new folder.

    BackupError, OSError, DatabaseUnavailableError, BlobsUnavailableError.
    """
    partly = _begin(target)
    now = clock.now_ms()
    tables = await dump_tables(snapshot, partly / _TABLES)
    names = [name async for name in _named_blobs(snapshot, now)]
    copied = _Copied()
    for name in names:
        await _copy_blob(source, name, partly / _BLOBS, copied, now)
    files = await asyncio.to_thread(lambda: list(_copy_folders(source.folders, partly / _FOLDERS)))
    if source.secret is not None:
        shutil.copy2(source.secret, partly / _SECRET)
    manifest = Manifest(
        FORMAT, source.version, HEAD, now, tables, copied.blobs, copied.bytes, copied.swept, copied.missing,
        copied.damaged, files, source.secret is not None,
    )  # fmt: skip
    (partly / _MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    await asyncio.to_thread(_make_durable, partly)
    partly.rename(target)
    _sync(target.parent)
    return manifest


def _begin(target: Path) -> Path:
    """The folder that a backup is written to until it is complete; the remains of an interrupted one are removed."""
    if target.exists():
        raise BackupError(f"{target} exists already; name a folder that does not")
    partly = target.with_name(target.name + _PARTIAL)
    shutil.rmtree(partly, ignore_errors=True)
    for folder in (partly, partly / _TABLES, partly / _BLOBS):
        folder.mkdir(mode=0o700, parents=True)
    return partly


async def _named_blobs(snapshot: Snapshot, now: int) -> AsyncIterator[str]:
    """The blobs that a snapshot names, each once."""
    known = set[str]()
    for kind in KINDS:
        after = ""
        while page := await snapshot.read(partial(references_after, kind=kind, after=after, now=now, limit=_PAGE)):
            after = page[-1].id
            for one in page:
                if one.blob not in known:
                    known.add(one.blob)
                    yield one.blob


async def _copy_blob(source: BackupSource, name: str, folder: Path, copied: _Copied, now: int) -> None:
    path = folder / name[:2] / name
    path.parent.mkdir(mode=0o700, exist_ok=True)
    size = 0
    try:
        with _new_file(path) as file:
            async for piece in await source.blobs.read(name, 0, _LARGEST):
                size += await asyncio.to_thread(file.write, piece)
    except BlobMissingError:
        path.unlink()
        is_named = await source.database.read(lambda c: references_to(c, name, now, 1))
        if is_named:
            copied.missing.append(name)
        else:
            copied.swept += 1
    except BlobDamagedError:
        path.unlink()
        copied.damaged.append(name)
    else:
        copied.blobs += 1
        copied.bytes += size


def _copy_folders(folders: Mapping[str, Path], target: Path) -> Iterator[BackedUpFile]:
    for name, folder in folders.items():
        if folder.is_dir():
            shutil.copytree(folder, target / name, symlinks=True)
            for path in sorted(one for one in (target / name).rglob("*") if one.is_file() and not one.is_symlink()):
                yield BackedUpFile(str(path.relative_to(target)), path.stat().st_size, file_digest(path))


def read_manifest(folder: Path) -> Manifest:
    """The content of a backup; BackupError for a folder that is not a backup, or one of another version."""
    try:
        manifest = msgspec.json.decode((folder / _MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError as error:
        raise BackupError(f"{folder} is not a backup: it has no {_MANIFEST}") from error
    except (msgspec.DecodeError, OSError) as error:
        raise BackupError(f"{folder / _MANIFEST} cannot be read: {error}") from error
    if manifest.format != FORMAT or manifest.revision != HEAD:
        raise BackupError(
            f"the backup was made by Fairlead {manifest.version} with the schema {manifest.revision}, and this version "
            f"has {HEAD}: restore it with that version, then upgrade"
        )
    return manifest


def check_backup(folder: Path, manifest: Manifest) -> None:
    """Compare the tables and the files of a backup with their digests; BackupError.

    Blobs are checked when they are read.
    """
    try:
        check_tables(folder / _TABLES, manifest.tables)
        for one in manifest.files:
            if file_digest(folder / _FOLDERS / one.path) != one.digest:
                raise BackupError(f"{one.path} is not as it was written")
    except (BadTableFileError, OSError) as error:
        raise BackupError(f"the backup is damaged: {error}") from error


async def restore(folder: Path, manifest: Manifest, database: Database, blobs: StoredBlobs, clock: Clock) -> None:
    """Restore the files and the tables of a backup that was checked into an empty installation.

    The tables appear at the end and all at once; until then it may be interrupted and done again. BackupError,
    DatabaseUnavailableError, BlobsUnavailableError.
    """
    if (await blobs.markers.read()).established:
        raise BackupError("the store for files belongs to an installation already; restore into an empty one")
    restored = 0
    for path in sorted((folder / _BLOBS).glob("??/*")):
        restored += await _restore_blob(path, blobs)
    if restored != manifest.blobs:
        raise BackupError(f"the backup is damaged: it has {restored} of its {manifest.blobs} files")
    marker = new_id()
    await blobs.markers.propose(marker)
    await database.write(partial(_restore_tables, folder=folder, manifest=manifest, marker=marker, now=clock.now_ms()))
    await blobs.markers.establish(marker)


def _restore_tables(connection: Transaction, folder: Path, manifest: Manifest, marker: str, now: int) -> None:
    try:
        upgrade(connection)
        load_tables(connection, folder / _TABLES, manifest.tables)
    except BadTableFileError as error:
        raise BackupError(f"the backup is damaged: {error}") from error
    except ValueError as error:
        raise BackupError(f"{error}; restore into an empty installation") from error
    replace_marker(connection, marker, now)


async def _restore_blob(path: Path, blobs: StoredBlobs) -> int:
    writer = blobs.writer(_LARGEST)
    try:
        with path.open("rb") as file:
            while piece := await asyncio.to_thread(file.read, 1024 * 1024):
                await writer.write(piece)
        name, _ = await writer.finish()
        if name != path.name:
            raise BackupError(f"the backup is damaged: the bytes of {path.name} are not those of its name")
        await writer.commit()
    finally:
        await writer.abort()
    return 1


def restore_folders(folder: Path, manifest: Manifest, folders: Mapping[str, Path]) -> None:
    """Copy the folders of a backup to their places; BackupError where one has files already."""
    for name in sorted({one.path.partition("/")[0] for one in manifest.files}):
        target = folders[name]
        if target.is_dir() and any(target.iterdir()):
            raise BackupError(f"{target} is not empty; restore into an empty installation")
        shutil.copytree(folder / _FOLDERS / name, target, symlinks=True, dirs_exist_ok=True)


def secret_of(folder: Path) -> Path | None:
    """The secret in a backup; None where it was kept apart."""
    path = folder / _SECRET
    return path if path.is_file() else None


def _new_file(path: Path) -> BinaryIO:
    return path.open("xb")


def _make_durable(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
