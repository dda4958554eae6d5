"""Request quotas (R-23): each server counts for itself, and what it counted is added up about once a second.

So a request costs no look into the database, a database that is away refuses nobody, and several servers share a
quota with a lag of about a second.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from fairlead.domain.accounts.callers import RateLimit
from fairlead.domain.accounts.rate_windows import Meter, Quota, Span
from fairlead.domain.faults import FaultError
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.clock import Clock
from fairlead.storage.accounts import rate_windows
from fairlead.storage.db.database import Database, DatabaseUnavailableError

_BATCH: Final = 100
"""Workspaces in one transaction: few enough that it takes milliseconds."""
_FORGOTTEN_AT_ONCE: Final = 500


class RateWindows:
    """The meters of every workspace that has asked for anything in a window that has not turned, and of limits."""

    def __init__(self, database: Database, quotas: Sequence[Quota], clock: Clock, observe: Observer) -> None:
        self._database = database
        self._quotas = quotas
        self._clock = clock
        self._observe = observe
        self._meters: dict[str, Meter] = {}
        self._limited: dict[tuple[str, int], Meter] = {}

    @property
    def workspaces(self) -> int:
        """How many workspaces are remembered."""
        return len(self._meters)

    def count(self, workspace_id: str, limits: Sequence[RateLimit] = ()) -> None:
        """Count one request of a workspace; FaultError(RateLimited) when a quota of it is spent.

        Of the `limits` of its caller, the one of the key is counted as well.
        """
        if limits:
            self._count_limit(limits, None)
        if not self._quotas:
            return
        meter = self._meters.get(workspace_id)
        if meter is None:
            meter = self._meters[workspace_id] = Meter(workspace_id, self._quotas)
        fault = meter.count(self._clock.now_ms())
        if fault is not None:
            raise FaultError(fault)

    def count_run(self, limits: Sequence[RateLimit], model_id: str) -> None:
        """Count one run of a model against the limit that a caller has for it; FaultError(RateLimited)."""
        self._count_limit(limits, model_id)

    def _count_limit(self, limits: Sequence[RateLimit], model_id: str | None) -> None:
        for limit in limits:
            if limit.model_id == model_id:
                name = (limit.id, limit.per_minute)
                meter = self._limited.get(name)
                if meter is None:
                    quota = Quota(Span.MINUTE, limit.per_minute)
                    meter = self._limited[name] = Meter(limit.id, (quota,))
                if fault := meter.count(self._clock.now_ms()):
                    raise FaultError(fault)

    async def share(self) -> None:
        """Add what was counted since the last time to the shared counts, and learn what other servers counted.

        While the database is away the counts wait here. A transaction whose end is not known is repeated, so that a
        second's requests may be counted twice, and never not at all.
        """
        now = self._clock.now_ms()
        self._meters = {name: meter for name, meter in self._meters.items() if not meter.is_over(now)}
        self._limited = {name: meter for name, meter in self._limited.items() if not meter.is_over(now)}
        every = chain(self._meters.values(), self._limited.values())
        waiting = [meter for meter in every if meter.has_unwritten()]
        for start in range(0, len(waiting), _BATCH):
            if not await self._share(waiting[start : start + _BATCH]):
                return

    async def forget(self) -> int:
        """Delete a batch of windows that turned long ago; how many, 0 when there are none left."""
        now = self._clock.now_ms()
        try:
            old = await self._database.read(lambda c: rate_windows.old_windows(c, now, _FORGOTTEN_AT_ONCE))
            if old:
                await self._database.write(lambda c: rate_windows.delete_windows(c, old))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("forget rate windows", str(error)))
            return 0
        return len(old)

    async def _share(self, meters: Sequence[Meter]) -> bool:
        counts = [count for meter in meters for count in meter.unwritten()]
        try:
            shared = await self._database.write(lambda c: rate_windows.add_requests(c, counts))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("share request counts", str(error)))
            return False
        for meter in meters:
            meter.note_written(shared)
        return True
