"""Whether this server can take work, tested by what every call needs: writing."""

import asyncio
import enum
from collections.abc import Awaitable, Callable
from typing import Any, Final

from fairlead.storage.blobs.store import BlobsUnavailableError
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.db.migrate import HEAD, revision_of

_KEPT_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 1.5
"""Seconds until a look is given up: /readyz answers within two."""
_SILENT: Final = "the database or the data directory does not answer"


class Status(enum.StrEnum):
    """What a server can do right now."""

    STARTING = "starting"
    """It is still starting; calls wait."""
    READY = "ready"
    """It takes work."""
    DEGRADED = "degraded"
    """It runs, but cannot take work: there are problems."""
    DRAINING = "draining"
    """It was told to stop: what is under way goes on, new work belongs elsewhere."""


class Readiness:
    """Looks whether the database and the data directory can be written, at most once a second however many ask.

    `write_row` writes something small of this server's own; `write_file` a file, and raises BlobsUnavailableError.
    Only one look is under way at a time: one that hangs is reported to all, and not repeated.
    """

    def __init__(self, database: Database, write_row: Work[object], write_file: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._write_row = write_row
        self._write_file = write_file
        self._look: asyncio.Task[list[str]] | None = None
        self._good_until = 0.0
        self._is_draining = False

    def begin_draining(self) -> None:
        """Report from now on that this server is stopping."""
        self._is_draining = True

    async def check(self) -> tuple[Status, list[str]]:
        """What this server can do, and what is wrong where it is degraded; takes at most two seconds."""
        if self._is_draining:
            return Status.DRAINING, []
        loop = asyncio.get_running_loop()
        look = self._look
        if look is None or (look.done() and loop.time() >= self._good_until):
            look = self._look = loop.create_task(self._problems())
        await asyncio.wait([look], timeout=_PATIENCE_SECONDS)
        problems = look.result() if look.done() else [_SILENT]
        return (Status.DEGRADED if problems else Status.READY), problems

    async def close(self) -> None:
        """End a look that is under way."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])

    async def _problems(self) -> list[str]:
        try:
            return [*await self._problems_of_database(), *await self._problems_of_files()]
        finally:
            self._good_until = asyncio.get_running_loop().time() + _KEPT_SECONDS

    async def _problems_of_database(self) -> list[str]:
        try:
            revision = await self._database.write(self._try_to_write)
        except DatabaseUnavailableError:
            return ["the database cannot be written"]
        return [] if revision == HEAD else ["the database is not at this version's schema"]

    def _try_to_write(self, connection: Any) -> str | None:
        revision = revision_of(connection)
        if revision == HEAD:
            self._write_row(connection)
        return revision

    async def _problems_of_files(self) -> list[str]:
        try:
            await self._write_file()
        except BlobsUnavailableError:
            return ["files cannot be written to the data directory"]
        return []
