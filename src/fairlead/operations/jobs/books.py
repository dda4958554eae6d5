"""Writing about jobs, with the words callers are told where it cannot be done."""

import asyncio
from typing import Final

from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.entries import JobEntry, JobVerdict
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.storage.database import DatabaseUnavailableError
from fairlead.storage.job_journal import JobJournal

_RETRY_FIRST: Final = 0.1
_RETRY_MAX: Final = 5.0


class JobBooks:
    """The journal of jobs, as operations use it."""

    def __init__(self, journal: JobJournal, observe: Observer) -> None:
        self._journal = journal
        self._observe = observe

    async def write(self, entry: JobEntry) -> JobVerdict:
        """Make an entry durable; FaultError when that cannot be done right now, and nothing was written."""
        try:
            verdict = await self._journal.write(entry)
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble(type(entry).__name__, str(error)))
            raise FaultError(ServiceUnavailable("Jobs cannot be recorded right now.")) from error
        if isinstance(verdict, ServiceUnavailable):
            raise FaultError(verdict)
        return verdict

    async def write_at_last(self, entry: JobEntry) -> JobVerdict:
        """Make an entry durable, however long that takes: what has happened must not be forgotten."""
        pause = _RETRY_FIRST
        while True:
            try:
                return await self.write(entry)
            except FaultError:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _RETRY_MAX)
