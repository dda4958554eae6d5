"""PostgreSQL through asyncpg, on the event loop; every statement and every wait has a bound."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError, InterfaceError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fairlead.storage.db.connections import Connections
from fairlead.storage.db.database import UNTIMED, DatabaseTimes, DatabaseUnavailableError, Work, ignore_time
from fairlead.storage.db.server_engine import is_pooled, make_engine

T = TypeVar("T")

_CONNECT_SECONDS: Final = 3.0
_BEGIN_SECONDS: Final = 2.0
"""A server that has not answered BEGIN by then is away: it needs no lock and no disk.

This is shorter than the wait for a connection, so that those who wait for one know by then why all are in use.
"""
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
        self._times = times
        self._is_away = False
        """Whether the last transaction could not be begun, so that connections in use say nothing of the load."""
        session = {"idle_in_transaction_session_timeout": _ABANDONED_MS, "jit": "off"}
        self._connections = Connections(
            make_engine(url, _CONNECT_SECONDS, statement_seconds, session), _CONNECTIONS, _CONNECT_SECONDS
        )
        local = [f"; SET LOCAL {name} = '{value}'" for name, value in session.items()] if is_pooled(url) else []
        self._reading, self._writing, self._writing_soon = (
            "".join([begin, *local]) for begin in (_READING, _WRITING, _WRITING_SOON)
        )

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run work in one transaction; PostgreSQL answers COMMIT when it is durable, where it has to be."""
        began = time.monotonic()
        if durable:
            result = await self._run(work, self._writing, self._times.commit)
        else:
            result = await self._run(work, self._writing_soon)
        self._times.write(time.monotonic() - began)
        return result

    async def read(self, work: Work[T]) -> T:
        """Run reading work in a transaction of its own."""
        began = time.monotonic()
        result = await self._run(work, self._reading)
        self._times.read(time.monotonic() - began)
        return result

    async def _run(self, work: Work[T], begin: str, committed: Callable[[float], None] = ignore_time) -> T:
        """Run work in a transaction with a given BEGIN; `committed` is called with how long its COMMIT took."""
        is_lent = is_begun = is_broken = is_committing = False
        try:
            async with self._connections.lend() as (connection, driver):
                is_lent = True
                try:
                    await driver.execute(begin, timeout=_BEGIN_SECONDS)
                    is_begun, self._is_away = True, False
                    try:
                        result = await connection.run_sync(work)
                    except Exception:
                        if not driver.is_closed():
                            await driver.execute("ROLLBACK")
                        raise
                    is_committing, committing = begin != self._reading, time.monotonic()
                    await _commit(driver)
                    committed(time.monotonic() - committing)
                except Exception:
                    if not is_begun:
                        driver.terminate()
                    is_broken = driver.is_closed()
                    raise
        except Exception as error:
            raised = _away(error) if is_broken else unavailable_server(error)
            if isinstance(raised, DatabaseUnavailableError):
                if (is_lent and not is_begun) or _sqlstate(error) == _READ_ONLY:
                    self._connections.renew()
                if not isinstance(error, PoolTimeoutError):
                    self._is_away = not is_begun
                is_undone = not is_committing and (is_broken or _gave_way(error))
                is_unbegun = not is_begun and self._is_away
                raised.is_repeatable = is_undone or is_unbegun or _was_abandoned(error)
                raised.is_uncertain = is_committing and not raised.is_repeatable
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
_READ_ONLY: Final = "25006"
"""The SQLSTATE of a write where nothing can be written: the server is a standby now, or its operator lets nobody."""
_ABANDONED: Final = "25P03"
"""The SQLSTATE of a transaction that was ended, with its connection, after `_ABANDONED_MS`."""


def unavailable_server(error: Exception) -> Exception:
    """Distinguish a database that is away or overloaded from a wrong statement."""
    if isinstance(error, OSError | TimeoutError | asyncio.TimeoutError | PoolTimeoutError):
        return _away(error)
    broken = isinstance(error, DBAPIError) and (error.connection_invalidated or isinstance(error, InterfaceError))
    if broken or _sqlstate(error).startswith((*_PASSING_SQLSTATES, _READ_ONLY)):
        return _away(error.orig if isinstance(error, DBAPIError) and error.orig else error)
    return error


def _away(error: BaseException) -> DatabaseUnavailableError:
    return DatabaseUnavailableError(str(error) or type(error).__name__)


def _gave_way(error: Exception) -> bool:
    """Whether PostgreSQL refused a transaction that it, or the server that replaces it, would let pass later."""
    return _sqlstate(error).startswith((_ROLLED_BACK, _LOCK_NOT_AVAILABLE, _READ_ONLY))


def _was_abandoned(error: BaseException | None) -> bool:
    """Whether PostgreSQL had ended a transaction before it was asked to commit it, as its client was silent."""
    while error is not None:
        if _sqlstate(error) == _ABANDONED:
            return True
        error = error.__cause__
    return False


def _sqlstate(error: BaseException) -> str:
    return getattr(error.orig if isinstance(error, DBAPIError) else error, "sqlstate", None) or ""
