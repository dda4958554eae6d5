"""The poster: prompt when woken, patient when not, bounded, and stopped without losing anything."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.observing.deliveries import WebhookTried
from fairlead.observing.observations import UnexpectedError
from fairlead.operations.runs.webhooks import LEASE_MS
from fairlead.storage.db.database import Database, Work
from fairlead.workers import deliveries
from fairlead.workers.deliveries import AT_ONCE, Poster
from fake_partner import FakePartner, Request, hang, reply
from operations.webhook_office import Office
from storage.bookings import NOW, Books
from storage.queued_runs import end, queue, run_id
from waiting import until

HOOK: Final = "/hook"


@pytest.fixture
def books(database: Database, run: Run) -> Books:
    """Return the books of the test's database, with money for many runs."""
    opened = Books(database, run)
    opened.open(balance=100_000)
    return opened


@pytest.fixture
def receiver(shared_partner: FakePartner) -> Iterator[FakePartner]:
    """Return a receiver that takes every message."""
    shared_partner.script(HOOK, reply(204, b""))
    yield shared_partner
    shared_partner.release()
    shared_partner.reset()


@pytest.fixture
def office(database: Database, run: Run) -> Iterator[Office]:
    """Return what posts webhooks."""
    made = Office(database)
    yield made
    run(made.transport.close())


def finish(books: Books, receiver: FakePartner, count: int) -> None:
    """End some runs whose receiver is to be told."""
    for number in range(1, count + 1):
        queue(books, run_id(number), receiver.url + HOOK)
        end(books, run_id(number))


async def wait_for_tries(office: Office, count: int) -> None:
    """Wait until so many tries were recorded."""
    await until(lambda: len(office.observations_of(WebhookTried)) >= count)


async def stop(task: "asyncio.Task[None]") -> None:
    """Stop a worker as the server does."""
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("is_woken", [True, False])
def test_due_webhook_is_posted_at_once_when_woken(
    books: Books, office: Office, receiver: FakePartner, run: Run, monkeypatch: pytest.MonkeyPatch, *, is_woken: bool
) -> None:
    """A poster that is woken looks at once, however long it would have waited by itself."""
    if is_woken:
        monkeypatch.setattr(deliveries, "_ROUND_SECONDS", 3600.0)
    finish(books, receiver, 1)
    office.now = NOW  # before the run's end
    poster = Poster(office.webhooks, "webhooks", office.seen.append)

    async def work() -> None:
        task = asyncio.create_task(poster.work())
        for _ in range(3):
            poster.wake()
            await asyncio.sleep(0.05)
        assert office.observations_of(WebhookTried) == []
        office.move(1000)
        if is_woken:
            poster.wake()
        await wait_for_tries(office, 1)
        await stop(task)

    run(work())


def test_slow_receiver_does_not_hold_up_the_others(
    books: Books, office: Office, receiver: FakePartner, run: Run
) -> None:
    """As many tries as there may be go on at once, and as soon as one ends the next begins."""
    under_way = most = 0

    async def behave(request: Request, writer: Any) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.03)
        under_way -= 1
        await reply(200)(request, writer)

    receiver.script(HOOK, behave)
    finish(books, receiver, 3 * AT_ONCE)
    poster = Poster(office.webhooks, "webhooks", office.seen.append)

    async def work() -> None:
        task = asyncio.create_task(poster.work())
        await wait_for_tries(office, 3 * AT_ONCE)
        await stop(task)

    run(work())
    assert 1 < most <= AT_ONCE
    assert {one.delivered for one in office.observations_of(WebhookTried)} == {True}
    assert len(receiver.requests(HOOK)) == 3 * AT_ONCE


def test_stopping_server_loses_no_webhook(books: Books, database: Database, receiver: FakePartner, run: Run) -> None:
    """What is under way at a stop is cut off at once, and delivered by the next poster when its claim has run out."""
    receiver.script(HOOK, hang(), reply(200))
    finish(books, receiver, 1)
    office = Office(database)

    async def work() -> None:
        task = asyncio.create_task(Poster(office.webhooks, "webhooks", office.seen.append).work())
        await until(lambda: receiver.requests(HOOK))
        await asyncio.wait_for(stop(task), 20)  # the receiver would hold it for longer
        assert office.seen == []
        office.move(LEASE_MS)
        task = asyncio.create_task(Poster(office.webhooks, "webhooks", office.seen.append).work())
        await wait_for_tries(office, 1)
        await stop(task)
        await office.transport.close()

    run(work())
    assert len(receiver.requests(HOOK)) == 2


class Buggy:
    """A database whose first reading meets a bug."""

    def __init__(self, database: Database) -> None:
        """Stand before a real database."""
        self._database = database
        self.write = database.write
        self.close = database.close
        self._is_first = True

    async def read(self, work: Work[Any]) -> Any:
        """Read, but not at first."""
        if self._is_first:
            self._is_first = False
            raise RuntimeError("a bug")
        return await self._database.read(work)


def test_poster_survives_a_bug(books: Books, database: Database, receiver: FakePartner, run: Run) -> None:
    """What nobody expected is observed, and the next look is made all the same."""
    finish(books, receiver, 1)
    office = Office(Buggy(database))

    async def work() -> None:
        task = asyncio.create_task(Poster(office.webhooks, "webhooks", office.seen.append).work())
        await wait_for_tries(office, 1)
        await stop(task)
        await office.transport.close()

    run(work())
    assert [one.doing for one in office.observations_of(UnexpectedError)] == ["deliver webhooks"]
