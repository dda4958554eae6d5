"""The worker of deployments: prepares releases, and asks for hosts again where there were none."""

import itertools
from typing import Final

from fairlead.observing.observations import Observer
from fairlead.operations.deployment_keeper import DeploymentKeeper
from fairlead.workers.periodic import run_periodically

_LOOK_SECONDS: Final = 0.5
_FORGET_EVERY: Final = 120


class DeploymentWorker:
    """Maintains deployments until it is cancelled, whatever errors occur."""

    def __init__(self, keeper: DeploymentKeeper, observe: Observer) -> None:
        self._keeper = keeper
        self._observe = observe

    async def work(self) -> None:
        """Maintain the deployments until cancelled."""
        turns = itertools.count()
        try:
            await run_periodically(
                lambda: self._look(next(turns)), _LOOK_SECONDS, "look after deployments", self._observe
            )
        finally:
            await self._keeper.close()

    async def _look(self, turns: int) -> None:
        await self._keeper.look()
        if turns % _FORGET_EVERY == 0:
            while await self._keeper.forget():
                pass
