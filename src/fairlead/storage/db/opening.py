"""Opens a database by its URL; transactions that a restarting server has certainly not written are repeated."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy import make_url

from fairlead.storage.db.database import UNTIMED, Database, DatabaseTimes, DatabaseUnavailableError, Work
from fairlead.storage.db.postgresql import STATEMENT_SECONDS, PostgresDatabase
from fairlead.storage.db.sqlite import SqliteDatabase

T = TypeVar("T")

_PAUSE_FIRST: Final = 0.05
_PAUSE_MAX: Final = 0.5
"""Seconds between two attempts to reach a database server that is away."""


def open_database(
    url: str, times: DatabaseTimes = UNTIMED, statement_seconds: float | None = STATEMENT_SECONDS
) -> Database:
    """Open a database by its URL: `sqlite:///path` or `postgresql://…`; ValueError for any other.

    A statement of PostgreSQL may take `statement_seconds`; None is no limit.
    """
    parsed = make_url(url)
    match parsed.get_backend_name():
        case "sqlite" if parsed.database:
            return SqliteDatabase(Path(parsed.database), times)
        case "postgresql":
            return PostgresDatabase(parsed.set(drivername="postgresql+asyncpg"), times, statement_seconds)
        case other:
            raise ValueError(f"a database of kind {other!r} is not supported; use sqlite:///path or postgresql://")


def file_of(url: str) -> Path | None:
    """The file behind a SQLite URL, or None for a server."""
    parsed = make_url(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


class WaitingDatabase:
    """A database server that may be away for a moment: what was certainly not written is repeated for `seconds`.

    They count from the first failure. A transaction of a process that was frozen itself fails late, and says nothing of
    how long the database has been away.
    """

    def __init__(self, database: Database, seconds: float) -> None:
        self._database = database
        self._seconds = seconds
        self.close = database.close

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run work in one transaction, as soon as one can begin."""
        return await self._patiently(lambda: self._database.write(work, durable=durable))

    async def read(self, work: Work[T]) -> T:
        """Run reading work, as soon as it can be read."""
        return await self._patiently(lambda: self._database.read(work))

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        give_up_at = None
        pause = _PAUSE_FIRST
        while True:
            try:
                return await ask()
            except DatabaseUnavailableError as error:
                now = time.monotonic()
                give_up_at = now + self._seconds if give_up_at is None else give_up_at
                if not error.is_repeatable or now + pause > give_up_at:
                    raise
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_MAX)
