"""Whether this server can take work, tested by writing, which every call needs."""

import enum
from collections.abc import Awaitable, Callable
from typing import Final

from fairlead.operations.shared_look import SharedLook
from fairlead.storage.blobs.store import BlobsUnavailableError, StoreUnprovenError
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Transaction, Work
from fairlead.storage.db.migrate import schema_state

_SILENT: Final = "the database or the store for files does not answer"


class Status(enum.StrEnum):
    """What a server can do now."""

    STARTING = "starting"
    """It is still starting; calls wait."""
    READY = "ready"
    """It takes work."""
    DEGRADED = "degraded"
    """It runs, but cannot take work because of problems."""
    DRAINING = "draining"
    """It is stopping: work in progress continues, new work belongs elsewhere."""


class Readiness:
    """Tests whether the database and the data directory can be written, once for all who ask.

    `write_row` writes a small row of this server's own; `write_file` a file, and raises BlobsUnavailableError.
    """

    def __init__(self, database: Database, write_row: Work[object], write_file: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._write_row = write_row
        self._write_file = write_file
        self._look = SharedLook(self._problems)
        self._is_draining = False

    def begin_draining(self) -> None:
        """Report from now on that this server is stopping."""
        self._is_draining = True

    async def check(self) -> tuple[Status, list[str]]:
        """What this server can do, and what is wrong if it is degraded; takes at most two seconds."""
        if self._is_draining:
            return Status.DRAINING, []
        problems = await self._look.ask()
        if problems is None:
            problems = [_SILENT]
        return (Status.DEGRADED if problems else Status.READY), problems

    async def close(self) -> None:
        """Cancel a test in progress."""
        await self._look.close()

    async def _problems(self) -> list[str]:
        return [*await self._problems_of_database(), *await self._problems_of_files()]

    async def _problems_of_database(self) -> list[str]:
        try:
            is_usable = await self._database.write(self._try_to_write)
        except DatabaseUnavailableError:
            return ["the database cannot be written"]
        return [] if is_usable else ["the database has a schema that this version cannot use"]

    def _try_to_write(self, connection: Transaction) -> bool:
        is_usable = schema_state(connection).is_usable
        if is_usable:
            self._write_row(connection)
        return is_usable

    async def _problems_of_files(self) -> list[str]:
        try:
            await self._write_file()
        except StoreUnprovenError:
            return ["the store for files is not known to be the installation's; see the log and `fairlead doctor`"]
        except BlobsUnavailableError:
            return ["files cannot be written to their store"]
        return []
