"""Budgets of keys: what their runs may cost in a period, decided where the run is written."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from conftest import Run
from fairlead.domain.days import DAY_MS
from fairlead.domain.faults import BudgetExceeded, InsufficientCredits, Unauthorized
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod
from fairlead.domain.runs.entries import BookedRun, Verdict
from fairlead.storage.accounts import workspace_records, workspaces
from fairlead.storage.accounts.workspaces import UnknownKeyError
from fairlead.storage.db.database import Database
from fairlead.storage.ledger import ledger
from fairlead.storage.ledger.budgets import change_key_budget, with_budgets
from fairlead.storage.ledger.run_books import BudgetBook, Spending
from fairlead.storage.runs.batch import Written
from storage.bookings import NOW, Books, admission, failure, new_key, redirection, resets_at, settlement, write_at

DAILY = Budget(100, BudgetPeriod.DAY)
MONTHLY = Budget(100, BudgetPeriod.MONTH)
TOTAL = Budget(100, BudgetPeriod.TOTAL)
TOMORROW = NOW + DAY_MS
NEXT_MONTH = NOW + 31 * DAY_MS
_WRONG = "what is held for a key differs from its live runs"


def give_key(books: Books, budget: Budget | None = MONTHLY, id_: str = "key-1", **changes: Any) -> None:
    """Give the lab a key with a budget."""
    books.do(lambda c: workspaces.create_key(c, new_key(id_, **changes)))
    if budget is not None:
        change(books, id_, lambda _: budget)


def change(books: Books, id_: str, work: Callable[[Budget | None], Budget | None]) -> Any:
    """Change the budget of a key."""
    return books.do(lambda c: change_key_budget(c, id_, work, f"budget of {id_}", NOW))


def hold_of_key(books: Books, id_: str = "key-1") -> int:
    """Return what is held for the runs of a key."""
    (row,) = books.rows("SELECT held FROM api_keys WHERE id = :id", id=id_)
    return int(row["held"])


def ask(books: Books, run_id: str, hold: int, at: int = NOW, **changes: Any) -> Verdict:
    """Ask for a run with the key, alone in its batch."""
    verdicts: Sequence[Verdict] = books.write(
        admission(run_id, hold, **{"key_id": "key-1", "created_at": at, **changes})
    )
    return verdicts[0]


def refusal(spent: int, held: int, needed: int, period: str = "month", at: int = NOW) -> BudgetExceeded:
    """Return the refusal of a key with a budget of 100, at a time."""
    return BudgetExceeded(100, period, spent, held, needed, resets_at=resets_at(period, at))


@pytest.fixture
def paid(books: Books) -> Books:
    """Return the books of a workspace that can pay anything."""
    books.open(balance=1_000_000)
    return books


def test_run_past_the_budget_of_its_key_is_refused(paid: Books) -> None:
    """What is held counts, to the last unit; what was refused left nothing behind."""
    give_key(paid)
    assert ask(paid, "a", 60) is None
    assert ask(paid, "b", 41) == refusal(0, 60, 41)
    assert ask(paid, "c", 40) is None
    assert hold_of_key(paid) == 100
    assert paid.figures()[1:] == (100, 2)


def test_runs_of_one_batch_share_a_budget(paid: Books) -> None:
    """The second of a batch is decided on what the first holds."""
    give_key(paid)
    first, second = paid.write(admission("a", 60, key_id="key-1"), admission("b", 60, key_id="key-1"))
    assert (first, second) == (None, refusal(0, 60, 60))


def test_ended_run_frees_the_budget_it_did_not_spend(paid: Books) -> None:
    """What a run did not cost is free again, what it did cost is spent."""
    give_key(paid)
    ask(paid, "a", 100)
    paid.write(settlement("a", charge=30))
    assert hold_of_key(paid) == 0
    assert ask(paid, "b", 71) == refusal(30, 0, 71)
    assert ask(paid, "c", 70) is None


def test_failure_leaves_the_budget_whole(paid: Books) -> None:
    """A run that costs nothing leaves the budget whole."""
    give_key(paid)
    ask(paid, "a", 100)
    paid.write(failure("a"))
    assert ask(paid, "b", 100) is None


def test_ends_count_before_admissions_of_one_batch(paid: Books) -> None:
    """Ends come first: what they free may be held again, what they cost may not."""
    give_key(paid)
    ask(paid, "a", 100)
    assert list(paid.write(admission("b", 71, key_id="key-1"), settlement("a", charge=30))) == [
        refusal(30, 0, 71),
        None,
    ]
    ask(paid, "c", 70)
    assert list(paid.write(admission("d", 70, key_id="key-1"), failure("c"))) == [None, None]
    assert hold_of_key(paid) == 70


@pytest.mark.parametrize(
    ("budget", "at", "is_whole"),
    [
        (DAILY, NOW + 1, False),
        (DAILY, TOMORROW, True),
        (MONTHLY, TOMORROW, False),
        (MONTHLY, NEXT_MONTH, True),
        (TOTAL, NEXT_MONTH, False),
    ],
    ids=["same day", "next day", "same month", "next month", "in all"],
)
def test_budget_is_whole_again_in_a_new_period(paid: Books, budget: Budget, at: int, *, is_whole: bool) -> None:
    """A new day or month of the calendar makes a budget whole, and nothing makes one for all time whole."""
    give_key(paid, budget)
    ask(paid, "a", 100)
    paid.write(settlement("a", charge=100))
    assert ask(paid, "b", 1, at) == (None if is_whole else refusal(100, 0, 1, budget.period.value, at))


def test_hold_counts_in_the_next_period(paid: Books) -> None:
    """A run that goes on over midnight will be charged on the new day: its hold counts there."""
    give_key(paid, DAILY)
    ask(paid, "a", 60)
    assert ask(paid, "b", 41, TOMORROW) == refusal(0, 60, 41, "day", TOMORROW)
    paid.write(settlement("a", charge=60, finished_at=TOMORROW))
    assert ask(paid, "c", 41, TOMORROW) == refusal(60, 0, 41, "day", TOMORROW)
    assert ask(paid, "d", 40, TOMORROW) is None


@pytest.mark.req("T-07")
@pytest.mark.parametrize("budget", [DAILY, MONTHLY])
def test_period_that_a_wrong_clock_began_is_given_up(paid: Books, budget: Budget) -> None:
    """A clock that was ahead began a period that lies in the future: what was spent counts again, and is shown."""
    give_key(paid, budget)
    paid.write(admission("a", 60, key_id="key-1"), now=NEXT_MONTH)
    paid.write(settlement("a", charge=60, booked=BookedRun(60, "key-1", "acme/one")), now=NEXT_MONTH)
    shown = paid.do(lambda c: with_budgets(c, workspace_records.list_keys(c), NOW))
    assert [row["spent"] for row in shown] == [60]
    assert ask(paid, "b", 41) == refusal(60, 0, 41, budget.period.value)
    assert ask(paid, "c", 40) is None
    paid.write(settlement("c", charge=40, booked=BookedRun(40, "key-1", "acme/one")))
    assert ask(paid, "d", 1) == refusal(100, 0, 1, budget.period.value)


@pytest.mark.req("T-07")
def test_end_just_after_midnight_counts_on_the_new_day(paid: Books) -> None:
    """Clocks differ by a little: a run that ended in the next period is counted in both, in each of them once."""
    midnight = TOMORROW - TOMORROW % DAY_MS
    give_key(paid, DAILY)
    ask(paid, "a", 60)
    ended = settlement("a", charge=60, finished_at=midnight + 1, booked=BookedRun(60, "key-1", "acme/one"))
    paid.write(ended, now=midnight - 1)
    assert ask(paid, "b", 41, midnight - 1) == refusal(60, 0, 41, "day")
    assert ask(paid, "c", 41, midnight + 1) == refusal(60, 0, 41, "day", midnight + 1)


def test_budget_of_one_key_does_not_refuse_another(paid: Books) -> None:
    """A budget is its key's alone; other keys, keys without one and tokens go on, and the holds of all are kept."""
    give_key(paid)
    give_key(paid, MONTHLY, "key-2")
    give_key(paid, None, "key-3")
    ask(paid, "a", 100)
    assert ask(paid, "b", 1) is not None
    assert ask(paid, "c", 100, key_id="key-2") is None
    assert ask(paid, "d", 5000, key_id="key-3") is None
    assert ask(paid, "e", 5000, key_id=None) is None
    assert [hold_of_key(paid, f"key-{n}") for n in (1, 2, 3)] == [100, 100, 5000]
    paid.write(settlement("d", 60), settlement("e", 60))
    assert [hold_of_key(paid, f"key-{n}") for n in (1, 2, 3)] == [100, 100, 0]


def test_workspace_without_money_is_refused_before_the_budget(books: Books) -> None:
    """A workspace that cannot pay says so first; a budget promises no money."""
    books.open(balance=50)
    give_key(books, Budget(10, BudgetPeriod.DAY))
    assert ask(books, "a", 60) == InsufficientCredits(available=50, needed=60)
    assert ask(books, "b", 50) == BudgetExceeded(10, "day", 0, 0, 50, resets_at=resets_at("day"))


def test_revoked_key_is_told_nothing_of_its_budget(paid: Books) -> None:
    """A revoked key is told nothing but that, and its runs under way end as usual."""
    give_key(paid)
    ask(paid, "a", 60)
    paid.do(lambda c: workspaces.revoke_key(c, "key-1", NOW))
    assert ask(paid, "b", 999) == Unauthorized("This API key is not valid.")
    paid.write(settlement("a", charge=10))
    assert hold_of_key(paid) == 0


def test_raise_is_held_against_the_budget(paid: Books) -> None:
    """A hold that grows or shrinks on its way is the key's too, and all of it is free in the end."""
    give_key(paid, None)
    ask(paid, "a", 100)
    paid.write(redirection("a", hold=150))
    assert hold_of_key(paid) == 150
    paid.write(settlement("a", charge=120))
    assert hold_of_key(paid) == 0


def test_concurrent_batches_share_a_budget(paid: Books, database: Database, run: Run) -> None:
    """Several servers may ask at once: only as many runs are admitted as the budget covers."""
    give_key(paid)
    admissions = [admission(f"run-{n}", 30, key_id="key-1") for n in range(8)]

    async def ask_at_once() -> list[Written]:
        return await asyncio.gather(*(database.write(partial(write_at, entries=[one], now=NOW)) for one in admissions))

    verdicts = [written.verdicts[0] for written in run(ask_at_once())]
    assert sorted(map(repr, verdicts)) == sorted(map(repr, [None] * 3 + [refusal(0, 90, 30)] * 5))
    assert hold_of_key(paid) == 90


def test_changed_budget_takes_effect(paid: Books) -> None:
    """A budget is given, changed and taken away; a run is decided on what it is then."""
    give_key(paid, None)
    assert change(paid, "key-1", lambda before: MONTHLY if before is None else None) == MONTHLY
    assert ask(paid, "a", 101) == refusal(0, 0, 101)
    assert change(paid, "key-1", lambda before: TOTAL if before == MONTHLY else None) == TOTAL
    assert ask(paid, "b", 101) == refusal(0, 0, 101, "total")
    assert change(paid, "key-1", lambda _: None) is None
    assert ask(paid, "c", 101) is None


@pytest.mark.parametrize("id_", ["key-1", "key-9"])
def test_budget_of_an_unknown_key_cannot_be_changed(paid: Books, id_: str) -> None:
    """A key that is unknown or revoked has no budget to change."""
    give_key(paid)
    paid.do(lambda c: workspaces.revoke_key(c, "key-1", NOW))
    with pytest.raises(UnknownKeyError, match=id_):
        change(paid, id_, lambda _: DAILY)


def test_listed_key_shows_what_it_spent(paid: Books) -> None:
    """A key with a budget is listed with what it was charged in its period; one without is not asked about."""
    give_key(paid, DAILY)
    give_key(paid, MONTHLY, "key-2", created_at=NOW + 1)
    give_key(paid, None, "key-3", created_at=NOW + 2)
    for name in ("key-1", "key-2", "key-3"):
        ask(paid, name, 90, key_id=name)
        paid.write(settlement(name, charge=60))
    ask(paid, "live", 5, key_id="key-2")
    (one, two, three) = paid.do(lambda c: with_budgets(c, workspace_records.list_keys(c), NOW))
    assert [(row["budget"], row["budget_period"], row["spent"], row["held"]) for row in (one, two, three)] == [
        (100, "day", 60, 0),
        (100, "month", 60, 5),
        (None, None, None, 0),
    ]
    (one, two, _) = paid.do(lambda c: with_budgets(c, workspace_records.list_keys(c), TOMORROW))
    assert (one["spent"], two["spent"]) == (0, 60)


def test_budget_applies_only_to_runs_that_were_looked_up(paid: Books) -> None:
    """Where nothing was looked up, because a workspace has no budget, nothing is refused."""
    give_key(paid)

    def decide(connection: Any) -> tuple[object, ...]:
        book = BudgetBook(connection, set(), set(), NOW)
        one = Spending("lab-id", "key-1", "acme/one")
        book.end(one, 0, 10, NOW)
        return book.refuse(one, 10**9, NOW), "key-1" in book.revoked, None in book.revoked

    assert paid.do(decide) == (None, False, False)


class TestAudit:
    """Books that are wrong on purpose."""

    @pytest.fixture
    def proven_books(self) -> None:
        """Take the folder's proof away."""

    @pytest.mark.req("R-29")
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE api_keys SET held = held + 1 WHERE id = 'key-1'",
            "UPDATE api_keys SET held = 1 WHERE id = 'key-2'",
            "UPDATE api_keys SET held = 0",
            "UPDATE runs SET hold = hold + 1 WHERE id = 'live'",
            "UPDATE runs SET key_id = 'key-2' WHERE id = 'live'",
            "UPDATE runs SET key_id = NULL WHERE id = 'live'",
            "UPDATE runs SET state = 'accepted' WHERE id = 'done'",
        ],
    )
    def test_wrong_hold_of_a_key_is_found_by_the_audit(self, paid: Books, statement: str) -> None:
        """What is held for a key is proven by its live runs."""
        give_key(paid)
        give_key(paid, None, "key-2")
        ask(paid, "done", 30)
        paid.write(settlement("done", charge=30))
        ask(paid, "live", 20)
        assert paid.do(ledger.disagreements) == []
        paid.sql(statement)
        found = [row for row in paid.do(ledger.disagreements) if row["check"] == _WRONG]
        assert found
        assert all(row["held"] != row["sum_held"] and row["hint"] for row in found)
