"""Follows queued runs that other servers execute, and reports changes to those who watch them here."""

from collections.abc import Sequence
from typing import Final

from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.event_relay import EventRelay
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.runs.queue import RunStand, stands_of

_RUNS_A_LOOK: Final = 1_000
"""If more runs are watched, each check covers the next so many."""


class RunFollower:
    """Looks for changes of watched runs, with one read of the database at each check."""

    def __init__(self, database: Database, relay: EventRelay, observe: Observer) -> None:
        self._database = database
        self._relay = relay
        self._observe = observe
        self._seen: dict[str, RunStand] = {}
        self._last = ""

    async def look(self) -> None:
        """Report the runs that have changed since the last check."""
        workspaces = {run_id: workspace_id for workspace_id, run_id in self._relay.watched_runs()}
        for run_id in self._seen.keys() - workspaces.keys():
            del self._seen[run_id]
        run_ids = self._next(sorted(workspaces))
        if not run_ids:
            return
        try:
            found = await self._database.read(lambda c: stands_of(c, run_ids))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("follow runs", str(error)))
            return
        for run_id, stand in found.items():
            if self._seen.get(run_id) != stand:
                self._seen[run_id] = stand
                self._relay.relay_run(RunChanged(workspaces[run_id], run_id, has_ended=stand.has_ended))

    def _next(self, run_ids: Sequence[str]) -> Sequence[str]:
        if len(run_ids) <= _RUNS_A_LOOK:
            return run_ids
        ids = [*(id_ for id_ in run_ids if id_ > self._last), *(id_ for id_ in run_ids if id_ <= self._last)]
        self._last = ids[_RUNS_A_LOOK - 1]
        return ids[:_RUNS_A_LOOK]
