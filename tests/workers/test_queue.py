"""The queue's worker: prompt when told, patient when not, within its places, and stopped without losing a run."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, cast

import pytest
from msgspec.structs import replace

from conftest import Run
from fairlead.domain.accounts.callers import Billing, Caller
from fairlead.domain.ledger.books import UNLIMITED
from fairlead.domain.runs.entries import LiveRun
from fairlead.domain.work.entries import Released
from fairlead.domain.work.pools import DEFAULT_POOL
from fairlead.messaging.wakeups import Topic
from fairlead.observing.observations import DatabaseTrouble, RunEnded, RunWithdrawn, UnexpectedError
from fairlead.operations.accounts.authenticate import ApiKey
from fairlead.operations.accounts.keys import issue_key
from fairlead.operations.accounts.workspaces import NewCredit, NewWorkspace, create_workspace, credit
from fairlead.operations.runs.admit import AdmittedRun
from fairlead.operations.runs.awaited_runs import AwaitedRuns
from fairlead.operations.runs.resume import Resumer
from fairlead.operations.runs.work import RunQueue
from fairlead.operations.work.places import Places
from fairlead.storage.db.database import Database
from fairlead.workers import work
from fairlead.workers.work import WorkLoop
from operations.queueing import enqueue, gate_of
from operations.servers import DAY_MS, DOLLAR, SCHEMA, Guarded, Partner, Server, model_text
from storage.bookings import Books
from storage.queued_runs import run_id
from waiting import until

pytestmark = pytest.mark.req("R-32")

_LOOK: Final = 1.0
"""How often the worker looks for what it was not told, in seconds."""


@pytest.fixture(autouse=True)
def _books_are_proven(proven_books: None) -> None:
    """Prove the books after each test of this file."""


@pytest.fixture
def books(database: Database, run: Run) -> Books:
    """Return the books of the test's database."""
    return Books(database, run)


@pytest.fixture
def partner(run: Run) -> Iterator[Partner]:
    """Return a listening partner."""
    started = Partner()
    run(started.start())
    yield started
    run(started.stop())


@pytest.fixture
def server(database: Database, partner: Partner, tmp_path: Path, run: Run) -> Iterator[Server]:
    """Return a server with one model, without its worker."""
    models = tmp_path / "models"
    models.mkdir()
    (models / "input.json").write_text(json.dumps(SCHEMA))
    (models / "plain-now.toml").write_text(model_text("plain-now", "plain", "now"))

    async def start() -> Server:
        return Server(Guarded(database), partner, models)

    started = run(start())
    yield started
    run(started.close())


@pytest.fixture
def caller(server: Server, run: Run) -> Caller:
    """Return a caller whose workspace has money for many runs, and no limit."""

    async def make() -> Caller:
        lab = NewWorkspace(name="lab", billing=Billing.PREPAID, in_flight_limit=UNLIMITED)
        await create_workspace(server.database, lab, server.clock)
        await credit(server.database, "lab", NewCredit(100 * DOLLAR, "paid in"), server.clock)
        key = await issue_key(server.database, "lab", "", None, "flk_", server.clock)
        return await server.authenticator.authenticate(ApiKey(key.text))

    made: Caller = run(make())
    return made


@asynccontextmanager
async def working(
    server: Server, places: int = 10, queue: RunQueue | None = None, awaited: AwaitedRuns | None = None
) -> AsyncIterator[WorkLoop]:
    """A worker at work, woken by the journal, and stopped afterwards as the server stops it."""
    awaited = awaited or AwaitedRuns()
    worker = WorkLoop(queue or server.queue, Places(places), server.seen.append, awaited=awaited.runs)
    leave = server.wakeups.listen(
        Topic.RUN_RELEASED, lambda found: worker.tell([Released(one.id, one.workspace_id, one.pool) for one in found])
    )
    task = asyncio.create_task(worker.work())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        leave()


def have_ended(server: Server, count: int) -> Callable[[], bool]:
    """Return a question: whether so many runs have ended."""
    return lambda: len(server.observations_of(RunEnded)) >= count


def test_released_run_that_is_announced_is_claimed_without_a_look(
    server: Server, caller: Caller, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is told of a run takes it without another look."""
    monkeypatch.setattr(work, "_LOOK_SECONDS", 3600.0)

    async def follow() -> None:
        async with working(server):
            await asyncio.sleep(0.1)  # its first look is over
            await enqueue(server, caller)
            await until(have_ended(server, 1))

    run(follow())


def test_released_run_that_is_not_announced_is_found_by_looking(server: Server, caller: Caller, run: Run) -> None:
    """What was released elsewhere, or while no worker was there, is found by looking."""

    async def follow() -> None:
        await enqueue(server, caller, number=1)
        async with working(server):
            await until(have_ended(server, 1))
            server.wakeups.is_losing = True
            await enqueue(server, caller, number=2)
            await until(have_ended(server, 2))

    run(follow())


def test_worker_that_stops_claims_only_what_its_own_jobs_wait_for(
    server: Server, caller: Caller, books: Books, run: Run
) -> None:
    """One it was told of, and one it had to look for; what nobody here waits for is left to other servers."""

    async def follow() -> None:
        awaited = AwaitedRuns()
        with ExitStack() as waiting:
            for number in (2, 3):
                waiting.enter_context(awaited.waiting(run_id(number), caller.workspace_id, DEFAULT_POOL))
            async with working(server, awaited=awaited) as worker:
                worker.stop()
                await enqueue(server, caller, number=1)
                await enqueue(server, caller, number=2)
                server.wakeups.is_losing = True
                await enqueue(server, caller, number=3)
                await until(have_ended(server, 2))

    run(follow())
    states = {row["id"]: row["state"] for row in books.rows("SELECT id, state FROM runs")}
    assert states == {run_id(1): "released", run_id(2): "succeeded", run_id(3): "succeeded"}


@pytest.mark.parametrize("places", [1, 3])
def test_worker_takes_no_more_than_its_places(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, places: int
) -> None:
    """A bounded number runs at a time, the next as soon as one has ended, and all of them in the end."""

    async def follow() -> None:
        gate = gate_of(partner)
        async with working(server, places):
            for number in range(1, 8):
                await enqueue(server, caller, number=number)
            await until(lambda: len(partner.calls) == places)
            await asyncio.sleep(1.5 * _LOOK)
            assert (len(partner.calls), server.executor.under_way) == (places, places)
            gate.set()
            await until(have_ended(server, 7))

    run(follow())
    assert [row["state"] for row in books.rows("SELECT state FROM runs")] == ["succeeded"] * 7
    assert len(partner.calls) == 7


def test_worker_without_places_claims_nothing_and_tends_the_queue(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """With no places nothing is claimed, but the queue is looked after: what waits too long ends."""

    async def follow() -> None:
        await enqueue(server, caller)
        server.now_ns += (DAY_MS + 1) * 1_000_000
        async with working(server, 0):
            await enqueue(server, caller, number=2)
            await until(lambda: bool(server.observations_of(RunWithdrawn)))

    run(follow())
    assert partner.calls == []
    assert [books.state(run_id(number))["state"] for number in (1, 2)] == ["failed", "released"]
    books.sql("UPDATE runs SET created_at = 0 WHERE finished_at IS NULL")
    assert run(server.time_out()) == 1


class _Stumbling:
    """A resumer with a bug that shows a few times."""

    def __init__(self, resumer: Resumer, times: int) -> None:
        self._resumer = resumer
        self._times = times

    async def resume(self, found: LiveRun) -> AdmittedRun:
        if self._times > 0:
            self._times -= 1
            raise ZeroDivisionError
        return await self._resumer.resume(found)


@pytest.mark.req("R-29")
def test_bug_in_claiming_frees_its_place(server: Server, caller: Caller, books: Books, run: Run) -> None:
    """A place is free again whatever happened in it; the run is voided as a stray, and nothing stays held."""
    kind = replace(server.work, resumer=cast("Resumer", _Stumbling(server.resumer, 2)))
    queue = replace(server.queue, kind=kind)

    async def follow() -> None:
        async with working(server, 1, queue):
            for number in (1, 2, 3, 4):
                await enqueue(server, caller, number=number)
            await until(have_ended(server, 2))
        server.now_ns += 61_000_000_000
        assert await server.queue.end_strays() == 2

    run(follow())
    assert [type(seen.error) for seen in server.observations_of(UnexpectedError)] == [ZeroDivisionError] * 2
    states = [books.state(run_id(number))["state"] for number in (1, 2, 3, 4)]
    assert states == ["failed", "failed", "succeeded", "succeeded"]
    assert books.figures(caller.workspace_id)[1:] == (0, 0)


@pytest.mark.req("R-29")
def test_run_that_is_announced_twice_is_dispatched_once(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """A run that is told of again and again while it is under way, and after it has ended, is dispatched once."""

    async def follow() -> None:
        gate = gate_of(partner)
        async with working(server) as worker:
            await enqueue(server, caller)
            told = [Released(run_id(), caller.workspace_id, DEFAULT_POOL)]
            for _ in range(5):
                worker.tell(told)
                await asyncio.sleep(0.01)
            await until(lambda: bool(partner.calls))
            worker.tell(told)
            gate.set()
            await until(have_ended(server, 1))
            worker.tell(told)
            await asyncio.sleep(0.1)

    run(follow())
    assert partner.calls == ["POST /now"]


def test_worker_survives_an_unavailable_database(server: Server, caller: Caller, run: Run) -> None:
    """Whatever a round meets, the next one tries again."""

    async def follow() -> None:
        await enqueue(server, caller)
        server.database.refusals = 4
        async with working(server):
            await until(have_ended(server, 1))

    run(follow())
    assert len(server.observations_of(DatabaseTrouble)) == 4


def test_worker_survives_a_bug_in_a_look(server: Server, caller: Caller, books: Books, run: Run) -> None:
    """A round that fails in a way nobody thought of is observed, and the next one does its work."""

    async def follow() -> None:
        await enqueue(server, caller)
        await server.database.write(lambda c: c.exec_driver_sql("ALTER TABLE runs RENAME TO elsewhere").close())
        async with working(server):
            await until(lambda: bool(server.observations_of(UnexpectedError)))
            await server.database.write(lambda c: c.exec_driver_sql("ALTER TABLE elsewhere RENAME TO runs").close())
            await until(have_ended(server, 1))

    run(follow())
    assert books.state(run_id())["state"] == "succeeded"


@pytest.mark.req("R-29")
def test_stopping_worker_finishes_what_it_claimed(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """Once stopped nothing more is claimed; what was claimed goes on to its end, and the rest waits for another."""

    async def follow() -> None:
        gate = gate_of(partner)
        async with working(server, 2) as worker:
            for number in (1, 2, 3):
                await enqueue(server, caller, number=number)
            await until(lambda: len(partner.calls) == 2)
        gate.set()
        await until(have_ended(server, 2))
        worker.tell([Released(run_id(3), caller.workspace_id, DEFAULT_POOL)])
        await asyncio.sleep(0.1)

    run(follow())
    assert [books.state(run_id(number))["state"] for number in (1, 2, 3)] == ["succeeded", "succeeded", "released"]
    assert len(partner.calls) == 2
