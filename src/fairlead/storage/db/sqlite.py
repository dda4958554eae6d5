"""SQLite, which works in threads of its own: one that commits, and a few that read."""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias, TypeVar
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DatabaseError

from fairlead.storage.db.database import UNTIMED, DatabaseTimes, DatabaseUnavailableError, Work
from fairlead.storage.db.statements import sqlite_driver

T = TypeVar("T")
_Order: TypeAlias = tuple[Callable[[], None], asyncio.Future[None]]
_READERS: Final = 4
_BUSY_SECONDS: Final = 2.0
_CACHE_KIB: Final = 4096
_CHECKPOINT_PAGES: Final = 4000
"""How long the log of SQLite may get (16 MB) before its pages are copied into the database.

A page that many transactions write is copied once: with the default, a quarter of this, copying took as long as writing
the log.
"""
_DURABLE: Final = ("PRAGMA synchronous=FULL", f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
_NOT_DURABLE: Final = ("PRAGMA synchronous=NORMAL", "PRAGMA wal_autocheckpoint=0")
_BUSY_PAUSE_SECONDS: Final = 0.001
"""The pause between two attempts to take the lock from another process, which usually holds it for 3 to 4 ms."""


def sqlite_engine(path: Path) -> Engine:
    """Make an engine for one existing SQLite file, durable against power loss: WAL, synchronous=FULL."""
    address = f"file:{quote(str(path))}?mode=rw"  # else SQLite makes an empty file where there is none
    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=lambda: sqlite3.connect(address, uri=True, check_same_thread=False, timeout=_BUSY_SECONDS),
        hide_parameters=True,  # errors are logged, and must not contain callers' bodies
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


class Committer:
    """The thread in which a COMMIT of SQLite waits for the disk, while the event loop goes on.

    It starts with the first piece of work, and does one after the other. An executor of the standard library does the
    same with a future, two locks and a semaphore, for each of which the thread must win the interpreter's lock while
    the loop is busy: that took 3 % of the cost of a run.
    """

    def __init__(self, name: str) -> None:
        self._name: Final = name
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, work: Callable[[], None]) -> asyncio.Future[None]:
        """Run work in the thread; the future is of the running loop, and raises what the work raises."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._orders.put((work, future))
        return future

    def close(self) -> None:
        """Wait until all queued work is done."""
        if self._thread is not None:
            self._orders.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            _do_order(*order)
            del order  # otherwise the waiting thread would keep a connection that was dropped meanwhile


def _do_order(work: Callable[[], None], future: asyncio.Future[None]) -> None:
    failure: BaseException | None = None
    try:
        work()
    except BaseException as error:  # noqa: BLE001 -- its waiter handles it
        failure = error
    with suppress(RuntimeError):  # the loop may be closed, so that nobody waits any more
        future.get_loop().call_soon_threadsafe(_tell_waiter, future, failure)


def _tell_waiter(future: asyncio.Future[None], failure: BaseException | None) -> None:
    if future.done():  # its waiter was cancelled
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)


class SqliteDatabase:
    """SQLite in WAL mode: one writer at a time, and a few reading threads.

    The statements of a write run on the event loop and only its COMMIT, which waits for the disk, in a thread. SQLite
    gives the interpreter's lock away at every row; a thread that must win it back from a busy loop each time took ten
    times as long and cost more than the statements (docs/why.md).
    """

    def __init__(self, path: Path, times: DatabaseTimes = UNTIMED) -> None:
        self._path = path
        self._times = times
        self._engine = sqlite_engine(path)
        self._committer = Committer("fairlead-write")
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="fairlead-read")
        self._idle_readers: list[tuple[Connection, int | None]] = []
        """Connections between two reads, each with the inode of its file."""
        self._writing: Connection | None = None
        self._writing_to: int | None = None
        self._is_durable: bool | None = None
        self._inode: int | None = None
        self._lock = threading.Lock()
        self._turn = asyncio.Lock()

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run work in one transaction. Once begun it is finished, even if the caller is cancelled."""
        began = time.monotonic()
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
                    committing = time.monotonic()
                    await self._commit(connection)
                    self._times.commit(time.monotonic() - committing)
                else:
                    sqlite_driver(connection).commit()
                connection.commit()  # SQLAlchemy has nothing left to
            except (DatabaseError, sqlite3.DatabaseError, OSError) as error:
                unavailable = unavailable_file(error)
                if unavailable is None:
                    raise
                self._drop_writer()
                raise unavailable from error
        self._times.write(time.monotonic() - began)
        return result

    async def read(self, work: Work[T]) -> T:
        """Run reading work in one of the reading threads."""
        began = time.monotonic()
        result = await asyncio.get_running_loop().run_in_executor(self._readers, self._read, work)
        self._times.read(time.monotonic() - began)
        return result

    async def close(self) -> None:
        """Let running work finish, then close the file."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._close)

    async def _commit(self, connection: Connection) -> None:
        """Commit in a thread, because it waits for the disk. A cancellation takes effect afterwards."""
        try:
            await self._committer.run(sqlite_driver(connection).commit)
        except asyncio.CancelledError:
            is_done = False
            while not is_done:
                with suppress(asyncio.CancelledError):
                    await self._committer.run(_nothing)  # one order after the other
                    is_done = True
            connection.rollback()  # where it could not be committed; otherwise this ends only SQLAlchemy's own part
            raise

    async def _begin(self, connection: Connection) -> None:
        """Take SQLite's write lock; waits for another process that holds it, without blocking the loop."""
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
        """Set whether the next COMMIT waits for the disk (and may copy the log into the database, which waits, too)."""
        self._is_durable = None
        for pragma in _DURABLE if durable else _NOT_DURABLE:
            sqlite_driver(connection).execute(pragma)
        self._is_durable = durable

    def _read(self, work: Work[T]) -> T:
        try:
            self._refuse_if_gone()
            connection, inode = self._reader_connection()
            connection.begin()  # SQLAlchemy's own notion of a transaction; pysqlite begins nothing for it
            try:
                sqlite_driver(connection).execute("BEGIN")
                return work(connection)
            finally:
                connection.rollback()
                self._idle_readers.append((connection, inode))
        except (DatabaseError, sqlite3.DatabaseError, OSError) as error:
            if (unavailable := unavailable_file(error)) is None:
                raise
            raise unavailable from error

    def _reader_connection(self) -> tuple[Connection, int | None]:
        """A connection for one read, to the file that is at the path now, and that file's inode.

        SQLAlchemy's pool takes 11 µs to lend one, a thirtieth of a short list.
        """
        with suppress(IndexError):
            while True:
                connection, inode = self._idle_readers.pop()
                if inode == self._inode:
                    return connection, inode
                _throw_away(connection)
        return self._engine.connect(), self._inode

    def _writer_connection(self) -> Connection:
        """The writing connection, to the file that is at the path now."""
        if self._inode is not None:  # there was a file: SQLite must not make an empty one in its place
            self._refuse_if_gone()
        if self._writing_to != self._inode:  # a reader may have been the first to see that the file was replaced
            self._drop_writer()
        if self._writing is None:
            if self._inode is None:
                self._path.touch(0o600)  # SQLite gives its other files the same mode
            self._writing = self._engine.connect()
            self._is_durable = True  # as sqlite_engine has it
            self._writing.exec_driver_sql("PRAGMA busy_timeout=0")  # _begin waits, and does not hold up the loop
            self._writing.rollback()
            self._refuse_if_gone()
            self._writing_to = self._inode
        return self._writing

    def _refuse_if_gone(self) -> None:
        """SQLite would go on writing into a deleted file and lose it all: a changed inode means a missing database."""
        inode = self._path.stat().st_ino
        with self._lock:
            if self._inode is None:
                self._inode = inode
            if self._inode != inode:
                self._inode = inode
                self._engine.dispose()
                raise OSError(f"{self._path} was replaced while it was open")

    def _drop_writer(self) -> None:
        """Drop a writer in an unknown state; the next write opens another."""
        connection, self._writing = self._writing, None
        if connection is not None:
            _throw_away(connection)

    def _close(self) -> None:
        self._committer.close()
        self._readers.shutdown()
        for connection, _ in self._idle_readers:
            connection.close()
        if self._writing is not None:
            self._writing.close()
        self._engine.dispose()


def _throw_away(connection: Connection) -> None:
    connection.invalidate()
    connection.close()


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
"""Errors of the file, not of the statement, which an operator can fix under a running server."""


def unavailable_file(error: Exception) -> DatabaseUnavailableError | None:
    """The error of a file that is locked, full, missing or broken; None for a wrong statement."""
    if isinstance(error, OSError):
        return DatabaseUnavailableError(str(error))
    origin = error.orig if isinstance(error, DatabaseError) else error
    code = getattr(origin, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF  # the low byte of an extended code
    return DatabaseUnavailableError(str(origin)) if code in _PASSING_IN_SQLITE else None
