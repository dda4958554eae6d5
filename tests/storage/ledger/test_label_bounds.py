"""The bounds of labels whose usage is counted apart: callers choose them, and cannot fill the table (M-07)."""

from collections import Counter
from functools import partial

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Run
from fairlead.clock import new_id
from fairlead.domain.days import DAY_MS, day_of
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod, BudgetScope
from fairlead.domain.ledger.corrections import RefundOrder
from fairlead.domain.ledger.usage import UsageQuery
from fairlead.domain.runs.entries import BookedRun
from fairlead.storage.db.database import Database
from fairlead.storage.ledger import label_books, ledger
from fairlead.storage.ledger.budgets import BudgetChanges, NewBudget, change_budget, create_budget, find_budget
from fairlead.storage.ledger.corrections import refund_run
from fairlead.storage.ledger.label_usage import usage_of_labels
from storage.bookings import LAB, NOW, Books, admission, failure, settlement
from storage.labelled_runs import TODAY, TOMORROW, figures, label, ran

pytestmark = pytest.mark.req("M-07")


def used(books: Books, name: str) -> list[tuple[str | None, int, int]]:
    """Return the values of a label with runs and charge, None for runs without it."""
    query = UsageQuery(day_of(NOW), day_of(NOW), (), label_name=name)
    told = books.do(partial(usage_of_labels, workspace_ids=None, query=query, limit=9, by_workspace=False))
    return [(row.label and (row.label.value or "(others)"), row.runs, row.charge) for _, row in told]


def give(books: Books, subject: str, workspace_id: str = LAB, period: str = "month", at: int = NOW) -> str:
    """Give a workspace a budget of a label, and return its id."""
    new = NewBudget(
        id=new_id(), workspace_id=workspace_id, scope=BudgetScope.LABEL, subject=subject,
        budget=Budget(10**9, BudgetPeriod(period)), created_at=at,
    )  # fmt: skip
    books.do(lambda c: create_budget(c, new, at))
    return new.id


def spent(books: Books, budget_id: str, at: int = NOW) -> int:
    """Return what is spent of a budget on a day."""
    return int(books.do(lambda c: find_budget(c, LAB, budget_id, at)).spent)


def test_label_with_a_budget_is_counted_beyond_the_bounds(paid: Books) -> None:
    """From the beginning of the period on, although nothing of it was counted apart before the budget was made."""
    for number in range(4):
        ran(paid, f"value-{number}", {"client": f"c{number}"})
    ran(paid, "name-1", {"project": "p"})
    ran(paid, "name-2", {"user": "u", "client": "c3"}, 5)
    client, user = give(paid, "client=c3"), give(paid, "user=u")
    assert (spent(paid, client), spent(paid, user)) == (15, 5)
    assert paid.do(ledger.disagreements) == []
    ran(paid, "more", {"client": "c3", "user": "u"}, 7)
    ran(paid, "other", {"client": "c4", "user": "v"}, 9)
    assert (spent(paid, client), spent(paid, user)) == (22, 12)
    kept = figures(paid)
    assert (kept[TODAY, "client", "=c3"], kept[TODAY, "user", "=u"]) == ((3, 3, 22), (2, 2, 12))
    assert not {(TODAY, "client", "=c4"), (TODAY, "user", "=v"), (TODAY, "user", "")} & kept.keys()
    told = used(paid, "user")
    assert told == [(None, 8, 71)], "a name that is not counted is not told, though one value of it is"
    paid.do(lambda c: refund_run(c, "more", RefundOrder("black"), NOW, is_dry=False))
    assert (spent(paid, client), spent(paid, user)) == (15, 5)
    assert paid.do(ledger.disagreements) == []


def test_budget_of_a_longer_period_counts_its_days(paid: Books) -> None:
    """A budget whose period is changed has what the label cost on the days before, counted apart or not."""
    for number in range(3):
        paid.write(admission(f"early-{number}", labels=label({"client": f"c{number}"})))
        paid.write(settlement(f"early-{number}", 10, finished_at=NOW - DAY_MS, booked=None))
    budget = give(paid, "client=c2", period="day")
    assert spent(paid, budget) == 0
    changes = BudgetChanges(period=BudgetPeriod.MONTH)
    paid.do(lambda c: change_budget(c, LAB, budget, changes, NOW))
    assert spent(paid, budget) == 10
    assert paid.do(ledger.disagreements) == []


_LABELS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["x", "y", "z", ""]), max_size=3)
_ENDED = st.tuples(_LABELS, st.integers(0, 1), st.sampled_from([0, 7, 100]), st.sampled_from([0, 30, 100]))
"""Labels, the day of the end, the charge, and how many percent of it are refunded."""


def end_and_refund(books: Books, lab: str, batch: list[tuple[dict[str, str], int, int, int]]) -> None:
    """Have some runs begin, end together, and be refunded."""
    each = [(new_id(), label(one[0]) if one[0] else None, *one[1:]) for one in batch]
    books.write(*(admission(id_, labels=labels, workspace_id=lab) for id_, labels, *_ in each))
    ends = []
    for id_, labels, day, charge, percent in each:
        booked = BookedRun(100, None, "acme/one", labels=labels) if percent else None
        end = {"workspace_id": lab, "finished_at": NOW + day * DAY_MS, "booked": booked}
        ends.append(settlement(id_, charge, **end) if charge else failure(id_, **end))
    books.write(*ends)
    for id_, _, _, charge, percent in each:
        if amount := charge * percent // 100:
            order = RefundOrder("black", amount)
            books.do(partial(refund_run, run_id=id_, order=order, now=NOW + 3 * DAY_MS, is_dry=False))


def counted_again(books: Books, lab: str) -> dict[tuple[str, str, str], tuple[int, int, int]]:
    """Return what every name and every value of a day comes to, by the runs themselves."""
    sums: dict[tuple[str, str, str], tuple[int, int, int]] = {}
    for run in books.rows("SELECT * FROM runs WHERE workspace_id = :id AND labels IS NOT NULL", id=lab):
        day = day_of(run["finished_at"]).isoformat()
        for name, value in msgspec.json.decode(run["labels"]).items():
            for key in ((day, name, ""), (day, name, f"={value}")):
                count, succeeded, charge = sums.get(key, (0, 0, 0))
                sums[key] = count + 1, succeeded + (run["state"] == "succeeded"), charge + run["charge"]
    return sums


@pytest.fixture
def paid(books: Books) -> Books:
    """Return the books of a workspace that can pay anything."""
    books.open(balance=10**9)
    return books


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the bounds, in the proof too, which is made once otherwise."""
    monkeypatch.setattr(label_books, "LABEL_NAMES_MAX", 2)
    monkeypatch.setattr(label_books, "LABEL_VALUES_MAX", 2)
    monkeypatch.setattr(ledger, "_CHECKS", {})


@pytest.fixture
def proven_books() -> None:
    """Take the folder's proof away, which has the usual bounds."""


def test_values_beyond_the_bound_count_only_for_their_name(paid: Books) -> None:
    """Values that came before the bound are counted on; the next day begins again."""
    for number in range(4):
        ran(paid, f"run-{number}", {"client": f"c{number}"})
    ran(paid, "again", {"client": "c0"})
    assert figures(paid) == {
        (TODAY, "client", ""): (5, 5, 50),
        (TODAY, "client", "=c0"): (2, 2, 20),
        (TODAY, "client", "=c1"): (1, 1, 10),
    }
    assert used(paid, "client") == [("c0", 2, 20), ("c1", 1, 10), ("(others)", 2, 20)]
    labels = label({"client": "c3"})
    paid.write(admission("later", labels=labels))
    paid.write(settlement("later", 7, finished_at=NOW + DAY_MS, booked=None))
    assert figures(paid)[TOMORROW, "client", "=c3"] == (1, 1, 7)
    assert paid.do(ledger.disagreements) == []


def test_names_beyond_the_bound_are_not_counted(paid: Books) -> None:
    """Callers cannot fill the table with names; nor does a name that is not counted have values."""
    for number in range(4):
        ran(paid, f"run-{number}", {f"name-{number}": "x"})
    assert {name for _, name, _ in figures(paid)} == {"name-0", "name-1"}
    paid.do(lambda c: refund_run(c, "run-3", RefundOrder("black"), NOW, is_dry=False))
    assert {name for _, name, _ in figures(paid)} == {"name-0", "name-1"}
    assert paid.do(ledger.disagreements) == []


def test_bounds_hold_within_a_batch(paid: Books) -> None:
    """Runs that end together make no more rows than runs that end one after another."""
    each = {f"run-{number}": label({f"name-{number % 3}": f"v{number}"}) for number in range(12)}
    paid.write(*(admission(id_, labels=labels) for id_, labels in each.items()))
    paid.write(*(settlement(id_, 10, booked=None) for id_ in each))
    rows = Counter(name for _, name, _ in figures(paid))
    assert rows == {"name-0": 3, "name-1": 3}
    assert paid.do(ledger.disagreements) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(st.lists(st.lists(_ENDED, min_size=1, max_size=4), max_size=5))
def test_usage_of_labels_is_that_of_the_runs(
    database: Database, run: Run, batches: list[list[tuple[dict[str, str], int, int, int]]]
) -> None:
    """After any ends and refunds each row has all runs of its day, and only a bound leaves a row out."""
    books, lab = Books(database, run), new_id()
    books.open(lab, balance=10**9)
    for number, batch in enumerate(batches):
        if number == 1:
            give(books, "a=z", lab)
        end_and_refund(books, lab, batch)
    expected = counted_again(books, lab)
    kept = figures(books, lab)
    assert kept.items() <= expected.items()
    rows = Counter((day, name if value else "") for day, name, value in kept)
    assert max(rows.values(), default=0) <= 3, "one value has a budget"
    for day, name, value in expected.keys() - kept.keys():
        assert rows[day, name if value else ""] >= 2 or (value and (day, name, "") not in kept)
    assert books.do(ledger.disagreements) == []
