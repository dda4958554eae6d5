"""Archives of published versions: announced with a signed link, uploaded once, and downloaded by anyone (K-08).

An archive is a file of its publisher's workspace, so it counts towards that workspace's storage, is audited like any
other, and its bytes stay as long as anything names them.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol, TypeVar

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.storage_limits import StorageLimits
from fairlead.domain.faults import BodyTooLarge, FaultError, Forbidden, ServiceUnavailable
from fairlead.domain.registry import (
    VERSIONS_MAX,
    BadEntry,
    Kind,
    NodeEntry,
    NodeVersion,
    NotThere,
    RegistryFaultError,
    StorageSpent,
    VersionEntry,
    archive_id,
    archive_name,
    refuse_entry,
    require,
    split_archive_id,
)
from fairlead.identity.links import LinkParts, LinkRefusedError, Links
from fairlead.operations.assets.results import ServedAsset
from fairlead.operations.registry.publishing import actor_of, check_id
from fairlead.storage import registry
from fairlead.storage.accounts.storage_usage import StorageFullError
from fairlead.storage.assets.files import WorkflowFile
from fairlead.storage.blobs.store import Blobs, BlobsUnavailableError, BlobTooLargeError
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work

T = TypeVar("T")
ARCHIVE_TYPE: Final = "application/zip"
_ZIP: Final = b"PK\x03\x04"
_LINK_SECONDS: Final = 3600
_UPLOAD: Final = "upload"


class _Sink(Protocol):
    async def write(self, chunk: bytes) -> None: ...


class Announced(msgspec.Struct, frozen=True):
    """A version that waits for its archive, and the path and query of the upload link."""

    version: NodeVersion
    link: str


class _Intake:
    """Receives the bytes of an archive; RegistryFaultError where they do not begin like one."""

    def __init__(self, sink: _Sink) -> None:
        self._sink = sink
        self._head = b""
        self.size = 0

    async def write(self, chunk: bytes) -> None:
        self.size += len(chunk)
        if len(self._head) < len(_ZIP):
            self._head += bytes(chunk[: len(_ZIP)])
            if not _ZIP.startswith(self._head[: len(_ZIP)]):
                raise RegistryFaultError(BadEntry("An archive must be a zip file."))
        await self._sink.write(chunk)


class NodeArchives:
    """Archives of one installation, of at most `limit` bytes each. `links` sign for the path of archives.

    Every method may raise RegistryFaultError, and FaultError where the database or the store is away.
    """

    def __init__(
        self, database: Database, blobs: Blobs, links: Links, clock: Clock, limits: StorageLimits, *, limit: int
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._links = links
        self._clock = clock
        self._limits = limits
        self.limit: Final = limit

    async def announce(self, caller: Caller, publisher_id: str, node: NodeEntry, version: VersionEntry) -> Announced:
        """Announce a version of a node; the node is created or updated from the entry.

        The version stays hidden until its archive has arrived, and may be announced again until then.
        """
        require(refuse_entry(node))
        require(refuse_entry(version, without_address=True))
        check_id(Kind.PUBLISHER, publisher_id)
        actor, now = actor_of(caller), self._clock.now_ms()
        announced = await self._write(
            lambda c: registry.announce_version(c, actor, publisher_id, node, version, now, VERSIONS_MAX)
        )
        id_, until = archive_id(node.id, version.version), now // 1000 + _LINK_SECONDS
        return Announced(announced, self._links.sign(id_, until, caller.workspace_id, _UPLOAD))

    async def receive(self, id_: str, link: Mapping[str, str], send_to: Callable[[_Sink], Awaitable[None]]) -> None:
        """Keep the archive of an announced version, and publish the version; the same archive again changes nothing.

        FaultError(Forbidden) for an invalid link, given by the parts of its query. `send_to` has the bytes written.
        """
        parts = LinkParts(id=id_, **link)
        now = self._clock.now_ms()
        try:
            self._links.verify(parts, now / 1000)
        except LinkRefusedError as error:
            raise FaultError(Forbidden(f"This link is not good: {error}.")) from error
        node_id, version = split_archive_id(parts.id) or ("", "")
        writer = self._blobs.writer(self.limit)
        intake = _Intake(writer)
        try:
            await send_to(intake)
            if intake.size < len(_ZIP):
                raise RegistryFaultError(BadEntry("An archive must be a zip file."))
            blob = await writer.commit()
        except BlobTooLargeError as error:
            raise FaultError(BodyTooLarge(self.limit)) from error
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error
        finally:
            await writer.abort()
        file = WorkflowFile(
            id=new_id(), workspace_id=parts.name, kind=registry.ARCHIVE_KIND, name=archive_name(node_id, version),
            blob=blob, size=intake.size, content_type=ARCHIVE_TYPE, created_at=now,
        )  # fmt: skip
        try:
            await self._write(lambda c: registry.publish_archive(c, node_id, version, file, self._limits))
        except StorageFullError as error:
            raise RegistryFaultError(StorageSpent(error.what, error.limit)) from error

    async def find(self, id_: str) -> ServedAsset:
        """An archive that anybody may download, by its `archive_id`; RegistryFaultError(NotThere)."""
        found = split_archive_id(id_)
        file = None if found is None else await self._read(lambda c: registry.find_archive(c, *found))
        if file is None:
            raise RegistryFaultError(NotThere(Kind.VERSION, id_))
        return ServedAsset(file.blob, file.size, ARCHIVE_TYPE, file.name, "attachment", seconds_left=0)

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            raise FaultError(_away()) from error

    async def _write(self, work: Work[T]) -> T:
        try:
            return await self._database.write(work)
        except DatabaseUnavailableError as error:
            raise FaultError(_away()) from error


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("Archives cannot be read or written right now.")
