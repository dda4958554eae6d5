"""The database as the rest of storage sees it: functions over a connection, run in a transaction.

One SQLAlchemy Core code serves both dialects; what differs between them is in sqlite.py and postgresql.py.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec
from sqlalchemy import Connection

T = TypeVar("T")
Work = Callable[[Connection], T]
Transaction: TypeAlias = Connection
"""The transaction of some work, for callers that pass it on to storage and use no SQL themselves."""


class DatabaseUnavailableError(Exception):
    """The database is locked, full, gone or unreachable. Worth trying again.

    `is_repeatable`: its server could not be reached, hung up before it was asked to commit, or ended the transaction
    itself in favour of another. So nothing was written. `is_uncertain`: the server was asked to commit it and has not
    answered, so that nobody knows.
    """

    is_repeatable = False
    is_uncertain = False


def ignore_time(_seconds: float) -> None:
    """Ignore a time."""


class DatabaseTimes(msgspec.Struct, frozen=True):
    """Listeners to how long (seconds) each successful transaction took, and the COMMIT of a durable write."""

    read: Callable[[float], None] = ignore_time
    write: Callable[[float], None] = ignore_time
    commit: Callable[[float], None] = ignore_time


UNTIMED: Final = DatabaseTimes()


class Database(Protocol):
    """A database: work is a function of a connection; it commits when the function returns, else nothing happened."""

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run work in one durable transaction; DatabaseUnavailableError when it could not be made durable.

        One that need not be `durable` becomes durable at the latest with the next one that is, and never without those
        before it.
        """
        ...

    async def read(self, work: Work[T]) -> T:
        """Run work that only reads, on a consistent snapshot."""
        ...

    async def close(self) -> None:
        """Finish running work and release every connection."""
        ...
