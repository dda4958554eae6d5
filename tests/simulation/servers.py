"""A simulated server: the product's parts wired as the server wires them, over lines and clocks that are not real.

What no run depends on is left out: the HTTP face, quotas, the sweeping of assets, and the reading of changed catalogs.
"""

import asyncio
import json
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from sqlalchemy import select

from document_reading import document_readers
from fairlead.clock import Clock
from fairlead.domain.accounts.rate_windows import Quotas
from fairlead.domain.runs.queue import Throughput
from fairlead.domain.work.entries import Released
from fairlead.http_client.transport import Transport
from fairlead.identity.links import Links
from fairlead.identity.master_secret import MasterSecret
from fairlead.identity.sealing import Sealer
from fairlead.messaging.local.wakeups import LocalWakeups
from fairlead.messaging.wakeups import Topic
from fairlead.observing.observations import Observation, RunEnded, RunTakenOver, UnexpectedError
from fairlead.operations.accounts.provider_keys import ProviderKeys
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.accounts.sweeping import AccountSweeper, KeptDays, RecordSweeper
from fairlead.operations.assets.results import AssetCopier, AssetReader, AssetSweeper
from fairlead.operations.catalog import CatalogKeeper
from fairlead.operations.runs.admit import Admitter
from fairlead.operations.runs.awaited_runs import AwaitedRuns
from fairlead.operations.runs.cancel import Canceller
from fairlead.operations.runs.collect import Collector
from fairlead.operations.runs.dispatch import Dispatcher
from fairlead.operations.runs.execute import Executor
from fairlead.operations.runs.given_files import GivenFiles
from fairlead.operations.runs.large_bodies import LargeBodies
from fairlead.operations.runs.postpone import Postponer
from fairlead.operations.runs.replay import Replayer
from fairlead.operations.runs.requests import CallChecks
from fairlead.operations.runs.results import Results
from fairlead.operations.runs.resume import Resumer
from fairlead.operations.runs.void import Voider
from fairlead.operations.runs.work import RunQueue, RunWork
from fairlead.operations.work.places import Places
from fairlead.operations.work.presence import ServerPresence
from fairlead.operations.work.queue import WorkQueue
from fairlead.operations.work.store import WorkStore
from fairlead.operations.work.stored_documents import StoredDocuments
from fairlead.providers.answers import AnswerDecoder
from fairlead.providers.attempts import Attempts
from fairlead.providers.credentials import Credentials
from fairlead.providers.exchange import Exchange
from fairlead.providers.health import CredentialRef, Health, Healths
from fairlead.server.messaging import publish_released
from fairlead.storage.db.tables import runs
from fairlead.storage.runs.batch import Written
from fairlead.storage.runs.entries import RunJournal, write_entries
from fairlead.storage.work.journal import Journal
from fairlead.workers.janitor import Janitor
from fairlead.workers.work import WorkLoop
from operations.servers import FLAG, leg_text, model_text
from simulation.partners import PROVIDERS, Partners, SimulatedTransport
from simulation.process import Process
from simulation.scenario import Scenario
from simulation.storage import Line, MemoryBlobs, Store
from simulation.workspaces import EPOCH_MS

T = TypeVar("T")

WEEK_MS: Final = 7 * 86_400_000
BASE_URL: Final = "https://router.example"
MODELS: Final = {
    "plain-now": ("plain", "now", "third"),
    "plain-later": ("plain", "later", "third"),
    "careful-now": ("careful", "now", "spare"),
    "careful-later": ("careful", "later", "spare"),
    "plain-dear": ("plain", "later", "third"),
}
"""The models: where each runs, by which call, and who else can run it."""
PRICES: Final = {model: "2.00" if model.endswith("dear") else "0.10" for model in MODELS}
"""Dollars for each unit that was used."""
_PLACES: Final = 4
_LARGEST_REPLAY: Final = 256 * 1024


class DiedError(Exception):
    """The server died before it answered: its callers see a connection that breaks."""


class World:
    """What the servers of one history share: the database, the partners, the blobs, and the time of day."""

    def __init__(self, scenario: Scenario, store: Store, catalog: CatalogKeeper) -> None:
        self.scenario = scenario
        self.store = store
        self.catalog = catalog
        self.partners = Partners(scenario, self._has_ended)
        self.blobs = MemoryBlobs(scenario)
        self.bugs: list[str] = []
        self.jumped_ns = 0
        self.clock = Clock(self._now_ns)

    def _has_ended(self, run_id: str) -> bool:
        ended = select(runs.c.id).where(runs.c.id == run_id, runs.c.finished_at.is_not(None))
        return self.store.look(lambda c: c.execute(ended).first()) is not None

    def _now_ns(self) -> int:
        return EPOCH_MS * 1_000_000 + self.jumped_ns + int(asyncio.get_running_loop().time() * 1e9)


def read_catalog(folder: Path) -> CatalogKeeper:
    """A model of every kind of partner and call; whatever is run synchronously may fall back."""
    for model, (provider, call, other) in MODELS.items():
        text = model_text(model, provider, call, price=PRICES[model], more=leg_text(other, price=PRICES[model]))
        (folder / f"{model}.toml").write_text(text, "utf-8")
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}, "tag": {"type": "string"}}}
    (folder / "input.json").write_text(json.dumps(schema), "utf-8")
    return CatalogKeeper([folder], PROVIDERS, FLAG, Clock(), lambda _: None)


class SimulatedServer:
    """One life of one server."""

    def __init__(self, world: World, name: str, *, alone: bool) -> None:
        self.world = world
        self.process = Process(name, world.scenario)
        self.database = Line(world.store, self.process, world.scenario)
        self._wire(alone=alone)
        self.is_ready = self.is_stopping = False
        self._janitor: asyncio.Task[None] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._start = asyncio.get_running_loop().create_task(self._live())

    def _wire(self, *, alone: bool) -> None:
        world, database, clock, observe, name = self.world, self.database, self.world.clock, self._observe, self.name
        transport = cast("Transport", SimulatedTransport(world.partners, self.process, world.scenario))
        credentials = Credentials(PROVIDERS, {})
        self.exchange = Exchange(PROVIDERS, transport, credentials, AnswerDecoder(document_readers()))
        # Every body is a blob here: what may go wrong with those goes wrong.
        bodies, stored = LargeBodies(document_readers()), StoredDocuments(world.blobs, observe, inline_bytes=0)
        wakeups = LocalWakeups()

        def delete_unneeded(written: Written) -> None:
            if written.unneeded:
                stored.delete_soon(written.unneeded)

        self.journal: RunJournal = Journal(
            database,
            partial(write_entries, machine_ms=clock.now_ms),
            split=self._split,
            released=publish_released(wakeups, Topic.RUN_RELEASED),
            listener=delete_unneeded,
        )
        results = Results(world.blobs)
        replayer = Replayer(database, results, clock, most=_LARGEST_REPLAY, with_links=3600)
        own_keys = ProviderKeys(
            database, Sealer(MasterSecret(bytes(32))), dict.fromkeys(PROVIDERS, False), clock, lambda _: None
        )
        dispatcher = self._dispatcher(credentials)
        postponer = Postponer(PROVIDERS, clock)
        self.executor = Executor(dispatcher, replayer, results, postponer, self.journal, clock, observe, WEEK_MS)
        wakeups.listen(Topic.RUN_CANCELLED, lambda found: self.executor.cancel([one.id for one in found]))
        files = GivenFiles(AssetReader(Links(bytes(32)), world.blobs, database, clock), world.blobs, BASE_URL)
        self.admitter = Admitter(
            CallChecks(world.catalog, PROVIDERS, database, bodies, files), self.exchange, credentials, own_keys,
            replayer, database, self.journal, clock, observe, name, stored,
            RateWindows(database, Quotas(), clock, observe),
        )  # fmt: skip
        resumer = Resumer(world.catalog, credentials, own_keys, bodies, stored, clock, WEEK_MS, BASE_URL)
        voider = Voider(self.executor, clock, WEEK_MS)
        self.presence = ServerPresence(
            database,
            clock,
            observe,
            name,
            alone=alone,
            silent_ms=20_000,
            monotonic=asyncio.get_running_loop().time,
        )
        throughput, timeout_ms = Throughput(), world.scenario.plan.queue_timeout_ms
        work = RunWork(
            database,
            self.exchange,
            resumer,
            self.executor,
            voider,
            clock,
            observe,
            name,
            WEEK_MS,
            timeout_ms,
            throughput,
        )
        store = WorkStore(self.journal, observe, "Runs cannot be recorded.")
        queue: RunQueue = WorkQueue(work, database, store, clock, observe, self.presence, timeout_ms)
        places = Places(_PLACES, monotonic=asyncio.get_running_loop().time)
        self.queue_worker = WorkLoop(queue, places, observe, awaited=AwaitedRuns().runs)
        wakeups.listen(
            Topic.RUN_RELEASED,
            lambda found: self.queue_worker.tell([Released(one.id, one.workspace_id, one.pool) for one in found]),
        )
        self.collector = Collector(database, results, clock, throughput)
        self.canceller = Canceller(database, self.journal, wakeups, clock, observe, WEEK_MS)
        still = _Still()
        self.janitor = Janitor(
            self.presence,
            queue,
            cast("CatalogKeeper", still),
            cast("RateWindows", still),
            cast("AssetSweeper", still),
            replayer,
            AccountSweeper(database, clock, observe),
            RecordSweeper(database, clock, observe, KeptDays()),
            observe,
        )

    @property
    def name(self) -> str:
        """What it is called, in the books as well."""
        return self.process.name

    async def ask(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the server do something for a caller; DiedError when it dies over it."""
        task = asyncio.get_running_loop().create_task(work)
        either: list[asyncio.Future[Any]] = [task, self.process.died]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if self.process.is_dead:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise DiedError
        if task.cancelled():  # the server stops, and leaves the run to its next start
            raise DiedError
        return task.result()

    async def stop(self) -> None:
        """Stop as `running_server` does when it is told to: whatever takes longer is left to the next start."""
        self.world.scenario.tell(f"{self.name}: is told to stop")
        self.is_stopping = True
        self.queue_worker.stop()
        for task in (self._janitor, self._worker):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        await self.executor.drain(self.world.scenario.chance.choice((0.5, 20.0)))
        await self.journal.close()
        self.process.kill("after it was told to stop")

    async def _live(self) -> None:
        """Start as `running_server` does."""
        await self.presence.announce()
        loop = asyncio.get_running_loop()
        self._worker = loop.create_task(self.queue_worker.work())
        self._janitor = loop.create_task(self.janitor.work())
        self.is_ready = True

    def _dispatcher(self, credentials: Credentials) -> Dispatcher:
        loop = asyncio.get_running_loop()
        attempts = Attempts(self.exchange, credentials, Healths(self._cools_down, loop.time))
        copier = AssetCopier(
            cast("Any", None),  # no model here lists assets
            lambda _provider, _url: False,
            self.world.blobs,
            self.database,
            Links(bytes(32)),
            self.world.clock,
            self._observe,
            limit=1,
            lifetime=1,
        )
        return Dispatcher(attempts, self.exchange, copier, self.world.clock, self._observe)

    def _cools_down(self, ref: CredentialRef, _health: Health, _workspaces: int, _reason: str) -> None:
        self.world.scenario.turned_away.add(ref[0])

    def _observe(self, observation: Observation) -> None:
        match observation:
            case UnexpectedError(doing, error):
                self.world.bugs.append(f"{self.name}: {doing}: {error!r}")
            case RunTakenOver(run_id, _, attempt):
                self.world.scenario.tell(f"{self.name}: takes {run_id} over, attempt {attempt}")
            case RunEnded():
                self.world.scenario.tell(f"{self.name}: {observation.run_id} ends: {observation.result}")
            case _:
                pass  # the rest tells nothing of a run that the database does not

    def _split(self, entries: int, error: Exception) -> None:
        self.world.bugs.append(f"{self.name}: a batch of {entries} was split: {error!r}")


class _Still:
    """Stands where the janitor wants parts that no run depends on."""

    async def share(self) -> None:
        """Share nothing."""

    async def forget(self) -> int:
        """Forget nothing."""
        return 0

    async def sweep(self) -> None:
        """Sweep nothing."""

    def reload_if_changed(self) -> None:
        """Read nothing."""
