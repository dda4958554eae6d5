"""PostgreSQL through asyncpg, on the event loop; every statement and every wait has a bound."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import NullPool

from fairlead.storage.db.connections import Connections
from fairlead.storage.db.database import UNTIMED, DatabaseTimes, DatabaseUnavailableError, Work, ignore_time

T = TypeVar("T")

_CONNECT_SECONDS: Final = 3.0
STATEMENT_SECONDS: Final = 30.0
_CONNECTIONS: Final = 16
_ABANDONED_MS: Final = "5000"
"""After this time PostgreSQL ends a transaction whose client is silent, such as a frozen one.

The rows that it has locked would hold up its workspaces at every server, and their takeover.
"""
_READING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ"
_WRITING: Final = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL enable_seqscan = off"
"""Writing transactions find their rows by indexes.

Otherwise PostgreSQL would read a table that it takes for small as a whole, and the connections of a new database keep
such plans until statistics are gathered (docs/why.md).
"""
_WRITING_SOON: Final = f"{_WRITING}; SET LOCAL synchronous_commit = off"
"""A transaction whose COMMIT need not wait for the disk."""


class UndoneError(Exception):
    """PostgreSQL has rolled a transaction back instead: a statement had failed, and its work went on regardless."""


class PostgresDatabase:
    """PostgreSQL through asyncpg; every statement and every wait has a bound."""

    def __init__(
        self, url: URL, times: DatabaseTimes = UNTIMED, statement_seconds: float | None = STATEMENT_SECONDS
    ) -> None:
        from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415 -- 7 MB that SQLite has no use for

        self._times = times
        engine = create_async_engine(
            url,
            isolation_level="AUTOCOMMIT",  # transactions are begun by _run, at the driver
            hide_parameters=True,
            poolclass=NullPool,
            connect_args={
                "timeout": _CONNECT_SECONDS,
                "command_timeout": statement_seconds,
                "server_settings": {"idle_in_transaction_session_timeout": _ABANDONED_MS, "jit": "off"},
            },
        )
        self._connections = Connections(engine, _CONNECTIONS, _CONNECT_SECONDS)

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run work in one transaction; PostgreSQL answers COMMIT when it is durable, where it has to be."""
        began = time.monotonic()
        if durable:
            result = await self._run(work, _WRITING, self._times.commit)
        else:
            result = await self._run(work, _WRITING_SOON)
        self._times.write(time.monotonic() - began)
        return result

    async def read(self, work: Work[T]) -> T:
        """Run reading work in a transaction of its own."""
        began = time.monotonic()
        result = await self._run(work, _READING)
        self._times.read(time.monotonic() - began)
        return result

    async def _run(self, work: Work[T], begin: str, committed: Callable[[float], None] = ignore_time) -> T:
        """Run work in a transaction with a given BEGIN; `committed` is called with how long its COMMIT took."""
        is_connected = is_broken = is_committing = False
        try:
            async with self._connections.lend() as (connection, driver):
                is_connected = True
                try:
                    await driver.execute(begin)
                    try:
                        result = await connection.run_sync(work)
                    except Exception:
                        if not driver.is_closed():
                            await driver.execute("ROLLBACK")
                        raise
                    is_committing, committing = begin != _READING, time.monotonic()
                    await _commit(driver)
                    committed(time.monotonic() - committing)
                except Exception:
                    is_broken = driver.is_closed()
                    raise
        except Exception as error:
            raised = DatabaseUnavailableError(str(error)) if is_broken else unavailable_server(error)
            if isinstance(raised, DatabaseUnavailableError) and not isinstance(error, PoolTimeoutError):
                is_undone = not is_committing and (is_broken or _gave_way(error))
                raised.is_repeatable = is_undone or not is_connected or _was_abandoned(error)
            raise raised from error
        return result

    async def close(self) -> None:
        """Close every connection."""
        await self._connections.close()


async def _commit(driver: Any) -> None:
    if await driver.execute("COMMIT") != "COMMIT":
        raise UndoneError


_PASSING_SQLSTATES: Final = ("08", "40", "53", "55", "57")
"""Classes of SQLSTATE of temporary errors: connection, rollback, resources (disk full), lock, intervention."""


_ROLLED_BACK: Final = "40"
"""The class of SQLSTATE of transactions that PostgreSQL rolled back itself: deadlocks and serialization failures."""
_LOCK_NOT_AVAILABLE: Final = "55P03"
_ABANDONED: Final = "25P03"
"""The SQLSTATE of a transaction that was ended, with its connection, after `_ABANDONED_MS`."""


def unavailable_server(error: Exception) -> Exception:
    """Distinguish a database that is away or overloaded from a wrong statement."""
    if isinstance(error, OSError | TimeoutError | asyncio.TimeoutError | PoolTimeoutError):
        return DatabaseUnavailableError(str(error) or type(error).__name__)
    broken = isinstance(error, DBAPIError) and (error.connection_invalidated or isinstance(error, InterfaceError))
    if broken or _sqlstate(error).startswith(_PASSING_SQLSTATES):
        return DatabaseUnavailableError(str(error.orig if isinstance(error, DBAPIError) else error))
    return error


def _gave_way(error: Exception) -> bool:
    """Whether PostgreSQL ended a transaction because another one was in its way, and would let it pass later."""
    state = _sqlstate(error)
    return state.startswith(_ROLLED_BACK) or state == _LOCK_NOT_AVAILABLE


def _was_abandoned(error: BaseException | None) -> bool:
    """Whether PostgreSQL had ended a transaction before it was asked to commit it, as its client was silent."""
    while error is not None:
        if _sqlstate(error) == _ABANDONED:
            return True
        error = error.__cause__
    return False


def _sqlstate(error: BaseException) -> str:
    return getattr(error.orig if isinstance(error, DBAPIError) else error, "sqlstate", None) or ""
