"""When keys were last used: remembered when one is looked up, and written in the background, a minute's uses at once.

So no call waits for it, and no run's transaction has more to do. What a server that dies has remembered is lost.
"""

from typing import Final

from fairlead.clock import Clock
from fairlead.storage.accounts import key_secrets
from fairlead.storage.db.database import Database, DatabaseUnavailableError

WRITTEN_EVERY_SECONDS: Final = 60.0
_REMEMBERED_MAX: Final = 10_000
"""How many keys' uses are remembered until they are written; beyond it the oldest is forgotten."""


class KeyUses:
    """The uses of API keys and personal keys that are not written yet."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._used: dict[str, int] = {}

    def note(self, key_id: str) -> None:
        """Remember that a key is used now."""
        self._used.pop(key_id, None)
        self._used[key_id] = self._clock.now_ms()
        if len(self._used) > _REMEMBERED_MAX:
            del self._used[next(iter(self._used))]

    async def write(self) -> None:
        """Write what is remembered; what cannot be written now is written the next time."""
        uses, self._used = self._used, {}
        if not uses:
            return
        try:
            await self._database.write(lambda c: key_secrets.note_uses(c, uses), durable=False)
        except DatabaseUnavailableError:
            self._used = {**uses, **self._used}
