"""Repeats questions while the database or the store of files is away, so that a short outage does not end a job.

All of them can be repeated: runs of models are found by their keys, a name that was taken twice leaves a gap, and a
file that was stored twice is one file.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.storage.blobs.store import BlobsUnavailableError
from fairlead.storage.db.database import DatabaseUnavailableError

T = TypeVar("T")

OUTAGE_SECONDS: Final = 120.0
"""How long a question of a job is repeated: longer than a database takes to restart or to fail over."""
_PAUSE_FIRST: Final = 0.1
_PAUSE_MAX: Final = 5.0


class Patience:
    """Repeats questions that fail because something is away for a while, each for at most `seconds`."""

    def __init__(self, observe: Observer, seconds: float = OUTAGE_SECONDS) -> None:
        self._observe = observe
        self._seconds = seconds

    async def ask(self, doing: str, question: Callable[[], Awaitable[T]]) -> T:
        """Answer a question; FaultError for a permanent fault, and ServiceUnavailable after the last attempt.

        Each failed attempt is observed as trouble while `doing` something.
        """
        give_up_at = asyncio.get_running_loop().time() + self._seconds
        pause = _PAUSE_FIRST
        while True:
            try:
                return await question()
            except FaultError as error:
                if not passes(error) or asyncio.get_running_loop().time() >= give_up_at:
                    raise
                self._observe(DatabaseTrouble(doing, str(error.__cause__ or error)))
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_MAX)


def passes(error: FaultError) -> bool:
    """Whether a fault says that something is away or overloaded for now; a provider that is not set up is neither."""
    if not isinstance(error.fault, ServiceUnavailable):
        return False
    is_away = isinstance(error.__cause__, DatabaseUnavailableError | BlobsUnavailableError)
    return is_away or error.fault.retry_after is not None
