"""A database whose outages are faults, for operations that answer a caller and handle outages in no other way.

Commands use the database itself, because an operator at a shell should see why it is unavailable.
"""

from typing import Final, TypeVar

from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work

T = TypeVar("T")

_AWAY: Final = ServiceUnavailable("The database cannot be asked right now; nothing was changed.")


class AnsweringDatabase:
    """A `Database` that raises FaultError(ServiceUnavailable) while the database it wraps cannot be used.

    Closing it closes nothing: the wrapped database belongs to whatever opened it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, work: Work[T], *, durable: bool = True) -> T:
        """Run work in one transaction; FaultError."""
        try:
            return await self._database.write(work, durable=durable)
        except DatabaseUnavailableError as error:
            raise FaultError(_AWAY) from error

    async def read(self, work: Work[T]) -> T:
        """Run work that only reads; FaultError."""
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            raise FaultError(_AWAY) from error

    async def close(self) -> None:
        """Do nothing."""
