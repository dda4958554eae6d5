"""The files of workflows: uploaded, found by name, made by jobs, and deleted once they expire (C-02, C-06).

A file is a name in the flat namespace of its workspace and kind, for a blob. The same bytes are kept once, regardless
of their owner; a name is a key and never a path. A link to a file is its own credential, for one file and
a time (K-03).
"""

from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.storage_limits import UNLIMITED, StorageLimits
from fairlead.domain.assets.filenames import (
    KINDS,
    FileReference,
    clean_extension,
    clean_name,
    flat_name,
    is_kept_name,
    is_web_link,
    read_reference,
)
from fairlead.domain.assets.media_types import HEAD_BYTES, TEXT, is_shown, media_type
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.errors import TOO_MUCH, VALIDATION
from fairlead.domain.jobs.faults import BadFile, FileTooLarge, JobFaultError, StorageFull, TooManyUploads
from fairlead.engine.hosts.service import DeclinedError
from fairlead.fair_shares import FairShares, NoRoomError
from fairlead.identity.links import Links
from fairlead.moderation.protocol import Question
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.assets.downloads import Downloads
from fairlead.operations.assets.moderation import Moderation
from fairlead.storage.accounts.storage_usage import StorageFullError, usage_of
from fairlead.storage.assets.files import (
    NoNameLeftError,
    WorkflowFile,
    add_file,
    delete_expired,
    extend_expiry,
    find_referenced,
    keep_file,
    list_names,
    take_output_name,
)
from fairlead.storage.blobs.store import (
    AdoptedBlob,
    BlobDamagedError,
    BlobMissingError,
    BlobsUnavailableError,
    BlobTooLargeError,
    FileBlobs,
    FileWriter,
)
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work


class FileLink(NamedTuple):
    """Path and query of a link, and until when it is valid, in ms since 1970."""

    path: str
    expires_at: int


class FileLinks:
    """Signs links to files, each valid for `seconds` or until its file expires. `links` sign for the path of files."""

    def __init__(self, links: Links, clock: Clock, seconds: int = 3600) -> None:
        self._links = links
        self._clock = clock
        self.seconds: Final = seconds
        """How long a link is valid."""

    def sign(self, file: WorkflowFile) -> FileLink:
        """A link to a file. Browsers show pictures, films and sounds, and save anything else."""
        until = self._clock.now_ms() // 1000 + self.seconds
        if file.expires_at is not None:
            until = min(until, -(-file.expires_at // 1000))  # not before the file itself
        disposition = "inline" if is_shown(file.content_type) else "attachment"
        return FileLink(self._links.sign(file.id, until, file.name, disposition), until * 1000)


T = TypeVar("T")

_HOUR_MS: Final = 3_600_000
_OUTPUT_BYTES: Final = 4 * 2**30
_LISTED_MAX: Final = 100_000
_EXPIRED_AT_ONCE: Final = 500
_SHOWN: Final = 200
_UPLOAD_WAIT_SECONDS: Final = 10.0
TEXTS_KIND: Final = "output"
"""The kind of the files that texts of jobs become."""
NO_SUCH_FILE: Final = "FileNotFoundError"
"""The kind of error by which a host knows that there is no such file."""
_DAMAGED: Final = "OSError"


class SavedName(msgspec.Struct, frozen=True):
    """A stored upload: its name in workflows, its kind, its size in bytes, and its BLAKE3."""

    name: str
    type: str
    size: int
    hash: str
    subfolder: str = ""


class Intake:
    """A file that is being received. `abort` may always be called, and does nothing after `commit`."""

    def __init__(self, files: "WorkflowFiles", workspace_id: str, writer: FileWriter, limit: int) -> None:
        self._files = files
        self._workspace_id = workspace_id
        self._writer = writer
        self._limit = limit
        self._head = b""
        self.size = 0
        """How many bytes have come."""

    async def write(self, chunk: bytes) -> None:
        """Take more bytes. JobFaultError(FileTooLarge); FaultError(ServiceUnavailable) when they cannot be stored."""
        if len(self._head) < HEAD_BYTES:
            self._head = (self._head + bytes(chunk[:HEAD_BYTES]))[:HEAD_BYTES]
        self.size += len(chunk)
        try:
            await self._writer.write(chunk)
        except BlobTooLargeError as error:
            raise JobFaultError(FileTooLarge(self._limit)) from error
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error

    async def commit(self, name: str, kind: str, *, overwrite: bool = False) -> SavedName:
        """Store the file under a name (engine-wire, 2.5), perhaps replacing the one of that name.

        JobFaultError(BadFile) for a bad name or kind. Otherwise as `store`.
        """
        check_new(name, kind)
        return await self._files.save(self._workspace_id, await self.store(), name, kind, overwrite=overwrite)

    async def finish(self) -> str:
        """Take no more bytes, and return their hash; nothing is stored yet.

        JobFaultError(BadFile) where there are none.
        """
        return (await self._finish())[0]

    async def store(self) -> AdoptedBlob:
        """Store the bytes without a name: a row must name them within a day. JobFaultError(BadFile) for no bytes.

        AssetFaultError(ContentBlocked) for those that may not be stored, and FaultError(ServiceUnavailable) while that
        cannot be decided; in both cases nothing is left of them.
        """
        digest, path = await self._finish()
        await self._files.moderation.check(self._workspace_id, Question(str(path), self.size, digest))
        try:
            return AdoptedBlob(await self._writer.commit(), self.size, self._head)
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error

    async def _finish(self) -> tuple[str, Path]:
        if self.size == 0:
            raise JobFaultError(BadFile("The file is empty."))
        try:
            return await self._writer.finish()
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error

    async def abort(self) -> None:
        """Discard what was received."""
        await self._writer.abort()


class WorkflowFiles:
    """Files of all workspaces; every call names one.

    `upload_bytes` and `output_bytes` bound a file that is sent and one that a job makes. Uploads to `temp` live for
    `temp_ms`, those to `output` for `kept_ms`; inputs stay. `moderation` decides which uploads are stored. `uploads`
    are the places for files that are received at a time, which workspaces share. `limits` apply to a workspace that has
    no storage limits of its own.
    """

    def __init__(
        self,
        database: Database,
        blobs: FileBlobs,
        downloads: Downloads,
        clock: Clock,
        observe: Observer,
        moderation: Moderation,
        uploads: FairShares,
        *,
        upload_bytes: int,
        kept_ms: int,
        temp_ms: int = 24 * _HOUR_MS,
        output_bytes: int = _OUTPUT_BYTES,
        limits: StorageLimits = UNLIMITED,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._downloads = downloads
        self.moderation = moderation
        self._uploads = uploads
        self._clock = clock
        self._observe = observe
        self.limits: Final = limits
        self._upload_bytes = upload_bytes
        self._output_bytes = output_bytes
        self._lifetimes = {"output": kept_ms, "temp": temp_ms}

    def receive(self, workspace_id: str, limit: int | None = None) -> Intake:
        """Begin to receive a file, of at most `limit` bytes where that is less than uploads may have."""
        limit = self._upload_bytes if limit is None else min(limit, self._upload_bytes)
        return Intake(self, workspace_id, self._blobs.writer(limit), limit)

    @asynccontextmanager
    async def receiving(self, workspace_id: str) -> AsyncIterator[None]:
        """Hold one of the places for uploads, within the workspace's share; JobFaultError: TooManyUploads, StorageFull.

        While a caller waits for a place, it sends no more than the connection buffers.
        """
        await self.check_room(workspace_id)
        try:
            await self._uploads.take(workspace_id, _UPLOAD_WAIT_SECONDS)
        except NoRoomError as error:
            raise JobFaultError(TooManyUploads()) from error
        try:
            yield
        finally:
            self._uploads.give_back(workspace_id)

    async def save(
        self, workspace_id: str, content: AdoptedBlob, name: str, kind: str, *, overwrite: bool = False
    ) -> SavedName:
        """Give a name to stored bytes, as `Intake.commit` does."""
        file = self._new(workspace_id, kind, check_new(name, kind), content, self._expiry(kind))
        try:
            file = await _reach(self._database.write(lambda c: keep_file(c, file, self.limits, overwrite=overwrite)))
        except StorageFullError as error:
            raise JobFaultError(StorageFull(error.what, error.limit)) from error
        except NoNameLeftError as error:
            raise JobFaultError(BadFile("Too many files have this name; choose another.")) from error
        return SavedName(file.name, file.kind, file.size, file.blob)

    async def look_up(self, workspace_id: str, reference: FileReference, kind: str) -> WorkflowFile | None:
        """The file of a workspace that a reference means, or None; FaultError(ServiceUnavailable)."""
        return await _reach(self._database.read(self._find(workspace_id, reference, kind)))

    async def find(self, workspace_id: str, name: str, *, expired: bool = False) -> Path:
        """The path of a file that a workflow names, by name, content or link.

        DeclinedError where there is none; FaultError(ServiceUnavailable) while that is not known. With `expired` also
        files that have expired, which are kept while a job needs them.
        """
        if is_web_link(name):
            return await self._downloads.path(workspace_id, name)
        reference = read_reference(name)
        file = None
        if reference is not None:
            now = 0 if expired else self._clock.now_ms()
            file = await _reach(
                self._database.read(lambda c: find_referenced(c, workspace_id, reference, "input", now))
            )
        if file is None:
            raise DeclinedError(NO_SUCH_FILE, f"There is no file {_show(name)}.")
        try:
            return await self._blobs.local_path(file.blob)
        except BlobMissingError as error:
            raise DeclinedError(NO_SUCH_FILE, f"The bytes of the file {_show(name)} are gone.") from error
        except BlobDamagedError as error:
            raise DeclinedError(_DAMAGED, f"The stored bytes of the file {_show(name)} are damaged.") from error
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error

    async def list_inputs(self, workspace_id: str, folder: str) -> Sequence[str]:
        """The names of the inputs, which are all in one folder; DeclinedError for another one, FaultError as `find`."""
        if folder.strip("/\\.") != "":
            raise DeclinedError(NO_SUCH_FILE, f"There is no folder {_show(folder)}: files are all in one.")
        now = self._clock.now_ms()
        return await _reach(self._database.read(lambda c: list_names(c, workspace_id, "input", now, _LISTED_MAX)))

    async def name(self, workspace_id: str, beginning: str, extension: str, kind: str, *, exact: bool) -> str:
        """The name of a file that a job makes: `beginning_00001_.ext`, or an exact one.

        Folders are dropped from a beginning, where numbers distinguish files, and become part of an exact name.
        DeclinedError for what cannot be a name, FaultError as `find`.
        """
        if exact:
            if (flat := flat_name(beginning)) is None or kind not in self._lifetimes:
                raise DeclinedError(VALIDATION, f"{_show(beginning)} is not a name for a file.")
            return flat
        cleaned, suffix = clean_name(beginning), clean_extension(extension)
        if cleaned is None or suffix is None or kind not in self._lifetimes:
            raise DeclinedError(VALIDATION, f"{_show(beginning)} cannot begin the name of a file.")
        now = self._clock.now_ms()
        try:
            return await _reach(
                self._database.write(
                    lambda c: take_output_name(c, workspace_id, kind, cleaned, suffix, now), durable=False
                )
            )
        except NoNameLeftError as error:
            in_use = f"Too many names that begin with {_show(beginning)} are in use."
            raise DeclinedError(VALIDATION, in_use) from error

    async def adopt(self, made: Path | bytes, filename: str, kind: str) -> AdoptedBlob:
        """Store a file that a job has made, or its bytes, to be kept under the name it was given. The file is moved.

        DeclinedError when it cannot be stored, and for a name that was not given; FaultError as `find`, after which the
        file is still there.
        """
        if not is_kept_name(filename) or kind not in self._lifetimes:
            raise DeclinedError(VALIDATION, f"{_show(filename)} is not a name for a file.")
        try:
            if isinstance(made, bytes):
                return await self._blobs.put(made, self._output_bytes)
            return await self._blobs.adopt(made, self._output_bytes)
        except BlobTooLargeError as error:
            too_large = f"The file {_show(filename)} has more than {self._output_bytes} bytes."
            raise DeclinedError(TOO_MUCH, too_large) from error
        except ValueError as error:
            raise DeclinedError(NO_SUCH_FILE, f"The file {_show(filename)} was not written.") from error
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error

    async def keep(
        self, workspace_id: str, job_id: str, content: AdoptedBlob, filename: str, kind: str, expires_at: int
    ) -> None:
        """Name a file of a job that `adopt` has stored; DeclinedError when that is not possible, FaultError.

        The name is durable with the end of the job.
        """
        new = self._new(workspace_id, kind, filename, content, expires_at, job_id)
        try:
            await _reach(self._database.write(lambda c: keep_file(c, new, self.limits, overwrite=True), durable=False))
        except StorageFullError as error:
            full = f"The workspace may keep {error.limit} {error.what}, and keeps as many: {_show(filename)} is lost."
            raise DeclinedError(TOO_MUCH, full) from error

    async def keep_texts(
        self, workspace_id: str, job_id: str, texts: Mapping[str, bytes], expires_at: int
    ) -> Mapping[str, WorkflowFile]:
        """Store texts of a job as files, at least until a time; returns these, by the names of the texts.

        The job has the texts already, so they are stored even where its workspace's storage is full.
        FaultError(ServiceUnavailable).
        """
        new = {}
        try:
            for name, text in texts.items():
                writer = self._blobs.writer(len(text))
                try:
                    await writer.write(text)
                    content = AdoptedBlob(await writer.commit(), len(text), b"")
                finally:
                    await writer.abort()
                file = self._new(workspace_id, TEXTS_KIND, name, content, expires_at, job_id)
                new[name] = replace(file, content_type=TEXT)
            return await self._database.write(lambda c: {name: add_file(c, file) for name, file in new.items()})
        except (BlobsUnavailableError, DatabaseUnavailableError, NoNameLeftError) as error:
            raise FaultError(_away()) from error

    async def keep_longer(self, workspace_id: str, names: Collection[tuple[str, str]], expires_at: int) -> None:
        """Keep files, given by kind and name, at least until a time; FaultError(ServiceUnavailable)."""
        await _reach(self._database.write(lambda c: extend_expiry(c, workspace_id, names, expires_at)))

    async def forget_expired(self) -> int:
        """Delete expired files, a bounded number at a call; returns how many.

        Their bytes are deleted when nothing names them. A database that is away is observed.
        """
        now = self._clock.now_ms()
        try:
            return await self._database.write(lambda c: delete_expired(c, now, _EXPIRED_AT_ONCE))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("sweep workflow files", str(error)))
            return 0

    async def check_room(self, workspace_id: str) -> None:
        """Refuse early where nothing more can be stored: JobFaultError(StorageFull), FaultError(ServiceUnavailable)."""
        usage = await _reach(self._database.read(lambda c: usage_of(c, workspace_id)))
        if (spent := usage.find_used_up(self.limits)) is not None:
            raise JobFaultError(StorageFull(*spent))

    def _new(
        self,
        workspace_id: str,
        kind: str,
        name: str,
        content: AdoptedBlob,
        expires_at: int | None,
        job_id: str | None = None,
    ) -> WorkflowFile:
        return WorkflowFile(
            id=new_id(),
            workspace_id=workspace_id,
            kind=kind,
            name=name,
            blob=content.name,
            size=content.size,
            content_type=media_type(None, content.head),
            created_at=self._clock.now_ms(),
            job_id=job_id,
            expires_at=expires_at,
        )

    def _expiry(self, kind: str) -> int | None:
        lifetime = self._lifetimes.get(kind)
        return None if lifetime is None else self._clock.now_ms() + lifetime

    def _find(self, workspace_id: str, reference: FileReference, kind: str) -> Work[WorkflowFile | None]:
        now = self._clock.now_ms()
        return lambda connection: find_referenced(connection, workspace_id, reference, kind, now)


def check_new(name: str, kind: str) -> str:
    """The name that an upload will have, unless it is taken; JobFaultError(BadFile)."""
    if kind not in KINDS:
        raise JobFaultError(BadFile(f"{_show(kind)} is not a type of file; types are {', '.join(KINDS)}."))
    cleaned = clean_name(name)
    if cleaned is None:
        raise JobFaultError(BadFile("The file has no name that can be used."))
    return cleaned


async def _reach(answer: Awaitable[T]) -> T:
    """The result of database work; FaultError(ServiceUnavailable) when the database is away."""
    try:
        return await answer
    except DatabaseUnavailableError as error:
        raise FaultError(_away()) from error


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("Files cannot be read or written right now.")


def _show(name: str) -> str:
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")
