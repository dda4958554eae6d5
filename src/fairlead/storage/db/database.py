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
"""What work is run in, for those that hand it on to storage and speak no SQL themselves."""


class DatabaseUnavailableError(Exception):
    """The database is locked, full, gone or unreachable. Worth trying again.

    `is_repeatable`: its server could not be reached, hung up before it was asked to commit, or ended the transaction
    itself in favour of another. So nothing was written.
    """

    is_repeatable = False


def ignore_time(_seconds: float) -> None:
    """Hear a time nobody asked for."""


class DatabaseTimes(msgspec.Struct, frozen=True):
    """Who hears how long (seconds) each transaction took that succeeded, and of a durable write its COMMIT."""

    read: Callable[[float], None] = ignore_time
    write: Callable[[float], None] = ignore_time
    commit: Callable[[float], None] = ignore_time


UNTIMED: Final = DatabaseTimes()


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
