"""Holds that grow while a run is under way, because its partner tells that more is due."""

from typing import Any

import pytest

from fairlead.domain.faults import BudgetExceeded, CommittedSpendExceeded, Fault, InsufficientCredits
from fairlead.domain.ledger.books import COSTLY
from fairlead.domain.ledger.budgets import BudgetScope
from fairlead.domain.runs.entries import TopUp
from fairlead.domain.work.entries import Superseded
from storage.bookings import LAB, NOW, Books, acceptance, admission, redirection, settlement
from storage.ledger.test_budget_scopes import give


def top_up(hold: int = 150, attempt: int = 1) -> TopUp:
    """Return a hold of the lab's run that grows."""
    return TopUp("run-1", LAB, attempt, hold, NOW + 2)


@pytest.mark.req("X-02")
def test_hold_grows_and_the_charge_may_be_as_much(books: Books) -> None:
    """The raise is an entry of its own, and the run ends with all of it."""
    books.open(balance=500)
    books.write(admission())
    books.write(acceptance())
    assert books.write(top_up(150)) == [None]
    assert (books.state()["hold"], books.state()["state"], books.figures()) == (150, "accepted", (500, 150, 1))
    assert books.write(top_up(180)) == [None]
    assert books.write(settlement(charge=180)) == [None]
    assert books.entries()[1:] == [("hold", 0, 100), ("raise", 0, 50), ("raise", 0, 30), ("post", -180, -180)]
    assert books.figures() == (320, 0, 0)


def test_hold_that_is_as_high_stays_as_it_is(books: Books) -> None:
    """The same entry again, as after a commit whose answer was lost, books nothing; neither does a lower one."""
    books.open(balance=500)
    books.write(admission())
    assert [books.write(top_up(hold)) for hold in (150, 150, 120)] == [[None]] * 3
    assert books.entries()[2:] == [("raise", 0, 50)]
    assert books.write(settlement(charge=60)) == [None]  # whose server does not know of the raise
    assert books.figures() == (440, 0, 0)


def test_raise_before_and_after_a_redirection_has_an_entry_of_its_own(books: Books) -> None:
    """However often a hold changes; the move to another provider starts from the hold there is."""
    books.open(balance=500)
    books.write(admission())
    assert [books.write(one) for one in (top_up(150), redirection(hold=40), top_up(60))] == [[None]] * 3
    assert books.entries()[2:] == [("raise", 0, 50), ("raise", 0, -110), ("raise", 0, 20)]
    assert (books.figures(), books.state()["provider"]) == ((500, 60, 1), "fal")


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"balance": 120}, InsufficientCredits(available=20, needed=50)),
        ({"balance": 500, "commitment_limit": 120}, CommittedSpendExceeded(120, 100)),
    ],
    ids=["balance", "committed spend"],
)
def test_raise_that_cannot_be_paid_leaves_the_run_as_it_is(
    books: Books, changes: dict[str, Any], refusal: Fault
) -> None:
    """The run goes on with the hold it has."""
    books.open(**changes)
    books.write(admission())
    assert books.write(top_up(150)) == [refusal]
    assert (books.state()["hold"], books.figures()[1:]) == (100, (100, 1))
    assert books.write(settlement(charge=100)) == [None]


def test_raise_beyond_a_budget_is_refused(books: Books) -> None:
    """What a budget leaves for the run counts like the balance."""
    books.open(balance=500)
    give(books, BudgetScope.WORKSPACE, 120)
    books.write(admission())
    (refusal,) = books.write(top_up(150))
    assert isinstance(refusal, BudgetExceeded)
    assert books.write(top_up(120)) == [None]


def test_server_presumed_dead_raises_nothing(books: Books) -> None:
    """Of two servers only the one that has the run raises its hold, and it begins with the hold in the ledger."""
    books.open(balance=500)
    books.write(admission(), acceptance())
    books.write(top_up(150))
    (taken,) = books.take_over()
    assert (taken.hold, taken.attempt) == (150, 2)
    assert books.write(top_up(200)) == [Superseded()]
    assert books.write(top_up(150, attempt=2), top_up(170, attempt=2)) == [None, None]
    assert (books.state()["hold"], books.figures()) == (170, (500, 170, 1))


def test_ended_run_is_not_raised(books: Books) -> None:
    """A raise that comes after the end moves no money."""
    books.open(balance=500)
    books.write(admission())
    books.write(settlement(charge=60))
    assert books.write(top_up(150)) == [Superseded()]
    assert books.figures() == (440, 0, 0)


@pytest.mark.req("R-23")
def test_raise_past_the_bound_makes_a_costly_run(books: Books) -> None:
    """It counts among the costly ones from then on."""
    books.open(balance=10 * COSTLY)
    books.write(admission())
    books.write(top_up(COSTLY))
    assert books.costly() == 1
