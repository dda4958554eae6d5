"""One history from its seed to its proof: servers that die, callers that ask, and books that must be right."""

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, select

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.runs.states import LIVE
from fairlead.operations.catalog import CatalogKeeper
from fairlead.storage.db.tables import runs
from simulation.actors import Actor, Notebook
from simulation.proof import Facts, Proof
from simulation.scenario import Scenario
from simulation.servers import SimulatedServer, World, read_catalog
from simulation.storage import Store
from simulation.timing import SimulatedLoop
from simulation.workspaces import open_workspaces, set_slots

_QUIET_SECONDS = 3_000.0
_DAY_NS = 86_400 * 1_000_000_000


class HistoryError(AssertionError):
    """A history that must not have happened, told whole."""


class Theatre:
    """What histories are played in, one after another: the catalog is read and the tables are made once."""

    def __init__(self, folder: Path) -> None:
        self._store = Store()
        self._callers = open_workspaces(self._store)
        self._store.keep()
        self._catalog = read_catalog(folder)

    def play(self, seed: int) -> Facts:
        """Play the history of a seed and prove what it leaves; HistoryError."""
        scenario = Scenario(seed)
        random.seed(seed)  # the product's own dice: pauses between tries
        self._store.begin()
        self._store.transact(lambda c: set_slots(c, scenario.plan.slots))
        with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, SimulatedLoop)
            scenario.now = loop.time
            try:
                play = _Play(scenario, self._store, self._catalog, self._callers)
                proof = runner.run(play.whole())
            except Exception as error:
                raise HistoryError(f"{error!r}\n{scenario.text()}") from error
        wrong = [*proof.wrong, *loop.unhandled]
        if wrong:
            raise HistoryError("\n".join([*wrong, scenario.text()]))
        return proof.facts()

    def close(self) -> None:
        """Close the database."""
        self._store.close()


class _Play:
    """A history while it is played."""

    def __init__(self, scenario: Scenario, store: Store, catalog: CatalogKeeper, callers: dict[str, Caller]) -> None:
        self._scenario = scenario
        self._world = World(scenario, store, catalog)
        self._callers = callers
        self._notebook = Notebook()
        self._servers: list[SimulatedServer] = []
        self._lives = 0

    async def whole(self) -> Proof:
        """Trouble, then quiet, then the proof."""
        plan, loop = self._scenario.plan, asyncio.get_running_loop()
        until = loop.time() + plan.seconds
        keepers = [loop.create_task(self._keep_a_server()) for _ in range(plan.servers)]
        troubles = [loop.create_task(trouble) for trouble in self._troubles()]
        everybody = list(self._callers.values())
        actors = [
            Actor(self._world, self._notebook, everybody[number % len(everybody)], self._ready).act(until)
            for number in range(plan.actors)
        ]
        await asyncio.gather(*actors)
        for task in (*keepers, *troubles):
            task.cancel()
        last = await self._quiet()
        proof = Proof(self._world, self._notebook)
        await proof.of_everything(last)
        return proof

    def _living(self) -> list[SimulatedServer]:
        return [server for server in self._servers if not server.process.is_dead]

    def _ready(self) -> list[SimulatedServer]:
        return [server for server in self._living() if server.is_ready]

    def _start(self) -> SimulatedServer:
        self._lives += 1
        server = SimulatedServer(self._world, f"server-{self._lives}", alone=self._scenario.plan.alone)
        self._servers.append(server)
        self._scenario.tell(f"{server.name}: starts")
        return server

    async def _keep_a_server(self) -> None:
        """Start a server, and another whenever it has died."""
        while True:
            server = self._start()
            await asyncio.wait([server.process.died])
            await asyncio.sleep(self._scenario.chance.choice((0.1, 2.0, 10.0, 30.0)))

    def _troubles(self) -> list[Coroutine[Any, Any, None]]:
        plan = self._scenario.plan
        return [
            *(self._crash() for _ in range(plan.crashes)),
            *(self._stop() for _ in range(plan.stops)),
            *(self._change_limits() for _ in range(plan.limits)),
            *(self._outage() for _ in range(plan.outages)),
            *(self._jump() for _ in range(plan.clock_jumps)),
        ]

    async def _moment(self) -> SimulatedServer | None:
        """Wait for a moment of the history, and choose a server that lives then."""
        await asyncio.sleep(self._scenario.chance.uniform(0, self._scenario.plan.seconds))
        living = self._living()
        return self._scenario.chance.choice(living) if living else None

    async def _crash(self) -> None:
        if server := await self._moment():
            server.process.kill("of a signal")

    async def _stop(self) -> None:
        if server := await self._moment():
            await server.stop()

    async def _change_limits(self) -> None:
        """An operator changes how many runs each workspace may have in flight."""
        await self._moment()
        chance = self._scenario.chance
        slots = (chance.choice((1, 3, 6)), chance.choice((1, 2, 4)), chance.choice((2, -1)))
        self._scenario.tell(f"the limits are {slots}")
        self._world.store.transact(lambda c: set_slots(c, slots))

    async def _outage(self) -> None:
        """A server cannot reach the database for a while, and may come to look dead or find its runs taken."""
        if server := await self._moment():
            seconds = self._scenario.chance.choice((3.0, 25.0, 70.0))
            self._scenario.tell(f"{server.name}: has no database for {seconds:g} s")
            self._scenario.has_silence = server.database.is_away = True
            await asyncio.sleep(seconds)
            server.database.is_away = False

    async def _jump(self) -> None:
        """Somebody sets the clock of the machine forward by a day."""
        await self._moment()
        self._scenario.tell("the clock jumps a day ahead")
        self._world.jumped_ns += _DAY_NS
        self._scenario.has_silence = True

    async def _quiet(self) -> SimulatedServer:
        """End all trouble and perhaps every server, and wait until those that live have nothing left to do."""
        self._scenario.tell("all is quiet from here on")
        ends_alive = self._scenario.plan.ends_alive
        self._scenario.calm()
        for server in self._living():
            server.database.is_away = False
            if server.is_stopping or not ends_alive:
                server.process.kill("to let the last one begin")
        last = next(iter(self._living()), None) or self._start()
        give_up_at = asyncio.get_running_loop().time() + _QUIET_SECONDS
        while self._world.store.look(_live_runs) or not last.is_ready:
            if asyncio.get_running_loop().time() > give_up_at:
                break
            await asyncio.sleep(5)
        await asyncio.sleep(5)
        return last


def _live_runs(connection: Connection) -> int:
    return connection.execute(select(func.count()).where(runs.c.state.in_(sorted(LIVE)))).scalar_one()
