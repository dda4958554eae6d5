"""The janitor: renews this server's lease, takes over work of silent servers, shares counts, reloads catalog files.

The lease, takeovers and sweeps have tasks of their own: neither a slow store nor a run whose body cannot be read yet
may make this server look dead.
"""

import asyncio
from typing import Final

from fairlead.observing.observations import Observer, UnexpectedError
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.accounts.sweeping import AccountSweeper, RecordSweeper
from fairlead.operations.assets.results import AssetSweeper
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.runs.replay import Replayer
from fairlead.operations.runs.work import RunQueue
from fairlead.operations.work.presence import ServerPresence
from fairlead.workers.periodic import run_periodically

_ROUND_SECONDS: Final = 1.0
_STRAYS_SECONDS: Final = 30.0
_FORGET_EVERY: Final = 60
_SWEEP_SECONDS: Final = 60.0
_ANNOUNCED_BEFORE: Final = 4
"""How often a server renews its lease within the lease's length."""


class Janitor:
    """Works until it is cancelled, whatever errors occur."""

    def __init__(
        self,
        presence: ServerPresence,
        queue: RunQueue,
        catalog: CatalogKeeper,
        windows: RateWindows,
        assets: AssetSweeper,
        replayer: Replayer,
        accounts: AccountSweeper,
        records: RecordSweeper,
        observe: Observer,
    ) -> None:
        self._presence = presence
        self._queue = queue
        self._catalog = catalog
        self._windows = windows
        self._assets = assets
        self._replayer = replayer
        self._accounts = accounts
        self._records = records
        self._observe = observe
        self._strays_due = 0.0

    async def work(self) -> None:
        """Do all of it."""
        announce_seconds = max(_ROUND_SECONDS, self._presence.silent_ms / 1000 / _ANNOUNCED_BEFORE)
        async with asyncio.TaskGroup() as group:
            group.create_task(run_periodically(self._presence.announce, announce_seconds, "announce", self._observe))
            group.create_task(run_periodically(self._recover, announce_seconds, "recover", self._observe))
            group.create_task(self._sweep())
            group.create_task(self._tend())

    async def _recover(self) -> None:
        """Take over work, then look for strays; in this order, so that work just taken over does not look like one."""
        while await self._queue.take_over():
            pass
        now = asyncio.get_running_loop().time()
        if now >= self._strays_due:
            self._strays_due = now + _STRAYS_SECONDS
            await self._queue.end_strays()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            try:
                await self._assets.sweep()
            except Exception as error:  # noqa: BLE001 -- as in run_periodically
                self._observe(UnexpectedError("sweep assets", error))

    async def _tend(self) -> None:
        turns = 0
        while True:
            try:
                if turns % _FORGET_EVERY == 0:
                    await self._forget()
                await self._windows.share()
                if turns:
                    await asyncio.to_thread(self._catalog.reload_if_changed)
            except Exception as error:  # noqa: BLE001 -- observed; the next turn tries again
                self._observe(UnexpectedError("janitor", error))
            turns += 1
            await asyncio.sleep(_ROUND_SECONDS)

    async def _forget(self) -> None:
        """Delete what was kept long enough, in bounded batches."""
        for forget in (self._windows.forget, self._replayer.forget, self._accounts.forget, self._records.forget):
            while await forget():
                pass
