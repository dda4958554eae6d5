"""Postponements in the books: the slot goes back, the hold stays, and an entry of an old attempt changes nothing."""

from functools import partial
from typing import Any

import pytest

from fairlead.domain.ledger.books import COSTLY
from fairlead.domain.runs.entries import (
    CancelNoted,
    JournalEntry,
    LiveRun,
    Postponement,
    QueueTicket,
    RunEntry,
    Withdrawal,
    Withdrawn,
)
from fairlead.domain.work.entries import Claim, Release, Superseded
from fairlead.storage.runs import queue
from storage.bookings import LAB, NOW, SERVER, Books, admission, failure, kept_result, settlement, write_at

pytestmark = pytest.mark.req("T-01")


def queued(id_: str, hold: int = 100, **changes: Any) -> JournalEntry:
    """Return the admission of a queued run of the lab."""
    return admission(id_, hold, ticket=QueueTicket(100, "https://here.example"), **changes)


def claim(id_: str, at: int = NOW + 1) -> Claim:
    """Return a worker's claim to a run."""
    return Claim(id_, LAB, SERVER, at)


def postponement(id_: str, pause_ms: int = 5_000, *, attempt: int = 1, **changes: Any) -> Postponement:
    """Return the entry with which a run waits for its partner."""
    usual: dict[str, Any] = {"provider": "acme", "was_tried": True}
    return Postponement(id_, LAB, attempt, pause_ms=pause_ms, **{**usual, **changes})


def released_at(books: Books, seconds: float, *entries: JournalEntry) -> list[str]:
    """Write a batch some seconds from now; the runs that it releases."""
    written = books.do(partial(write_at, entries=entries, now=NOW + round(seconds * 1000)))
    return [one.id for one in written.released]


def state(books: Books, id_: str = "run-1") -> tuple[str, int, int, int]:
    """Return the state of a run, its attempt, and how often it was postponed and tried."""
    row = books.state(id_)
    return row["state"], row["attempt"], row["postponed"], row["tries"]


def waiting(books: Books) -> tuple[int, int, int]:
    """Return how many runs of the lab wait, how many are parked, and what for those is held."""
    (row,) = books.rows("SELECT waiting, parked, parked_held FROM workspaces WHERE id = :id", id=LAB)
    return row["waiting"], row["parked"], row["parked_held"]


def test_postponed_run_gives_its_slot_back_and_keeps_its_hold(books: Books) -> None:
    """Its slot goes to the next run, its place and its hold stay, and its next claim is a new attempt."""
    books.open(balance=5 * COSTLY, in_flight_limit=1)
    books.write(queued("run-1", COSTLY), queued("run-2"))
    books.write(claim("run-1"))
    tried = RunEntry("postponed", 1, "acme: answered 500", NOW + 2)
    assert books.costly() == 1
    assert released_at(books, 1, postponement("run-1", 3_600_000, events=(tried,))) == ["run-2"]
    assert (state(books), books.state()["claimed_at"]) == (("parked", 1, 1, 1), None)
    assert (books.figures(), books.costly(), waiting(books)) == ((5 * COSTLY, COSTLY + 100, 1), 0, (2, 1, COSTLY))
    assert [row["detail"] for row in books.rows("SELECT detail FROM run_events")] == ["acme: answered 500"]
    books.write(claim("run-2"), settlement("run-2", booked=None))
    assert state(books)[0] == "parked"

    books.sql("UPDATE runs SET not_before = 1 WHERE id = 'run-1'")
    assert released_at(books, 2, Release(LAB)) == ["run-1"]
    (again,) = books.write(claim("run-1", NOW + 9))
    assert isinstance(again, LiveRun)
    assert (again.attempt, again.postponed, again.tries) == (2, 1, 1)


def test_workspace_has_room_only_for_runs_that_are_due(books: Books) -> None:
    """Nobody looks again and again at a workspace all of whose parked runs wait for a time."""
    books.open(balance=500, in_flight_limit=1)
    books.write(queued("run-1"))
    books.write(claim("run-1"))
    released_at(books, 0, postponement("run-1"))
    due = books.state()["not_before"]
    assert books.do(lambda c: queue.QUEUE.room(c, 10, due - 1).workspace_ids) == []
    assert books.do(lambda c: queue.QUEUE.room(c, 10, due).workspace_ids) == [LAB]


def test_untried_run_holds_back_what_waits_for_the_same_partner(books: Books) -> None:
    """Parked runs at a partner that cools down wait as long; those at another, or with a key of one's own, do not."""
    books.open(balance=5_000, in_flight_limit=1)
    books.open("lab-2", balance=500, in_flight_limit=1)
    books.write(queued("run-1"), queued("run-2"), queued("run-3", provider="other"), queued("run-4"))
    books.write(
        queued("far-1", workspace_id="lab-2"), queued("far-2", workspace_id="lab-2"), queued("own-1", byok=True)
    )
    books.write(claim("run-1"))
    assert released_at(books, 1, postponement("run-1", was_tried=False)) == ["run-3"]
    until = books.state()["not_before"]
    assert until > 0
    rows = books.rows("SELECT id, not_before FROM runs WHERE id <> 'run-1' ORDER BY id")
    held = {row["id"]: row["not_before"] for row in rows}
    assert held == {"far-1": 0, "far-2": 0, "own-1": 0, "run-2": until, "run-3": 0, "run-4": until}
    assert state(books) == ("parked", 1, 1, 0)


def test_cancellation_wins_over_a_postponement(books: Books) -> None:
    """A run whose cancellation was requested is not sent back; one that waits can be withdrawn as ever."""
    books.open(balance=500, in_flight_limit=2)
    books.write(queued("run-1"), queued("run-2"))
    books.write(claim("run-1"), claim("run-2"))
    books.write(Withdrawal("run-1", LAB, "cancelled", kept_result(), NOW + 2))
    assert books.write(postponement("run-1"), postponement("run-2")) == [CancelNoted(SERVER), None]
    assert (state(books)[0], state(books, "run-2")[0]) == ("dispatched", "parked")
    assert books.write(Withdrawal("run-2", LAB, "cancelled", kept_result(), NOW + 3)) == [Withdrawn()]
    assert (books.figures(), waiting(books)) == ((500, 100, 1), (0, 0, 0))


def test_postponement_is_written_once(books: Books) -> None:
    """Written again it changes nothing; of an old attempt, and of a run that was accepted or ended, it is too late."""
    books.open(balance=500, in_flight_limit=2)
    books.write(queued("run-1"))
    books.write(claim("run-1"))
    assert books.write(postponement("run-1")) == [None]
    assert books.write(postponement("run-1")) == [None]
    assert (state(books), waiting(books)) == (("parked", 1, 1, 1), (1, 1, 100))
    books.sql("UPDATE runs SET not_before = 1 WHERE id = 'run-1'")
    books.write(Release(LAB))
    books.write(claim("run-1", NOW + 9))
    assert books.write(postponement("run-1")) == [Superseded()]
    assert books.write(failure("run-1", attempt=2, booked=None)) == [None]
    assert books.write(postponement("run-1", attempt=2)) == [Superseded()]
    assert books.figures() == (500, 0, 0)


def test_synchronous_run_is_never_postponed(books: Books) -> None:
    """A run that was not queued has no place to go back to."""
    books.open(balance=500)
    books.write(admission("run-1"))
    assert books.write(postponement("run-1")) == [Superseded()]
