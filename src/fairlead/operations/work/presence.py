"""A server's sign of life: its work is its own until it falls silent."""

from typing import Any, Final

import msgspec

from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.clock import Clock
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.runs import runs

_FORGET_AFTER_MS: Final = 86_400_000


class ServerPresence(msgspec.Struct, frozen=True):
    """Says that the server `server_id` is alive.

    `alone`: no other server can share the database (an exclusive data directory). Otherwise a server is taken to be
    dead that was silent for `silent_ms`.
    """

    database: Database
    clock: Clock
    observe: Observer
    server_id: str
    alone: bool
    silent_ms: int

    async def announce(self) -> None:
        """Say that this server is alive, and forget those long silent."""
        try:
            await self.database.write(self.announce_in)
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("announce", str(error)))

    def announce_in(self, connection: Any) -> None:
        """The same, within a transaction."""
        now = self.clock.now_ms()
        runs.announce_server(connection, self.server_id, now, now - _FORGET_AFTER_MS)

    def silent_since(self) -> int:
        """The time (ms) since which a server is dead that was not seen."""
        now = self.clock.now_ms()
        return now if self.alone else now - self.silent_ms
