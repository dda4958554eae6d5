"""Request quotas (R-23): each server counts by itself, and the counts are added up about once a second.

So a request needs no read of the database, an unavailable database refuses nobody, and several servers share a quota
with a delay of about a second.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import RateLimit
from fairlead.domain.accounts.rate_windows import Meter, Quota, Quotas, Span
from fairlead.domain.faults import FaultError
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.storage.accounts import rate_windows
from fairlead.storage.db.database import Database, DatabaseUnavailableError

_BATCH: Final = 100
"""How many workspaces share a transaction: few enough that it takes milliseconds."""
_FORGOTTEN_AT_ONCE: Final = 500


class RateWindows:
    """The meters of all workspaces and limits for which a request was counted in a current window."""

    def __init__(self, database: Database, quotas: Quotas, clock: Clock, observe: Observer) -> None:
        self._database = database
        self._quotas = quotas
        self._clock = clock
        self._observe = observe
        self._meters: dict[str, Meter] = {}
        self._readers: dict[str, Meter] = {}
        self._limited: dict[tuple[str, int], Meter] = {}

    @property
    def workspaces(self) -> int:
        """How many workspaces have a meter."""
        return len(self._meters)

    def count(self, workspace_id: str, limits: Sequence[RateLimit] = (), *, is_read: bool = False) -> None:
        """Count one request of a workspace; FaultError(RateLimited) if one of its quotas is spent.

        It also counts against the limit of the caller's key, if `limits` has one. One that `is_read` has a quota of its
        own.
        """
        if limits:
            self._count_limit(limits, None)
        quotas = self._quotas.reads if is_read else self._quotas.requests
        if not quotas:
            return
        meters = self._readers if is_read else self._meters
        meter = meters.get(workspace_id)
        if meter is None:
            meter = meters[workspace_id] = Meter(workspace_id, quotas)
        fault = meter.count(self._clock.now_ms())
        if fault is not None:
            raise FaultError(fault)

    def count_run(self, limits: Sequence[RateLimit], model_id: str) -> None:
        """Count one run of a model against the caller's limit for it; FaultError(RateLimited)."""
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
        """Add the counts since the last call to the shared counts, and learn what other servers have counted.

        While the database is unavailable the counts stay here. A transaction whose outcome is unknown is repeated, so a
        second's requests may be counted twice, but are never missed.
        """
        now = self._clock.now_ms()
        self._meters = {name: meter for name, meter in self._meters.items() if not meter.is_over(now)}
        self._readers = {name: meter for name, meter in self._readers.items() if not meter.is_over(now)}
        self._limited = {name: meter for name, meter in self._limited.items() if not meter.is_over(now)}
        every = chain(self._meters.values(), self._readers.values(), self._limited.values())
        waiting = [meter for meter in every if meter.has_unwritten()]
        for start in range(0, len(waiting), _BATCH):
            if not await self._share(waiting[start : start + _BATCH]):
                return

    async def forget(self) -> int:
        """Delete a batch of windows that ended long ago; returns how many, 0 when none are left."""
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
