"""The state of the whole installation for metrics: what waits, which servers work, and how much room is left."""

import asyncio
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.observing.installation import (
    OTHER_POOLS,
    BacklogSeen,
    DatabaseSeen,
    DiskSeen,
    InstallationSeen,
    PoolSeen,
    ServersSeen,
)
from fairlead.operations.shared_look import SharedLook
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Transaction
from fairlead.storage.jobs.jobs import QUEUE as JOBS
from fairlead.storage.runs.queue import QUEUE as RUNS
from fairlead.storage.work.table import (
    Backlog,
    PoolBacklog,
    WorkOverview,
    WorkTable,
    database_time,
    read_leases,
    read_overview,
    read_pools,
)

_KINDS: Final[Mapping[str, WorkTable]] = {"runs": RUNS, "jobs": JOBS}


class UnattendedPool(msgspec.Struct, frozen=True):
    """A pool in which released work of a `kind`, runs or jobs, waits and for which no server works."""

    kind: str
    pool: str
    waiting: int


class Overview:
    """Reads the state of the installation when the metrics are read.

    This costs one reading transaction, at most once a second, and nothing while nobody reads the metrics. `folder` is
    the data directory; a server that was silent for `silent_ms` is not alive; rules name the `pools`.
    """

    def __init__(
        self, database: Database, clock: Clock, folder: Path, silent_ms: int, pools: Collection[str] = ()
    ) -> None:
        self._database = database
        self._clock = clock
        self._folder = folder
        self._silent_ms = silent_ms
        self._pools = pools
        self._look = SharedLook(self._read)

    async def look(self) -> InstallationSeen:
        """The state of the installation; what does not answer within two seconds is left out."""
        return await self._look.ask() or InstallationSeen()

    async def close(self) -> None:
        """Cancel a read in progress."""
        await self._look.close()

    async def _read(self) -> InstallationSeen:
        try:
            disk = await asyncio.to_thread(self._disk)
        except OSError:  # the directory is unavailable, which readiness reports
            disk = None
        now = self._clock.now_ms()
        read = partial(read_overview, tables=_KINDS, machine_ms=now, silent_ms=self._silent_ms, named=self._pools)
        try:
            return _installation_seen(await self._database.read(read), disk)
        except (DatabaseUnavailableError, OSError):
            return InstallationSeen(disk=disk)

    def _disk(self) -> DiskSeen:
        usage = shutil.disk_usage(self._folder)
        return DiskSeen(usage.free, usage.total)


def _installation_seen(shared: WorkOverview, disk: DiskSeen | None) -> InstallationSeen:
    leases, figures = shared.leases, shared.figures
    return InstallationSeen(
        backlogs=[_backlog(kind, one, shared.now) for kind, backlogs in shared.backlogs.items() for one in backlogs],
        pools=[one for kind, pools in shared.pools.items() for one in _pools(kind, pools)],
        servers=ServersSeen(leases.alive, leases.silent, leases.oldest_ms / 1000),
        database=DatabaseSeen(figures.size, figures.wal, figures.connections, figures.connections_most),
        disk=disk,
    )


def _backlog(kind: str, backlog: Backlog, now: int) -> BacklogSeen:
    waited = 0 if backlog.oldest_at is None else max(0, now - backlog.oldest_at)
    return BacklogSeen(kind, backlog.subscription, backlog.waiting, backlog.parked, waited / 1000)


def _pools(kind: str, pools: Sequence[PoolBacklog]) -> Iterator[PoolSeen]:
    """The pools that operators have named, and all others as one."""
    others = unattended = 0
    for one in pools:
        left = 0 if one.is_worked_for else one.waiting
        if one.is_named:
            yield PoolSeen(kind, one.pool, one.waiting, left)
        else:
            others, unattended = others + one.waiting, unattended + left
    yield PoolSeen(kind, OTHER_POOLS, others, unattended)


async def unattended_pools(
    database: Database, clock: Clock, silent_ms: int, named: Collection[str]
) -> Sequence[UnattendedPool] | None:
    """The pools in which work waits and for which no server works; None if no server is alive.

    `named` are pools that rules name. DatabaseUnavailableError.
    """

    def read(connection: Transaction) -> Sequence[UnattendedPool] | None:
        now = database_time(connection, clock.now_ms())
        if read_leases(connection, (), now, silent_ms).alive == 0:
            return None
        return [
            UnattendedPool(kind, one.pool, one.waiting)
            for kind, pools in read_pools(connection, _KINDS, now - silent_ms, named).items()
            for one in pools
            if one.waiting and not one.is_worked_for
        ]

    return await database.read(read)
