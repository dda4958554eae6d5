"""What editors keep for a workspace: its settings, and small files such as workflows. No other workspace sees them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.editor_documents import NAME_MAX, DocumentInfo, is_file_path, is_setting
from fairlead.domain.accounts.storage_limits import UNLIMITED, StorageLimits
from fairlead.domain.faults import FaultError, InvalidInput, RequestNotFound, ServiceUnavailable
from fairlead.domain.jobs.faults import BadFile, FileExists, FileTooLarge, JobFaultError, StorageFull
from fairlead.storage.accounts import editor_documents
from fairlead.storage.accounts.editor_documents import DocumentExistsError, Shelf, TooManyDocumentsError
from fairlead.storage.accounts.storage_usage import StorageFullError
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work

DOCUMENT_BYTES_MAX: Final = 2**20
SETTING_BYTES_MAX: Final = 16 * 1024
DOCUMENTS_MAX: Final = 1_000
"""How many settings a workspace may have, and how many files."""
T = TypeVar("T")


class EditorDocuments:
    """Keeps settings and files. Every method raises FaultError if the database is unavailable or a name is invalid."""

    def __init__(self, database: Database, clock: Clock, limits: StorageLimits = UNLIMITED) -> None:
        self._database = database
        self._clock = clock
        self._limits = limits

    async def settings(self, caller: Caller) -> Mapping[str, bytes]:
        """Every setting by its id, as JSON."""
        return await self._read(lambda c: editor_documents.read_documents(c, _settings(caller)))

    async def setting(self, caller: Caller, setting: str) -> bytes | None:
        """One setting as JSON; None if it was never changed."""
        _check_setting(setting)
        return await self._read(lambda c: editor_documents.find_document(c, _settings(caller), setting))

    async def change_settings(self, caller: Caller, changes: Mapping[str, bytes]) -> None:
        """Change several settings, all or none; JobFaultError if there would be too many, or one is too large."""
        for setting, content in changes.items():
            _check_setting(setting)
            if len(content) > SETTING_BYTES_MAX:
                raise JobFaultError(FileTooLarge(SETTING_BYTES_MAX))
        now, shelf = self._clock.now_ms(), _settings(caller, self._limits)
        await self._write(lambda c: editor_documents.put_documents(c, shelf, changes, now))

    async def files(self, caller: Caller, folder: str = "", *, deep: bool = False) -> Sequence[DocumentInfo]:
        """The files in a folder, optionally in all its subfolders too, by their names within it."""
        folder = folder.rstrip("/")
        if folder:
            _check_path(folder)
        found = await self._read(lambda c: editor_documents.list_documents(c, _files(caller, folder)))
        return [info for info in found if deep or "/" not in info.name]

    async def file(self, caller: Caller, path: str, at_first: bytes | None = None) -> bytes:
        """The content of a file; before its first change, the content `at_first`. FaultError(RequestNotFound)."""
        _check_path(path)
        found = await self._read(lambda c: editor_documents.find_document(c, _files(caller), path))
        content = at_first if found is None else found
        if content is None:
            raise FaultError(_no_file(path))
        return content

    async def put_file(self, caller: Caller, path: str, content: bytes, *, replace: bool) -> DocumentInfo:
        """Keep a file.

        JobFaultError if it exists and must not be replaced, if it is too large, or if there are too many files.
        """
        _check_path(path)
        if len(content) > DOCUMENT_BYTES_MAX:
            raise JobFaultError(FileTooLarge(DOCUMENT_BYTES_MAX))
        now = self._clock.now_ms()
        shelf = _files(caller, limits=self._limits)
        put = partial(editor_documents.put_document, shelf=shelf, name=path, content=content, at=now, replace=replace)
        await self._write(put)
        return DocumentInfo(path, len(content), now)

    async def delete_file(self, caller: Caller, path: str) -> None:
        """Delete a file; FaultError(RequestNotFound)."""
        _check_path(path)
        if not await self._write(lambda c: editor_documents.delete_document(c, _files(caller), path)):
            raise FaultError(_no_file(path))

    async def move_file(self, caller: Caller, path: str, to: str, *, replace: bool) -> DocumentInfo:
        """Rename a file; FaultError if it does not exist, JobFaultError if it must not replace an existing one."""
        _check_path(path)
        _check_path(to)
        moved = await self._write(
            lambda c: editor_documents.move_document(c, _files(caller), path, to, replace=replace)
        )
        if moved is None:
            raise FaultError(_no_file(path))
        return moved

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("What editors keep cannot be read right now.")) from error

    async def _write(self, work: Work[T]) -> T:
        try:
            return await self._database.write(work)
        except DocumentExistsError as error:
            raise JobFaultError(FileExists(error.name)) from error
        except StorageFullError as error:
            raise JobFaultError(StorageFull(error.what, error.limit)) from error
        except TooManyDocumentsError as error:
            detail = f"A workspace may have {DOCUMENTS_MAX} settings, and as many files of its editor."
            raise JobFaultError(BadFile(detail)) from error
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("What editors keep cannot be changed right now.")) from error


def _settings(caller: Caller, limits: StorageLimits = UNLIMITED) -> Shelf:
    return Shelf(caller.workspace_id, "settings/", DOCUMENTS_MAX, limits)


def _files(caller: Caller, folder: str = "", limits: StorageLimits = UNLIMITED) -> Shelf:
    return Shelf(caller.workspace_id, f"userdata/{folder}/" if folder else "userdata/", DOCUMENTS_MAX, limits)


def _no_file(path: str) -> RequestNotFound:
    return RequestNotFound(detail=f"There is no file {path}.")


def _check_setting(setting: str) -> None:
    if not is_setting(setting):
        raise FaultError(InvalidInput(f"The id of a setting has 1 to {NAME_MAX} printable characters."))


def _check_path(path: str) -> None:
    if not is_file_path(path):
        message = f"The name of a file has at most {NAME_MAX} printable characters, in segments between slashes."
        raise FaultError(InvalidInput(message))
