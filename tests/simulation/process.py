"""A server's life in a simulation: whatever it does passes here, and stands still forever once it is dead."""

import asyncio

from simulation.scenario import Scenario


class Process:
    """One life of a server.

    Its tasks are not cancelled when it dies, for a dead process does not tidy up: each of them stands still the next
    time it wants something of the world.
    """

    def __init__(self, name: str, scenario: Scenario) -> None:
        self.name = name
        self._scenario = scenario
        self.died: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_dead(self) -> bool:
        """Whether it was killed."""
        return self.died.done()

    def kill(self, when: str) -> None:
        """End it as SIGKILL does."""
        if not self.is_dead:
            self._scenario.tell(f"{self.name}: dies {when}")
            self._scenario.has_silence = True
            self.died.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Let time pass; nobody comes back from here in a process that is dead."""
        await self.alive()
        await asyncio.sleep(seconds)
        await self.alive()

    async def alive(self) -> None:
        """Stand still forever in a process that is dead."""
        if self.is_dead:
            await asyncio.shield(self._never)

    async def may_die(self, probability: float, when: str) -> None:
        """Die here, perhaps."""
        if self._scenario.happens(probability):
            self.kill(when)
        await self.alive()
