"""Group commit: what arrives together is written together, and nobody pays for another's mistake."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from conftest import Run
from fairlead.domain.faults import InsufficientCredits, ServiceUnavailable
from fairlead.domain.runs.entries import JournalEntry, Verdict
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.runs.entries import RunJournal, write_entries
from fairlead.storage.work import journal as journals
from fairlead.storage.work.journal import Journal
from storage.bookings import Books, admission, settlement

Told = list[tuple[str, int]]


class Counting:
    """A database that counts its transactions, and is away when told so."""

    def __init__(self, database: Database) -> None:
        """Stand before a real database."""
        self._database = database
        self.writes = 0
        self.away = False

    async def write(self, work: Work[Any], *, durable: bool = True) -> Any:
        """Count, then write."""
        self.writes += 1
        if self.away:
            raise DatabaseUnavailableError("away")
        return await self._database.write(work, durable=durable)

    async def read(self, work: Work[Any]) -> Any:
        """Read."""
        return await self._database.read(work)

    async def close(self) -> None:
        """Leave the real database open: it is the fixture's."""


@pytest.fixture
def counting(database: Database) -> Counting:
    """Return the test's database, counted."""
    return Counting(database)


@pytest.fixture
def told() -> Told:
    """Return what a journal has said so far."""
    return []


@pytest.fixture
def journal(counting: Counting, told: Told) -> RunJournal:
    """Return a journal that is listened to."""
    return Journal(counting, write_entries, split=lambda entries, _: told.append(("split", entries)))


@pytest.fixture
def write(journal: RunJournal, run: Run) -> Callable[..., list[Any]]:
    """Return a function that hands entries in together and returns their verdicts, or what they failed for."""

    async def write_all(entries: tuple[JournalEntry, ...]) -> list[Verdict | BaseException]:
        verdicts = await asyncio.gather(*(journal.write(entry) for entry in entries), return_exceptions=True)
        await journal.close()
        return verdicts

    return lambda *entries: run(write_all(entries))


def test_entries_that_arrive_together_share_a_transaction(
    write: Callable[..., list[Any]], counting: Counting, books: Books
) -> None:
    """Entries handed in before the first is written share its transaction."""
    books.open(balance=10_000)
    assert write(*(admission(f"run-{n}") for n in range(20))) == [None] * 20
    assert counting.writes == 1


def test_entries_are_counted_as_waiting_until_they_are_durable(journal: RunJournal, books: Books, run: Run) -> None:
    """Entries wait from when they are handed in until their batch is written."""
    books.open(balance=10_000)

    async def hand_in() -> list[int]:
        waiting = []
        for number in range(3):
            journal.write(admission(f"run-{number}")).add_done_callback(
                lambda _: waiting.append(journal.entries_waiting)
            )
        waiting.append(journal.entries_waiting)
        await asyncio.sleep(0)  # their batch begins
        waiting.append(journal.entries_waiting)
        await journal.close()
        return waiting

    assert run(hand_in()) == [3, 3, 0, 0, 0]
    assert journal.entries_waiting == 0


def test_lone_entry_is_written_at_once(write: Callable[..., list[Any]], counting: Counting, books: Books) -> None:
    """An entry alone is a batch of one."""
    books.open(balance=10_000)
    assert write(admission("run-1")) == [None]
    assert write(admission("run-2")) == [None]
    assert counting.writes == 2


def test_batch_is_bounded(
    write: Callable[..., list[Any]], counting: Counting, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More entries than a batch may have make several."""
    monkeypatch.setattr(journals, "BATCH_MAX", 8)
    books.open(balance=10_000)
    assert write(*(admission(f"run-{n}") for n in range(20))) == [None] * 20
    assert counting.writes == 3


def test_entries_keep_their_order(write: Callable[..., list[Any]], books: Books) -> None:
    """Those that came first get the money, one after another."""
    books.open(balance=250)
    verdicts = write(*(admission(f"run-{n}") for n in range(4)))
    refused = InsufficientCredits(available=50, needed=100)
    assert verdicts == [None, None, refused, refused]
    assert [row["run_id"] for row in books.rows("SELECT run_id FROM ledger_entries ORDER BY id")][1:] == [
        "run-0",
        "run-1",
    ]


def test_poisoned_entry_fails_alone(write: Callable[..., list[Any]], books: Books, told: Told) -> None:
    """A batch that fails is halved until the entry it failed for is alone."""
    books.open(balance=10_000)
    poison = admission("run-3", model_id=None)
    verdicts = write(*(admission(f"run-{n}") if n != 3 else poison for n in range(8)))
    assert isinstance(verdicts.pop(3), DBAPIError)
    assert verdicts == [None] * 7
    assert [entry for entry in told if entry[0] == "split"] == [("split", 8), ("split", 4), ("split", 2)]
    assert books.figures() == (10_000, 700, 7)


def test_second_end_of_a_run_is_superseded(write: Callable[..., list[Any]], books: Books) -> None:
    """Of two settlements in one batch the first is booked and the second is superseded."""
    books.open(balance=500)
    books.write(admission())
    first, second = write(settlement(charge=60), settlement(charge=70))
    assert first is None
    assert second is not None
    assert books.figures() == (440, 0, 0)


def test_no_entry_is_confirmed_while_the_database_is_away(
    write: Callable[..., list[Any]], counting: Counting, books: Books
) -> None:
    """Every entry of a batch learns that nothing was written; later ones are written again."""
    books.open(balance=10_000)
    counting.away = True
    verdicts = write(admission("run-1"), admission("run-2"))
    assert [type(verdict) for verdict in verdicts] == [DatabaseUnavailableError] * 2
    counting.away = False
    assert write(admission("run-1")) == [None]
    assert books.figures() == (10_000, 100, 1)


@pytest.mark.req("R-39")
def test_waiting_entries_are_bounded(
    write: Callable[..., list[Any]], books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What finds the waiting room full is told at once to come back; those inside are written."""
    monkeypatch.setattr(journals, "WAITING_MAX", 3)
    books.open(balance=10_000)
    *inside, refused = write(*(admission(f"run-{n}") for n in range(4)))
    assert inside == [None] * 3
    assert isinstance(refused, ServiceUnavailable)
    assert refused.retry_after == 1


def test_closing_writes_everything_that_waits(journal: RunJournal, run: Run, books: Books) -> None:
    """Closing waits for everything that was handed in, and is harmless when nothing was."""
    books.open(balance=10_000)

    async def hand_in_and_close() -> list[bool]:
        futures = [journal.write(admission(f"run-{n}")) for n in range(5)]
        await journal.close()
        return [future.done() for future in futures]

    assert run(hand_in_and_close()) == [True] * 5
    run(journal.close())
    assert books.figures()[2] == 5


def test_journal_survives_a_caller_that_gives_up(journal: RunJournal, run: Run, books: Books) -> None:
    """An entry whose waiter was cancelled is written all the same, and so are its neighbours."""
    books.open(balance=10_000)

    async def give_up(waiting: Callable[[], Coroutine[Any, Any, Any]]) -> Verdict:
        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        neighbour = journal.write(admission("run-2"))
        task.cancel()
        return await neighbour

    async def wait_for_first() -> Verdict:
        return await journal.write(admission("run-1"))

    assert run(give_up(wait_for_first)) is None
    assert books.figures() == (10_000, 200, 2)
