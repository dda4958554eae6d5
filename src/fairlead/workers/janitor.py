"""The janitor: says that this server lives, takes over what others left, and looks after the catalog's files."""

import asyncio
from typing import Final

from fairlead.observing.observations import Observer, UnexpectedError
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.runs.recover import Recovery

_ROUND_SECONDS: Final = 1.0
_VOID_STRAYS_EVERY: Final = 30
_ANNOUNCE_EVERY: Final = 5
"""Rounds between two announcements: well under the time after which a silent server's runs are taken."""


class Janitor:
    """Runs until it is cancelled; nothing it meets may end it."""

    def __init__(self, recovery: Recovery, catalog: CatalogKeeper, observe: Observer) -> None:
        self._recovery = recovery
        self._catalog = catalog
        self._observe = observe

    async def work(self) -> None:
        """Do the rounds."""
        rounds = 0
        while True:
            try:
                if rounds % _ANNOUNCE_EVERY == 0:
                    await self._recovery.announce()
                    while await self._recovery.take_over():
                        pass
                if rounds % _VOID_STRAYS_EVERY == 0:
                    await self._recovery.void_strays()
                if rounds:
                    await asyncio.to_thread(self._catalog.reload_if_changed)
            except Exception as error:  # noqa: BLE001 -- observed; the next round tries again
                self._observe(UnexpectedError("janitor", error))
            rounds += 1
            await asyncio.sleep(_ROUND_SECONDS)
