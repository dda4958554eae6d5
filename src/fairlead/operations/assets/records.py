"""Assets: files of a workspace that are made, read and deleted by id (J-14).

Every file of a workspace is an asset, also the outputs of its jobs. Hashes are of the bytes as they came, and known
when they are stored.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Final, TypeVar

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.assets.faults import (
    AssetFault,
    AssetFaultError,
    AssetInUse,
    AssetNotFound,
    BlobNotFound,
    HashMismatch,
)
from fairlead.domain.assets.media_types import media_type
from fairlead.domain.assets.records import AddedAsset, Asset, NewAsset
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.asset_references import (
    REFERENCES_MAX,
    AssetReference,
    references_in,
    refusal_of_assets,
    with_names,
)
from fairlead.domain.jobs.faults import BadFile, BadSubmission, JobFaultError, StorageFull
from fairlead.domain.jobs.jobs import NewJob
from fairlead.moderation.protocol import Question
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.assets.files import FileLinks, Intake, WorkflowFiles, check_new
from fairlead.operations.assets.shared_store import damaged_fault, lost_fault, unreadable_fault
from fairlead.storage.accounts.storage_usage import StorageFullError
from fairlead.storage.assets.files import NoNameLeftError, WorkflowFile, find_content
from fairlead.storage.assets.records import add_asset, add_asset_of, delete_asset, find_assets
from fairlead.storage.blobs.store import (
    AdoptedBlob,
    BlobDamagedError,
    BlobLostError,
    BlobMissingError,
    BlobsUnavailableError,
    FileBlobs,
)
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.jobs.ids import public_id_of

T = TypeVar("T")
_LARGE_BYTES: Final = 64 * 1024
_INPUT: Final = "input"
_AWAY: Final = "Assets cannot be read or written right now."


class Assets:
    """Assets of all workspaces; every call names one.

    Every method raises FaultError(ServiceUnavailable) where the database or the store is away. `verifies` says that
    bytes are compared with their hash before a link to them is given out.
    """

    def __init__(
        self,
        files: WorkflowFiles,
        blobs: FileBlobs,
        links: FileLinks,
        database: Database,
        clock: Clock,
        observe: Observer,
        *,
        verifies: bool = True,
    ) -> None:
        self._verifies = verifies
        self._files = files
        self._blobs = blobs
        self._links = links
        self._database = database
        self._clock = clock
        self._observe = observe

    def receiving(self, caller: Caller) -> AbstractAsyncContextManager[None]:
        """Hold one of the places for uploads, within the workspace's share; JobFaultError(TooManyUploads)."""
        return self._files.receiving(caller.workspace_id)

    def receive(self, caller: Caller) -> Intake:
        """Begin an asset that is sent."""
        return self._files.receive(caller.workspace_id)

    async def add(self, caller: Caller, intake: Intake, name: str, new: NewAsset, expected: str | None) -> AddedAsset:
        """Store an upload as an asset. `expected` is the hash it must have.

        AssetFaultError: HashMismatch, ContentBlocked; JobFaultError(BadFile).
        """
        cleaned = check_new(name, _INPUT)
        digest = await intake.finish()
        if expected is not None and digest != expected:
            raise AssetFaultError(HashMismatch(digest))
        content = await intake.store()
        file = self._new(caller, content, cleaned, new)
        added = await self._add(lambda connection: add_asset(connection, file, self._files.limits))
        return AddedAsset(self._asset(added.file), added.is_new, added.is_known)

    async def add_known(self, caller: Caller, digest: str, new: NewAsset) -> AddedAsset:
        """Make an asset of bytes that the workspace has already.

        AssetFaultError: BlobNotFound, also where only others have such bytes; ContentBlocked. JobFaultError(BadFile).
        """
        name = "" if new.file_path is None else check_new(new.file_path, _INPUT)
        await self._check_known(caller, digest)
        file = self._new(caller, AdoptedBlob(digest, 0, b""), name, new)
        added = await self._add(lambda connection: add_asset_of(connection, file, self._files.limits))
        if added is None:
            raise AssetFaultError(BlobNotFound())
        return AddedAsset(self._asset(added.file), added.is_new, added.is_known)

    async def knows(self, caller: Caller, digest: str) -> bool:
        """Whether the workspace has a file with some bytes.

        Where they are lost it has none, so that they are sent again.
        """
        return await self._content(caller, digest) is not None

    async def find(self, caller: Caller, asset_id: str) -> Asset:
        """An asset by its id; AssetFaultError(AssetNotFound)."""
        file = (await self._find(caller, [asset_id])).get(asset_id)
        if file is None:
            raise AssetFaultError(AssetNotFound())
        if (job_id := file.job_id) is None:
            return self._asset(file)
        return self._asset(file, await self._read(lambda c: public_id_of(c, caller.workspace_id, job_id)))

    async def find_whole(self, caller: Caller, asset_id: str) -> Asset:
        """An asset whose bytes are verified, so that its link leads to them; AssetFaultError(AssetNotFound).

        Where the store itself serves them, it is asked for their size alone.
        """
        asset = await self.find(caller, asset_id)
        try:
            await (self._blobs.verify if self._verifies else self._blobs.check)(asset.blob, asset.size)
        except BlobMissingError as error:
            raise FaultError(lost_fault()) from error
        except BlobDamagedError as error:
            raise FaultError(damaged_fault()) from error
        except BlobsUnavailableError as error:
            raise FaultError(unreadable_fault(error, _AWAY)) from error
        return asset

    async def delete(self, caller: Caller, asset_id: str) -> None:
        """Delete an asset, and its bytes when nothing names them. AssetFaultError: AssetNotFound, AssetInUse."""
        now = self._clock.now_ms()
        deleted = await self._write(lambda c: delete_asset(c, caller.workspace_id, asset_id, now))
        if not deleted:
            fault: AssetFault = AssetNotFound() if deleted is None else AssetInUse()
            raise AssetFaultError(fault)

    async def resolve(self, caller: Caller, new: NewJob) -> NewJob:
        """A submission with the names of files in place of its references to assets.

        JobFaultError: SubmissionRefused(missing_asset) for missing assets, BadSubmission for too many.
        """
        references = await _off_loop(new.workflow, lambda: references_in(new.workflow))
        if not references:
            return new
        if len(references) > REFERENCES_MAX:
            bad = BadSubmission("invalid_request", f"A workflow may have {REFERENCES_MAX} references to assets.")
            raise JobFaultError(bad)
        found = await self._find(caller, {reference.id for reference in references if reference.id is not None})
        missing = [reference for reference in references if not _is_meant(reference, found)]
        if missing:
            raise JobFaultError(refusal_of_assets(missing))
        names = {id_: _name(file) for id_, file in found.items()}
        workflow = await _off_loop(new.workflow, lambda: with_names(new.workflow, names))
        return msgspec.structs.replace(new, workflow=workflow, files=sorted(found))

    def _asset(self, file: WorkflowFile, job_id: str | None = None) -> Asset:
        link = self._links.sign(file)
        return Asset(
            id=file.id,
            name=_name(file),
            blob=file.blob,
            size=file.size,
            content_type=file.content_type,
            created_at=file.created_at,
            link=link.path,
            link_expires_at=link.expires_at,
            expires_at=file.expires_at,
            job_id=job_id,
            path=file.path,
            tags=() if file.tags is None else msgspec.json.decode(file.tags, type=list[str]),
        )

    async def _find(self, caller: Caller, ids: Collection[str]) -> dict[str, WorkflowFile]:
        now = self._clock.now_ms()
        return await self._read(lambda c: find_assets(c, caller.workspace_id, ids, now))

    def _new(self, caller: Caller, content: AdoptedBlob, name: str, new: NewAsset) -> WorkflowFile:
        now = self._clock.now_ms()
        tags: Sequence[str] = list(dict.fromkeys(new.tags))
        return WorkflowFile(
            id=new_id(),
            workspace_id=caller.workspace_id,
            kind=_INPUT,
            name=name,
            blob=content.name,
            size=content.size,
            content_type=media_type(new.content_type, content.head),
            created_at=now,
            expires_at=None if new.expires_in is None else now + new.expires_in * 1000,
            path=new.file_path,
            tags=msgspec.json.encode(tags).decode() if tags else None,
        )

    async def _check_known(self, caller: Caller, digest: str) -> None:
        """Have stored bytes of the workspace judged: a job may have made them, or the rules may have changed since."""
        moderation = self._files.moderation
        moderation.check_hash(caller.workspace_id, digest)
        file = await self._content(caller, digest)
        if file is None:
            raise AssetFaultError(BlobNotFound())
        if moderation.looks_inside:
            with _word_faults():
                path = await self._blobs.local_path(digest)
            await moderation.check(caller.workspace_id, Question(str(path), file.size, digest))

    async def _content(self, caller: Caller, digest: str) -> WorkflowFile | None:
        """A file of the workspace with some bytes that can be read; None where it has none."""
        now = self._clock.now_ms()
        file = await self._read(lambda c: find_content(c, caller.workspace_id, digest, now))
        if file is not None:
            try:
                with _word_faults():
                    await self._blobs.verify(digest, file.size)
            except AssetFaultError:
                return None
        return file

    async def _add(self, work: Work[T]) -> T:
        try:
            return await self._write(work)
        except NoNameLeftError as error:
            raise JobFaultError(BadFile("Too many files have this name; choose another.")) from error
        except StorageFullError as error:
            raise JobFaultError(StorageFull(error.what, error.limit)) from error

    async def _write(self, work: Work[T]) -> T:
        try:
            return await self._database.write(work)
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("write assets", str(error)))
            raise FaultError(_away()) from error

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("read assets", str(error)))
            raise FaultError(_away()) from error


@contextmanager
def _word_faults() -> Iterator[None]:
    try:
        yield
    except BlobLostError as error:
        raise AssetFaultError(BlobNotFound()) from error
    except BlobsUnavailableError as error:
        raise FaultError(unreadable_fault(error, _AWAY)) from error


async def _off_loop(workflow: bytes, read: Callable[[], T]) -> T:
    """Find the references of a workflow; a large one is searched in a thread, because it takes long."""
    return read() if len(workflow) < _LARGE_BYTES else await asyncio.to_thread(read)


def _is_meant(reference: AssetReference, found: dict[str, WorkflowFile]) -> bool:
    """Whether a referenced asset exists and has the referenced bytes."""
    file = None if reference.id is None else found.get(reference.id)
    return file is not None and reference.hash in (None, file.blob)


def _name(file: WorkflowFile) -> str:
    """What a workflow may call a file, in any input that takes the name of one."""
    return file.name if file.kind == _INPUT else f"{file.name} [{file.kind}]"


def _away() -> ServiceUnavailable:
    return ServiceUnavailable(_AWAY)
