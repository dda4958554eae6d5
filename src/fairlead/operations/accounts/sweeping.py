"""What ends by time: sessions that have ended are forgotten, and workspaces end whose deletion was not taken back.

Of a workspace that has ended its books stay, because they must prove the runs of others' invoices; everything by which
it could act or be entered is gone, its files expire, and its name is free again.
"""

from fairlead.domain.accounts.rights import SERVER
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.clock import Clock
from fairlead.storage.accounts import sessions, workspace_records
from fairlead.storage.accounts.sessions import Lifetime
from fairlead.storage.db.database import Database, DatabaseUnavailableError


class AccountSweeper:
    """Forgets sessions and ends workspaces whose time has come."""

    def __init__(self, database: Database, clock: Clock, observe: Observer) -> None:
        self._database = database
        self._clock = clock
        self._observe = observe

    async def forget(self) -> int:
        """Forget a batch; how many sessions and workspaces it was, 0 when there are none left."""
        try:
            return await self._forget()
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("end sessions and workspaces", str(error)))
            return 0

    async def _forget(self) -> int:
        now = self._clock.now_ms()
        lifetime = Lifetime.at(now)
        # Asked first, because nearly always there is nothing to do, and a write would wait for others.
        if not await self._database.read(
            lambda c: workspace_records.has_due(c, now) or sessions.has_ended(c, lifetime)
        ):
            return 0
        forgotten = await self._database.write(lambda c: sessions.forget_ended(c, lifetime))
        return forgotten + await self._database.write(lambda c: workspace_records.end_due(c, SERVER, now))
