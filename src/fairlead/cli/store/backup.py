"""`fairlead backup` and `fairlead restore`: a whole installation as a folder, and back."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import click
from msgspec.structs import asdict

import fairlead
from fairlead.cli.database import settings_option
from fairlead.cli.output import json_option, print_result
from fairlead.cli.store.blobs import wrong_store
from fairlead.clock import Clock
from fairlead.operations import backup as operations
from fairlead.operations.backup import BackupError, BackupSource, Manifest
from fairlead.server.blob_stores import ready_blobs, shown_place, stored_blobs
from fairlead.server.confinement import copies_folder
from fairlead.server.installation import lock_data, opened_database, prepare_data, secret_file
from fairlead.server.settings import Settings
from fairlead.storage.blobs.errors import BlobsUnavailableError
from fairlead.storage.blobs.gate import open_gate
from fairlead.storage.db.opening import open_database
from fairlead.storage.db.snapshots import open_snapshot

_APART: Final = (
    "The secret key is not in it: keep that apart, for without it provider keys cannot be opened and links are invalid."
)
_NOT_HERE: Final = (
    "The backup has no secret key: put the one of the installation in its place before you start a server."
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--with-secret", is_flag=True, help="Put the secret key into the backup as well.")
@settings_option
@json_option
def backup(*, folder: Path, with_secret: bool, settings: Settings, as_json: bool) -> None:
    """Copy the database and all files that it names into FOLDER, which is made. Servers may run meanwhile.

    Exits with status 1 where files were missing or damaged: all others are in the backup.
    """
    secret, target = secret_file(settings), folder.absolute()
    if with_secret and (secret is None or not secret.is_file()):
        raise click.ClickException("the secret is the setting FAIRLEAD_SECRET_KEY, or there is none; keep it yourself")

    async def work() -> Manifest:
        async with opened_database(settings) as database, open_snapshot(settings.database_url()) as snapshot:
            blobs = stored_blobs(settings)
            problem = None if blobs is None else await wrong_store(settings, database, blobs)
            if blobs is None or problem is not None:
                raise BackupError(problem or f"there is no data directory {settings.data}")
            folders, taken = _folders(settings), secret if with_secret else None
            source = BackupSource(database, blobs, folders, taken, fairlead.__version__)
            return await operations.back_up(target, snapshot, source, Clock())

    manifest = _run(work, settings)
    lost = len(manifest.missing) + len(manifest.damaged)
    words = f"{folder}: {manifest.rows} rows, {manifest.blobs} files of {manifest.blob_bytes} bytes."
    if manifest.swept:
        words += f" {manifest.swept} files were removed meanwhile: nothing names them any more."
    words += f" WRONG: {lost} files are missing or damaged (see `fairlead audit --blobs`)." if lost else ""
    words += "" if with_secret else f"\n{_APART}"
    print_result({"folder": str(folder), **_show(manifest)}, words, as_json=as_json)
    if lost:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@settings_option
@json_option
def restore(folder: Path, settings: Settings, as_json: bool) -> None:
    """Restore the backup FOLDER into an installation that is empty: no database, no files."""

    async def work() -> Manifest:
        manifest = operations.read_manifest(folder)
        operations.check_backup(folder, manifest)
        prepare_data(settings)
        async with AsyncExitStack() as stack:
            lock_data(settings, stack)
            database = open_database(settings.database_url(), statement_seconds=None)
            stack.push_async_callback(database.close)
            blobs = ready_blobs(settings, lambda _: None, open_gate())
            await operations.restore(folder, manifest, database, blobs, Clock())
        operations.restore_folders(folder, manifest, _folders(settings))
        return manifest

    manifest = _run(work, settings)
    words = f"Restored {manifest.rows} rows and {manifest.blobs} files."
    print_result(_show(manifest), f"{words} {_restore_secret(folder, settings)}".rstrip(), as_json=as_json)


def _run(work: Callable[[], Coroutine[object, object, Manifest]], settings: Settings) -> Manifest:
    try:
        return asyncio.run(work())
    except BackupError as error:
        raise click.ClickException(str(error)) from error
    except BlobsUnavailableError as error:
        raise click.ClickException(f"{shown_place(settings)} cannot be used: {error}") from error
    except OSError as error:
        raise click.ClickException(f"the backup cannot be written or read: {error}") from error


def _restore_secret(folder: Path, settings: Settings) -> str:
    """Put the secret of a backup in its place, and return what to print about it."""
    kept, place = operations.secret_of(folder), secret_file(settings)
    if place is None or place.exists():
        return ""
    if kept is None:
        return _NOT_HERE
    shutil.copyfile(kept, place)
    place.chmod(0o600)
    return ""


def _folders(settings: Settings) -> dict[str, Path]:
    """The other files of the data directory that cannot be made again."""
    return {"archives": settings.data / "archives", "release_packs": copies_folder(settings)}


def _show(manifest: Manifest) -> dict[str, object]:
    told = asdict(manifest)
    return {**told, "tables": {table.name: table.rows for table in manifest.tables}, "files": len(manifest.files)}
