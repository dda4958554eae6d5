"""Makes entries about work durable, or tells callers that this is not possible."""

import asyncio
from typing import Any, Final, Generic, TypeVar

from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.storage.db.database import DatabaseUnavailableError
from fairlead.storage.work.journal import Journal

_RETRY_FIRST: Final = 0.1
_RETRY_MAX: Final = 5.0

Entry = TypeVar("Entry")
Verdict = TypeVar("Verdict")


class WorkStore(Generic[Entry, Verdict]):
    """The journal of one kind of work, as operations use it. `refusal` is the message to callers while it is away."""

    def __init__(self, journal: Journal[Entry, Any, Verdict], observe: Observer, refusal: str) -> None:
        self._journal = journal
        self._observe = observe
        self._refusal = refusal

    async def write(self, entry: Entry) -> Verdict:
        """Make an entry durable; FaultError when that cannot be done right now."""
        try:
            verdict = await self._journal.write(entry)
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble(type(entry).__name__.lower(), str(error)))
            raise FaultError(ServiceUnavailable(self._refusal)) from error
        if isinstance(verdict, ServiceUnavailable):
            raise FaultError(verdict)
        return verdict

    async def write_at_last(self, entry: Entry) -> Verdict:
        """Make an entry durable, however long that takes, because what has happened must not be lost."""
        pause = _RETRY_FIRST
        while True:
            try:
                return await self.write(entry)
            except FaultError:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _RETRY_MAX)
