"""The database as the rest of storage sees it: functions over a connection, run in a transaction.

One SQLAlchemy Core code serves both dialects; this module is all that differs between them. SQLite works in threads of
its own (one that writes, a few that read), PostgreSQL on the event loop through asyncpg.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DatabaseError, DBAPIError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fairlead.storage.db.committer import Committer
from fairlead.storage.db.statements import sqlite_driver

T = TypeVar("T")
Work = Callable[[Connection], T]

_READERS: Final = 4
_BUSY_SECONDS: Final = 2.0
_CACHE_KIB: Final = 4096
_CHECKPOINT_PAGES: Final = 4000
"""How long the log of SQLite may get (16 MB) before its pages are copied into the database. A page that many
transactions write is copied once: with the default of a quarter of it, copying took as long as writing the log."""
_DURABLE: Final = ("PRAGMA synchronous=FULL", f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
_NOT_DURABLE: Final = ("PRAGMA synchronous=NORMAL", "PRAGMA wal_autocheckpoint=0")
_BUSY_PAUSE_SECONDS: Final = 0.001
"""Between two tries to take the lock that another process has, which has it for 3 to 4 ms as a rule."""
_CONNECT_SECONDS: Final = 3.0
_STATEMENT_SECONDS: Final = 30.0
_POOL_SIZE: Final = 16


class DatabaseUnavailableError(Exception):
    """The database is locked, full, gone or unreachable; nothing was written. Worth trying again."""


class Database(Protocol):
    """A database: work is a function of a connection; it commits when the function returns, else nothing happened."""

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run work in one durable transaction; DatabaseUnavailableError when it could not be made durable.

        One that need not be `durable` by itself is so at the latest with the next that is: never without those before.
        """
        ...

    async def read(self, work: Work[T]) -> T:
        """Run work that only reads, on a consistent snapshot."""
        ...

    async def close(self) -> None:
        """Finish running work and release every connection."""
        ...


def open_database(url: str) -> Database:
    """Open a database by its URL: `sqlite:///path` or `postgresql://…`; ValueError for any other."""
    parsed = make_url(url)
    match parsed.get_backend_name():
        case "sqlite" if parsed.database:
            return SqliteDatabase(Path(parsed.database))
        case "postgresql":
            return PostgresDatabase(parsed.set(drivername="postgresql+asyncpg"))
        case other:
            raise ValueError(f"a database of kind {other!r} is not supported; use sqlite:///path or postgresql://")


def sqlite_engine(path: Path) -> Engine:
    """Make an engine for one SQLite file, durable against power loss: WAL, synchronous=FULL."""
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        connect_args={"check_same_thread": False, "timeout": _BUSY_SECONDS},
        hide_parameters=True,  # an error's text goes to logs, the callers' bodies must not
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: sqlite3.Connection, _record: object) -> None:
        # pysqlite would begin transactions by itself, and too late; BEGIN is ours (see _begin).
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        for pragma in _DURABLE:
            connection.execute(pragma)
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")

    return engine


class SqliteDatabase:
    """SQLite in WAL mode: one writer at a time, and a few reading threads.

    The statements of a write run on the event loop and only its COMMIT, which waits for the disk, in a thread. SQLite
    gives the interpreter's lock away at every row; a thread that must win it back from a busy loop each time took ten
    times as long and cost more than the statements (docs/why.md).
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = sqlite_engine(path)
        self._committer = Committer("fairlead-write")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="fairlead-read")
        self._writing: Connection | None = None
        self._writing_to: int | None = None
        self._is_durable: bool | None = None
        self._inode: int | None = None
        self._lock = threading.Lock()
        self._turn = asyncio.Lock()

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run work in one transaction. Once begun it is finished, whatever becomes of the caller."""
        async with self._turn:
            try:
                connection = self._writer_connection()
                try:
                    if durable != self._is_durable:
                        self._set_durable(connection, durable=durable)
                    await self._begin(connection)
                    result = work(connection)
                except BaseException:
                    connection.rollback()
                    raise
                if durable:
                    await self._commit(connection)
                else:
                    sqlite_driver(connection).commit()
                connection.commit()  # SQLAlchemy has nothing left to
            except (DatabaseError, sqlite3.DatabaseError, OSError) as error:
                unavailable = _unavailable(error)
                if unavailable is None:
                    raise
                self._drop_writer()
                raise unavailable from error
            return result

    async def read(self, work: Work[T]) -> T:
        """Run reading work in one of the reading threads."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)

    async def close(self) -> None:
        """Let running work finish, then close the file."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._close)

    async def _commit(self, connection: Connection) -> None:
        """Commit in a thread, because it waits for the disk. Cancelling this is heard when it has been done."""
        try:
            await self._committer.run(sqlite_driver(connection).commit)
        except asyncio.CancelledError:
            is_done = False
            while not is_done:
                with suppress(asyncio.CancelledError):
                    await self._committer.run(_nothing)  # one order after the other
                    is_done = True
            connection.rollback()  # where it could not be committed; else SQLAlchemy alone has something left to end
            raise

    async def _begin(self, connection: Connection) -> None:
        """Take SQLite's write lock; another process may have it, and is waited for without holding up the loop."""
        driver = sqlite_driver(connection)
        give_up_at = time.monotonic() + _BUSY_SECONDS
        connection.begin()  # SQLAlchemy's own notion of a transaction; pysqlite begins nothing for it
        while True:
            try:
                driver.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                    raise
                await asyncio.sleep(_BUSY_PAUSE_SECONDS)
            else:
                return

    def _set_durable(self, connection: Connection, *, durable: bool) -> None:
        """Say whether the next COMMIT waits for the disk (and may copy the log into the database, which does)."""
        self._is_durable = None
        for pragma in _DURABLE if durable else _NOT_DURABLE:
            sqlite_driver(connection).execute(pragma)
        self._is_durable = durable

    def _read(self, work: Work[T]) -> T:
        try:
            self._refuse_if_gone()
            with self._engine.connect() as connection:
                connection.exec_driver_sql("BEGIN")
                return work(connection)
        except (DatabaseError, OSError) as error:
            if (unavailable := _unavailable(error)) is None:
                raise
            raise unavailable from error

    def _writer_connection(self) -> Connection:
        """The writing connection, to the file that stands at the path now."""
        if self._inode is not None:  # there was a file once: SQLite must not make an empty one in its place
            self._refuse_if_gone()
        if self._writing_to != self._inode:  # a reader may have been the first to see that the file was replaced
            self._drop_writer()
        if self._writing is None:
            self._path.touch(0o600)  # SQLite gives its other files the same mode
            self._writing = self._engine.connect()
            self._is_durable = True  # as sqlite_engine has it
            self._writing.exec_driver_sql("PRAGMA busy_timeout=0")  # _begin waits, and does not hold up the loop
            self._writing.rollback()
            self._refuse_if_gone()
            self._writing_to = self._inode
        return self._writing

    def _refuse_if_gone(self) -> None:
        """SQLite would write on into a deleted file and lose it all: a changed inode is a database that is gone."""
        inode = self._path.stat().st_ino
        with self._lock:
            if self._inode is None:
                self._inode = inode
            if self._inode != inode:
                self._inode = inode
                self._engine.dispose()
                raise OSError(f"{self._path} was replaced while it was open")

    def _drop_writer(self) -> None:
        """Throw a writer in an unknown state away; the next write opens another."""
        connection, self._writing = self._writing, None
        if connection is not None:
            connection.invalidate()
            connection.close()

    def _close(self) -> None:
        self._committer.close()
        self._readers.shutdown()
        if self._writing is not None:
            self._writing.close()
        self._engine.dispose()


def _nothing() -> None:
    pass


_PASSING_IN_SQLITE: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)
"""What is wrong with the file, not with the statement: an operator can mend it under a running server."""


def _unavailable(error: Exception) -> DatabaseUnavailableError | None:
    """What a file that is locked, full, gone or broken is told as; None for a statement that is wrong."""
    if isinstance(error, OSError):
        return DatabaseUnavailableError(str(error))
    origin = error.orig if isinstance(error, DatabaseError) else error
    code = getattr(origin, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the low byte of an extended code
    return DatabaseUnavailableError(str(origin)) if code in _PASSING_IN_SQLITE else None


class PostgresDatabase:
    """PostgreSQL through asyncpg; every statement and every wait has a bound."""

    def __init__(self, url: URL) -> None:
        from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415 -- 7 MB that SQLite has no use for

        self._engine = create_async_engine(
            url,
            isolation_level="AUTOCOMMIT",  # transactions are begun by _run, at the driver
            hide_parameters=True,
            pool_size=_POOL_SIZE,
            max_overflow=0,
            pool_timeout=_CONNECT_SECONDS,
            connect_args={"timeout": _CONNECT_SECONDS, "command_timeout": _STATEMENT_SECONDS},
        )

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run work in one transaction; PostgreSQL answers COMMIT when it is durable, where it has to be."""
        return await self._run(work, "read_committed", durable=durable)

    async def read(self, work: Work[T]) -> T:
        """Run reading work in a transaction of its own."""
        return await self._run(work, "repeatable_read")

    async def _run(self, work: Work[T], isolation: str, *, durable: bool = True) -> T:
        is_broken = False
        try:
            async with self._engine.connect() as connection:
                driver: Any = (await connection.get_raw_connection()).driver_connection
                if driver.is_closed():  # since it was used last: PostgreSQL was restarted
                    await connection.invalidate()
                    driver = (await connection.get_raw_connection()).driver_connection
                try:
                    transaction = driver.transaction(isolation=isolation)
                    await transaction.start()
                    if not durable:
                        await driver.execute("SET LOCAL synchronous_commit = off")
                    try:
                        result = await connection.run_sync(work)
                    except Exception:
                        if not driver.is_closed():
                            await transaction.rollback()
                        raise
                    await transaction.commit()
                except BaseException as error:
                    is_broken = driver.is_closed()
                    if is_broken or not isinstance(error, Exception):  # cancelled: it may still be at something
                        await connection.invalidate()
                    raise
        except Exception as error:
            raise (DatabaseUnavailableError(str(error)) if is_broken else _translated(error)) from error
        return result

    async def close(self) -> None:
        """Return every connection."""
        await self._engine.dispose()


_PASSING_SQLSTATES: Final = ("08", "40", "53", "55", "57")
"""Classes of SQLSTATE that pass by themselves: connection, rollback, resources (disk full), lock, intervention."""


def _translated(error: Exception) -> Exception:
    """Tell a database that is away or overwhelmed from a statement that is wrong."""
    if isinstance(error, OSError | TimeoutError | asyncio.TimeoutError | PoolTimeoutError):
        return DatabaseUnavailableError(str(error) or type(error).__name__)
    broken = isinstance(error, DBAPIError) and (error.connection_invalidated or isinstance(error, InterfaceError))
    origin = error.orig if isinstance(error, DBAPIError) else error  # asyncpg's own, where it could not even connect
    if broken or (getattr(origin, "sqlstate", None) or "").startswith(_PASSING_SQLSTATES):
        return DatabaseUnavailableError(str(origin))
    return error


def file_of(url: str) -> Path | None:
    """The file behind a SQLite URL, or None for a server."""
    parsed = make_url(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None
