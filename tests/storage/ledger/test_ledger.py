"""Reading the books; and each check of the audit finds the mistake it is there for."""

import pytest

from fairlead.domain.ledger.books import COSTLY
from fairlead.storage.ledger import ledger
from storage.bookings import LAB, Books, acceptance, admission, failure, redirection, settlement

_PLANTED = {
    "workspace figures differ from the sum of its entries": (
        "UPDATE workspaces SET balance = balance + 1",
        "UPDATE workspaces SET held = held + 1",
        "DELETE FROM ledger_entries WHERE kind = 'credit'",
    ),
    "slots taken, or places in the queue, differ from the live runs": (
        "UPDATE workspaces SET in_flight = in_flight + 1",
        "UPDATE runs SET state = 'failed', charge = 0 WHERE id = 'live'",
        "UPDATE workspaces SET costly_in_flight = costly_in_flight + 1",
        "UPDATE workspaces SET costly_in_flight = 0",
        "UPDATE runs SET hold = 100 WHERE id = 'costly'",
        "UPDATE runs SET hold = 500000000 WHERE id = 'live'",
    ),
    "a live run without exactly its hold": (
        "DELETE FROM ledger_entries WHERE run_id = 'live'",
        "UPDATE ledger_entries SET held_change = held_change - 1 WHERE run_id = 'live'",
        "UPDATE runs SET hold = hold + 1 WHERE id = 'live'",
        "UPDATE runs SET state = 'accepted' WHERE id = 'done'",
        "DELETE FROM ledger_entries WHERE kind = 'raise'",
        "UPDATE ledger_entries SET kind = 'hold' WHERE kind = 'raise'",
    ),
    "an ended run whose hold was not settled exactly once": (
        "DELETE FROM ledger_entries WHERE run_id = 'done' AND kind = 'post'",
        "DELETE FROM ledger_entries WHERE run_id = 'failed'",
        "UPDATE runs SET state = 'lost', charge = 0 WHERE id = 'live'",
    ),
    "a charge that differs from its entry, or passes its hold": (
        "UPDATE runs SET charge = charge + 1 WHERE id = 'done'",
        "UPDATE runs SET hold = 59 WHERE id = 'done'",
        "UPDATE ledger_entries SET balance_change = balance_change + 1 WHERE kind = 'post'",
        "UPDATE ledger_entries SET balance_change = 5 WHERE kind = 'void'",
    ),
    "money moved for a run that did not succeed, or a success not posted": (
        "UPDATE runs SET state = 'failed' WHERE id = 'done'",
        "UPDATE runs SET state = 'succeeded' WHERE id = 'failed'",
        "UPDATE ledger_entries SET kind = 'void' WHERE kind = 'post'",
    ),
}
_CASES = [
    pytest.param(check, statement, id=statement) for check, statements in _PLANTED.items() for statement in statements
]


@pytest.fixture
def proven_books() -> None:
    """Take the folder's proof away: books are wrong here on purpose."""


@pytest.fixture
def written(books: Books) -> Books:
    """Return books with a run of every kind in them."""
    books.open(balance=1000 + COSTLY)
    books.open(id_="office", balance=5)
    books.write(admission("costly", hold=COSTLY), admission("live"), admission("taken"))
    books.write(admission("done"), admission("failed"), redirection("live", hold=150))
    books.write(acceptance("taken"), settlement("done", charge=60), failure("failed"))
    return books


def test_right_books_pass_the_audit(written: Books) -> None:
    """Books with a run of every kind have nothing against them."""
    assert written.do(ledger.disagreements) == []


@pytest.mark.req("R-29")
@pytest.mark.parametrize(("check", "statement"), _CASES)
def test_wrong_books_are_found_by_the_audit(written: Books, check: str, statement: str) -> None:
    """Each check of the audit finds what was planted for it, and says what it found."""
    written.sql(statement)
    found = written.do(ledger.disagreements)
    assert check in {row["check"] for row in found}
    assert all(len(row) > 2 for row in found)


def test_billed_refusal_passes_the_audit(written: Books) -> None:
    """A refusal on content grounds may be posted; it is the one failure that may."""
    written.write(admission("refused"))
    written.write(failure("refused", charge=10, is_billed=True, reason="content_policy_violation"))
    assert written.do(ledger.disagreements) == []


def test_audit_lists_at_most_a_hundred_rows(written: Books) -> None:
    """A check lists at most a hundred rows."""
    written.write(*(admission(f"run-{n:03}", hold=1) for n in range(120)))
    written.sql("UPDATE runs SET hold = 2 WHERE hold = 1")
    assert len(written.do(ledger.disagreements)) == 100


def test_newest_entries_are_listed_oldest_first(written: Books) -> None:
    """A limit keeps the newest, told oldest first, with the model of each run."""
    entries = written.do(lambda c: ledger.entries_of(c, LAB, 2))
    assert [(row["run_id"], row["kind"], row["model_id"]) for row in entries] == [
        ("done", "post", "acme/one"),
        ("failed", "void", "acme/one"),
    ]
    (first, *_) = written.do(lambda c: ledger.entries_of(c, LAB, 100))
    assert (first["kind"], first["reason"], first["model_id"]) == ("credit", "paid in", None)


def test_workspace_sees_its_own_entries(written: Books) -> None:
    """A workspace sees its own entries."""
    assert [row["balance_change"] for row in written.do(lambda c: ledger.entries_of(c, "office", 100))] == [5]


def test_totals_count_every_state(written: Books) -> None:
    """Totals count every state, also those without a run."""
    assert written.do(ledger.totals) == {
        "workspaces": 2,
        "entries": 10,
        "archives": 0,
        "archived_entries": 0,
        "runs_parked": 0,
        "runs_released": 0,
        "runs_dispatched": 2,
        "runs_accepted": 1,
        "runs_succeeded": 1,
        "runs_failed": 1,
        "runs_lost": 0,
    }
