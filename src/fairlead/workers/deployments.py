"""The worker of deployments: prepares releases, and asks for hosts again where there were none."""

import asyncio
from typing import Final

from fairlead.observing.observations import Observer, UnexpectedError
from fairlead.operations.deployments import DeploymentKeeper

_LOOK_SECONDS: Final = 0.5
_FORGET_EVERY: Final = 120


class DeploymentWorker:
    """Looks after deployments until it is cancelled; nothing it meets may end it."""

    def __init__(self, keeper: DeploymentKeeper, observe: Observer) -> None:
        self._keeper = keeper
        self._observe = observe

    async def work(self) -> None:
        """Look after the deployments until cancelled."""
        rounds = 0
        try:
            while True:
                try:
                    await self._look(rounds)
                except Exception as error:  # noqa: BLE001 -- observed; the next round tries again
                    self._observe(UnexpectedError("look after deployments", error))
                rounds += 1
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await self._keeper.close()

    async def _look(self, rounds: int) -> None:
        await self._keeper.look()
        if rounds % _FORGET_EVERY == 0:
            while await self._keeper.forget():
                pass
