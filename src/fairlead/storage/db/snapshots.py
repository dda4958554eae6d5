"""A database as it was at one moment, read in many steps: for copies that must be consistent."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol, TypeVar

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import DatabaseError

from fairlead.storage.db.database import Work
from fairlead.storage.db.opening import file_of
from fairlead.storage.db.postgresql import unavailable_server
from fairlead.storage.db.server_engine import connect, make_engine
from fairlead.storage.db.sqlite import sqlite_engine, unavailable_file

T = TypeVar("T")
_CONNECT_SECONDS: Final = 10.0
_STATEMENT_SECONDS: Final = 300.0


class Snapshot(Protocol):
    """A database as it was at one moment, whatever is written to it meanwhile."""

    async def read(self, work: Work[T]) -> T:
        """Run work that only reads; one after the other. DatabaseUnavailableError."""
        ...


@asynccontextmanager
async def open_snapshot(url: str) -> AsyncIterator[Snapshot]:
    """Take a snapshot of an existing database, over a connection of its own; DatabaseUnavailableError.

    Meanwhile SQLite keeps all writes in its log, and PostgreSQL every row that is replaced.
    """
    async with AsyncExitStack() as stack:
        file = file_of(url)
        snapshot = await (_of_server(url, stack) if file is None else _of_file(file, stack))
        yield snapshot


async def _of_file(path: Path, stack: AsyncExitStack) -> Snapshot:
    """A connection that has begun to read, and so keeps seeing the state of its first read."""
    thread = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="fairlead-snapshot"))
    engine = sqlite_engine(path)
    snapshot = _FileSnapshot(engine.connect, thread)
    stack.callback(engine.dispose)
    stack.callback(snapshot.close)
    await snapshot.read(lambda connection: connection.exec_driver_sql("SELECT 1 FROM sqlite_master").all())
    return snapshot


class _FileSnapshot:
    def __init__(self, connect: Callable[[], Connection], thread: ThreadPoolExecutor) -> None:
        self._connect = connect
        self._thread = thread
        self._connection: Connection | None = None

    async def read(self, work: Work[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, work)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _read(self, work: Work[T]) -> T:
        try:
            if self._connection is None:
                self._connection = self._connect()
                self._connection.exec_driver_sql("BEGIN")
            return work(self._connection)
        except (DatabaseError, OSError) as error:
            if (unavailable := unavailable_file(error)) is None:
                raise
            raise unavailable from error


async def _of_server(url: str, stack: AsyncExitStack) -> Snapshot:
    """A transaction of PostgreSQL that sees what was committed before it."""
    engine = make_engine(make_url(url), _CONNECT_SECONDS, _STATEMENT_SECONDS)
    stack.push_async_callback(engine.dispose)
    try:
        connection, driver = await connect(engine)
        stack.push_async_callback(connection.close)
        stack.push_async_callback(connection.invalidate)  # its transaction ends with it in any case
        await driver.transaction(isolation="repeatable_read", readonly=True).start()
        await driver.execute("SELECT 1")  # the first read fixes the snapshot
    except Exception as error:
        raise unavailable_server(error) from error
    return _ServerSnapshot(connection)


class _ServerConnection(Protocol):
    async def run_sync(self, work: Work[T], /) -> T: ...


class _ServerSnapshot:
    def __init__(self, connection: _ServerConnection) -> None:
        self._connection = connection

    async def read(self, work: Work[T]) -> T:
        try:
            return await self._connection.run_sync(work)
        except Exception as error:
            raise unavailable_server(error) from error
