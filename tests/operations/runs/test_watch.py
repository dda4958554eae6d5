"""Watching queued runs without an API: woken by what happens, bounded, and ended in good order."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import cast

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import ConcurrencyLimitExceeded, FaultError, RequestNotFound
from fairlead.domain.runs.queue import QueueStatus
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.operations.runs import watch as watching
from fairlead.operations.runs.collect import RequestStatus
from fairlead.operations.runs.watch import WATCHERS_MAX, Watcher
from operations.queueing import claim, enqueue, make_run
from operations.servers import Server
from storage.queued_runs import run_id

pytestmark = pytest.mark.req("R-33")

MODEL = "acme/plain-now"
FIRST = run_id()
PATIENCE = 30.0
"""How long anything is waited for, in seconds."""


@pytest.fixture
def watcher(server: Server, monkeypatch: pytest.MonkeyPatch) -> Watcher:
    """Return a watcher that hears of events, and does not look by itself."""
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 3600.0)
    return Watcher(server.collector, server.events)


async def rest_of(changes: AsyncIterator[RequestStatus | None]) -> list[RequestStatus | None]:
    """Everything a watch tells until it ends."""
    return [told async for told in changes]


def generator(changes: AsyncIterator[RequestStatus | None]) -> AsyncGenerator[RequestStatus | None, None]:
    """A watch as what it is, so that it can be closed as an API does whose caller has left."""
    return cast("AsyncGenerator[RequestStatus | None, None]", changes)


def test_watch_of_a_completed_run_ends_with_one_status(
    server: Server, caller: Caller, watcher: Watcher, run: Run
) -> None:
    """One status, and the watch has ended."""
    run(make_run(server, caller))
    changes = run(watcher.watch(caller, MODEL, FIRST))
    assert run(rest_of(changes)) == [RequestStatus(FIRST, MODEL, QueueStatus.COMPLETED, 1)]


def test_change_on_this_server_is_told_at_once(server: Server, caller: Caller, watcher: Watcher, run: Run) -> None:
    """A claim and an end wake anyone who watches, each of them, at once."""

    async def follow() -> list[list[str]]:
        await enqueue(server, caller)
        watches = [await watcher.watch(caller, MODEL, FIRST) for _ in range(3)]
        first = [await anext(watch) for watch in watches]
        waiting = [asyncio.ensure_future(rest_of(watch)) for watch in watches]
        server.events.is_holding = True  # to look while the partner is called would be a transaction around the call
        assert await claim(server, caller)
        assert [change.has_ended for change in server.events.held] == [False, True]
        server.events.let_go()
        async with asyncio.timeout(PATIENCE):
            rest = await asyncio.gather(*waiting)
        told = [[one, *more] for one, more in zip(first, rest, strict=True)]
        return [[one.status.value for one in each if one is not None] for each in told]

    for statuses in run(follow()):
        assert (statuses[0], statuses[-1]) == ("IN_QUEUE", "COMPLETED")


def test_change_on_another_server_is_told_after_a_while(
    server: Server, caller: Caller, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without being woken a watch looks now and then."""
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.02)
    watcher = Watcher(server.collector, LocalEventHub())

    async def follow() -> list[RequestStatus | None]:
        await enqueue(server, caller)
        changes = await watcher.watch(caller, MODEL, FIRST)
        first = await anext(changes)
        assert await claim(server, caller)
        async with asyncio.timeout(PATIENCE):
            return [first, *await rest_of(changes)]

    assert [one.status for one in run(follow()) if one] == [QueueStatus.IN_QUEUE, QueueStatus.COMPLETED]


def test_silence_is_told_as_a_sign_of_life(
    server: Server, caller: Caller, watcher: Watcher, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing changes there is nothing but a sign of life, now and then."""
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(watching, "_SILENCE_SECONDS", 0.1)

    async def follow() -> list[RequestStatus | None]:
        await enqueue(server, caller)
        changes = await watcher.watch(caller, MODEL, FIRST)
        return [await anext(changes) for _ in range(3)]

    first, *silence = run(follow())
    assert first is not None
    assert silence == [None, None]


def test_number_of_watches_is_bounded(
    server: Server, new_caller: Callable[..., Caller], watcher: Watcher, run: Run
) -> None:
    """A workspace has a bounded number of watches; one that ends makes room, and other workspaces have their own."""
    caller, other = new_caller(), new_caller(name="office")

    async def follow() -> None:
        await enqueue(server, caller)
        await enqueue(server, other, number=2)
        watches = [generator(await watcher.watch(caller, MODEL, FIRST)) for _ in range(WATCHERS_MAX)]
        for watch in watches:
            await anext(watch)
        with pytest.raises(FaultError) as raised:
            await watcher.watch(caller, MODEL, FIRST)
        full = ConcurrencyLimitExceeded(WATCHERS_MAX, WATCHERS_MAX, what="event streams")
        assert raised.value.fault == full
        assert await anext(await watcher.watch(other, MODEL, run_id(2))) is not None
        await watches[0].aclose()
        again = generator(await watcher.watch(caller, MODEL, FIRST))
        assert await anext(again) is not None
        for watch in (*watches, again):
            await watch.aclose()

    run(follow())


def test_stranger_cannot_watch(server: Server, new_caller: Callable[..., Caller], watcher: Watcher, run: Run) -> None:
    """What is not found is refused before anything is told."""
    caller, stranger = new_caller(), new_caller(name="office")
    run(enqueue(server, caller))
    with pytest.raises(FaultError) as raised:
        run(watcher.watch(stranger, MODEL, FIRST))
    assert raised.value.fault == RequestNotFound()


def test_stopping_server_ends_every_watch(server: Server, caller: Caller, watcher: Watcher, run: Run) -> None:
    """Closing ends every watch at once, whatever became of its run."""

    async def follow() -> list[RequestStatus | None]:
        await enqueue(server, caller)
        told = asyncio.ensure_future(rest_of(await watcher.watch(caller, MODEL, FIRST)))
        await asyncio.sleep(0.05)
        watcher.close()
        async with asyncio.timeout(PATIENCE):
            return await told

    assert [one.status for one in run(follow()) if one] == [QueueStatus.IN_QUEUE]


def test_watch_ends_while_the_database_is_away(
    server: Server, caller: Caller, watcher: Watcher, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that can tell nothing any more ends; its caller opens another."""
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.02)

    async def follow() -> list[RequestStatus | None]:
        await enqueue(server, caller)
        changes = await watcher.watch(caller, MODEL, FIRST)
        first = await anext(changes)
        server.database.refusals = 1
        async with asyncio.timeout(PATIENCE):
            return [first, *await rest_of(changes)]

    assert len(run(follow())) == 1
