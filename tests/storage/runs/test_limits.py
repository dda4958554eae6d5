"""What bounds a workspace beside its money: the cap on committed spend, and the slots of costly runs."""

import pytest

from fairlead.domain.faults import CommittedSpendExceeded, ConcurrencyLimitExceeded, InsufficientCredits
from fairlead.domain.ledger.books import COSTLY, UNLIMITED
from fairlead.domain.runs.entries import Committed
from storage.bookings import Books, admission, failure, settlement

pytestmark = pytest.mark.req("R-23")


def test_run_under_a_cap_is_told_what_is_committed(books: Books) -> None:
    """An admitted run is told the cap and what is committed with it; the one after the last bit, without it."""
    books.open(balance=1000, commitment_limit=250)
    verdicts = books.write(admission("run-1"), admission("run-2"), admission("run-3"), admission("run-4", hold=50))
    assert verdicts == [
        Committed(250, 100),
        Committed(250, 200),
        CommittedSpendExceeded(limit=250, committed=200),
        Committed(250, 250),
    ]
    assert books.write(admission("run-5", hold=1)) == [CommittedSpendExceeded(limit=250, committed=250)]
    assert books.figures() == (1000, 250, 3)


def test_ended_run_is_no_longer_committed(books: Books) -> None:
    """An end makes room, also in its own batch, and what was charged is not committed."""
    books.open(balance=1000, commitment_limit=100)
    books.write(admission("run-1"))
    verdicts = books.write(admission("run-2"), settlement("run-1", charge=90))
    assert verdicts == [Committed(100, 100), None]
    assert books.figures() == (910, 100, 1)


def test_money_decides_under_the_cap(books: Books) -> None:
    """Under the cap the money still decides."""
    books.open(balance=120, commitment_limit=500)
    assert books.write(admission("run-1"), admission("run-2")) == [
        Committed(500, 100),
        InsufficientCredits(available=20, needed=100),
    ]


def test_costly_runs_take_a_quarter_of_the_slots(books: Books) -> None:
    """Costly runs share a quarter of the slots, within one batch too; others are admitted past them."""
    books.open(balance=100 * COSTLY, in_flight_limit=8)
    costly = [admission(f"run-{n}", hold=COSTLY) for n in range(3)]
    refused = ConcurrencyLimitExceeded(limit=2, current=2, costly=True)
    assert books.write(*costly, admission("run-3", hold=COSTLY - 1)) == [None, None, refused, None]
    assert (books.costly(), books.figures()[2]) == (2, 3)
    assert books.write(admission("run-4", hold=COSTLY + 1)) == [refused]


def test_costly_run_that_ended_frees_its_slot(books: Books) -> None:
    """The end of a costly run makes room for another, in the same batch and after."""
    books.open(balance=100 * COSTLY, in_flight_limit=4)
    books.write(admission("run-1", hold=COSTLY))
    ended = failure("run-1")
    assert books.write(admission("run-2", hold=COSTLY), ended) == [None, None]
    assert books.costly() == 1
    books.write(settlement("run-2", charge=COSTLY))
    assert (books.costly(), books.figures()) == (0, (99 * COSTLY, 0, 0))


def test_workspace_without_a_slot_limit_has_no_bound_on_costly_runs(books: Books) -> None:
    """Without a limit of slots there is no quarter of them, but costly runs are counted."""
    books.open(balance=100 * COSTLY, in_flight_limit=UNLIMITED)
    assert books.write(*(admission(f"run-{n}", hold=COSTLY) for n in range(20))) == [None] * 20
    assert books.costly() == 20
