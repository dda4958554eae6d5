"""The markers of a store: objects beside its blobs, whose names say which installation the store belongs to.

A marker is a name and no content, so that they are read by one listing and written without asking first: servers that
mark a new store at the same time leave one each, and the installation is recorded under either. A marker is proposed
first and established once the database has recorded it: a store with only a proposed marker belongs to no installation
yet.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import msgspec
import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, LocalStore, MemoryStore, S3Store

from fairlead.storage.blobs.errors import BlobsUnavailableError

_FOLDER: Final = "installation"
_PROPOSED: Final = ".proposed"


class Markers(msgspec.Struct, frozen=True):
    """The markers of a store, by whether the database of their installation has recorded them."""

    established: frozenset[str]
    proposed: frozenset[str]


class StoreMarkers:
    """Reads and writes the markers of a store. Every method raises BlobsUnavailableError while it is away."""

    def __init__(self, store: LocalStore | MemoryStore | S3Store | GCSStore | AzureStore) -> None:
        self._store = store

    async def read(self) -> Markers:
        """The existing markers."""
        async with _reaching():
            found = [one["path"] async for page in obstore.list(self._store, _FOLDER) for one in page]
        names = [path.rpartition("/")[2] for path in found]
        proposed = {name.removesuffix(_PROPOSED) for name in names if name.endswith(_PROPOSED)}
        return Markers(frozenset(name for name in names if not name.endswith(_PROPOSED)), frozenset(proposed))

    async def propose(self, marker: str) -> None:
        """Write a marker that is not recorded yet."""
        async with _reaching():
            await obstore.put_async(self._store, f"{_FOLDER}/{marker}{_PROPOSED}", b"")

    async def establish(self, marker: str) -> None:
        """Write a marker that is recorded, in place of its proposal."""
        async with _reaching():
            await obstore.put_async(self._store, f"{_FOLDER}/{marker}", b"")
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._store, f"{_FOLDER}/{marker}{_PROPOSED}")

    async def remove(self, marker: str) -> None:
        """Remove a marker, if it exists."""
        async with _reaching():
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._store, f"{_FOLDER}/{marker}")


@asynccontextmanager
async def _reaching() -> AsyncIterator[None]:
    try:
        yield
    except (BaseError, OSError) as error:
        raise BlobsUnavailableError(str(error)) from error
