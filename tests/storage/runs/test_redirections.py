"""Runs that go on at another provider: the hold moves with them, and the books stay right."""

from typing import Any

import pytest

from fairlead.domain.accounts.callers import Billing
from fairlead.domain.faults import BudgetExceeded, CommittedSpendExceeded, InsufficientCredits
from fairlead.domain.ledger.books import COSTLY
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod
from fairlead.domain.work.entries import Superseded
from fairlead.storage.accounts import workspaces
from fairlead.storage.ledger.budgets import change_key_budget
from storage.bookings import NOW, Books, acceptance, admission, failure, new_key, redirection, resets_at, settlement


def where(books: Books) -> tuple[Any, ...]:
    """Return where the run is: its provider, its card, its hold and its state."""
    row = books.state()
    return (row["provider"], row["rate_version"], row["hold"], row["state"])


@pytest.mark.req("R-14")
def test_dearer_provider_raises_the_hold(books: Books) -> None:
    """The hold grows by the difference, and the run is charged out of the new one."""
    books.open(balance=500)
    books.write(admission())
    assert books.write(redirection(hold=150)) == [None]
    assert (books.figures(), where(books)) == ((500, 150, 1), ("fal", "f1", 150, "dispatched"))
    assert books.entries()[-1] == ("raise", 0, 50)
    assert books.write(settlement(charge=140, rate_version="f1")) == [None]
    assert books.figures() == (360, 0, 0)


@pytest.mark.req("R-14")
def test_cheaper_provider_lowers_the_hold(books: Books) -> None:
    """The hold shrinks, and what it frees can be spent in the very same batch."""
    books.open(balance=100)
    books.write(admission())
    assert books.write(admission("run-2", hold=60), redirection(hold=40)) == [None, None]
    assert books.figures() == (100, 100, 2)
    assert books.write(failure(), failure("run-2")) == [None, None]
    assert books.figures() == (100, 0, 0)


@pytest.mark.req("R-14")
def test_run_does_not_move_without_the_money(books: Books) -> None:
    """A hold that cannot grow is refused like an admission, and the run stays where it is."""
    books.open(balance=120)
    books.write(admission())
    assert books.write(redirection(hold=150)) == [InsufficientCredits(available=20, needed=50)]
    assert (books.figures(), where(books)) == ((120, 100, 1), ("acme", "v1", 100, "dispatched"))
    assert books.write(redirection(hold=120)) == [None]


@pytest.mark.req("R-14")
def test_run_does_not_move_past_the_debt_of_a_postpaid_workspace(books: Books) -> None:
    """What a postpaid workspace may owe bounds its raises as well."""
    books.open(billing=Billing.POSTPAID, cap=150)
    books.write(admission())
    assert books.write(redirection(hold=151)) == [InsufficientCredits(available=50, needed=51)]
    assert books.write(redirection(hold=150)) == [None]


@pytest.mark.req("R-14", "R-23")
def test_run_does_not_move_past_the_cap_on_committed_spend(books: Books) -> None:
    """A raise is committed spend; one that lowers the hold is never refused."""
    books.open(balance=1000, commitment_limit=120)
    books.write(admission())
    assert books.write(redirection(hold=121)) == [CommittedSpendExceeded(limit=120, committed=100)]
    assert books.write(redirection(hold=20)) == [None]
    assert books.figures() == (1000, 20, 1)


@pytest.mark.req("R-14")
def test_raises_of_one_batch_share_the_money(books: Books) -> None:
    """Each raise is decided on what the one before it left."""
    books.open(balance=250)
    books.write(admission("run-1"), admission("run-2"))
    verdicts = books.write(redirection("run-1", hold=140), redirection("run-2", hold=120))
    assert verdicts == [None, InsufficientCredits(available=10, needed=20)]
    assert books.figures() == (250, 240, 2)


@pytest.mark.req("R-14")
def test_run_may_move_more_than_once(books: Books) -> None:
    """A run may go from provider to provider; every turn is an entry of its own."""
    books.open(balance=500)
    books.write(admission())
    holds = [100, 150, 30, 30, 200]
    for turn in range(1, len(holds)):
        entry = redirection(hold=holds[turn], provider=f"p{turn}")
        assert books.write(entry) == [None]
    assert books.entries()[2:] == [("raise", 0, 50), ("raise", 0, -120), ("raise", 0, 0), ("raise", 0, 170)]
    assert where(books) == ("p4", "f1", 200, "dispatched")
    assert books.write(acceptance()) == [None]
    assert books.write(settlement(charge=200)) == [None]
    assert books.figures() == (300, 0, 0)


@pytest.mark.req("R-14")
def test_server_presumed_dead_redirects_nothing(books: Books) -> None:
    """The old attempt moves nothing; the new one does, and comes with the hold as it stands."""
    books.open(balance=500)
    books.write(admission())
    books.write(redirection(hold=150))
    (taken,) = books.take_over()
    assert (taken.provider, taken.rate_version, taken.hold, taken.attempt) == ("fal", "f1", 150, 2)
    assert books.write(redirection(hold=300, provider="wan")) == [Superseded()]
    assert books.figures() == (500, 150, 1)
    assert books.write(redirection(hold=300, attempt=2, provider="wan")) == [None]
    assert books.figures() == (500, 300, 1)


@pytest.mark.req("R-14")
def test_accepted_run_moves_without_its_handle(books: Books) -> None:
    """Work that ended unbilled is forgotten: whoever takes the run over asks nobody about it."""
    books.open(balance=500)
    books.write(admission())
    books.write(acceptance())
    assert books.write(redirection(hold=150)) == [None]
    row = books.state()
    assert (where(books), row["handle"], row["credential"]) == (("fal", "f1", 150, "dispatched"), None, None)
    assert books.write(redirection(hold=150)) == [None]
    assert books.figures() == (500, 150, 1)


@pytest.mark.req("R-14")
def test_ended_run_does_not_move(books: Books) -> None:
    """A run that has ended goes nowhere, and no money moves for it."""
    books.open(balance=500)
    books.write(admission())
    books.write(failure())
    before = books.figures()
    assert books.write(redirection(hold=150)) == [Superseded()]
    assert (books.figures(), where(books)[0]) == (before, "acme")


@pytest.mark.req("R-23")
def test_raise_past_the_bound_takes_a_costly_slot(books: Books) -> None:
    """A raise past the bound takes a costly slot, one below it gives it back."""
    books.open(balance=10 * COSTLY)
    books.write(admission())
    books.write(redirection(hold=COSTLY))
    assert books.costly() == 1
    books.write(redirection(hold=COSTLY + 1, provider="b"))
    assert books.costly() == 1
    books.write(redirection(hold=COSTLY - 1, provider="c"))
    assert books.costly() == 0
    books.write(redirection(hold=COSTLY, provider="d"))
    books.write(failure())
    assert (books.costly(), books.figures()) == (0, (10 * COSTLY, 0, 0))


@pytest.mark.req("R-14")
def test_repeated_redirection_is_booked_once(books: Books) -> None:
    """The very same move, written once and handed in again, is answered as written and booked once."""
    books.open(balance=500)
    books.write(admission())
    assert [books.write(redirection()), books.write(redirection())] == [[None], [None]]
    assert (books.figures(), where(books)) == ((500, 150, 1), ("fal", "f1", 150, "dispatched"))
    assert books.entries()[2:] == [("raise", 0, 50)]


@pytest.mark.req("R-14")
def test_raise_is_held_against_the_budget_of_the_key(books: Books) -> None:
    """A move to a dearer provider is held against the budget of the run's key, like an admission."""
    books.open(balance=500)
    books.do(lambda c: workspaces.create_key(c, new_key()))
    daily = Budget(120, BudgetPeriod.DAY)
    books.do(lambda c: change_key_budget(c, "key-1", lambda _: daily, "budget-1", NOW))
    books.write(admission(key_id="key-1"))
    assert books.write(redirection(hold=130)) == [BudgetExceeded(120, "day", 0, 100, 30, resets_at=resets_at("day"))]
    assert books.write(redirection(hold=120)) == [None]
    assert books.figures() == (500, 120, 1)
