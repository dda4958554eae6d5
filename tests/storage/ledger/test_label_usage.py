"""What runs have cost by day and label: added up as they end, lowered by refunds, read back, and proven (M-07)."""

from functools import partial
from typing import Any, Final

import pytest

from fairlead.domain.days import DAY_MS, day_of
from fairlead.domain.ledger.corrections import RefundOrder
from fairlead.domain.ledger.usage import Grouping, Usage, UsageQuery, UsedLabel
from fairlead.domain.runs.entries import BookedRun
from fairlead.storage.ledger import ledger
from fairlead.storage.ledger.corrections import refund_run
from fairlead.storage.ledger.label_usage import usage_of_labels
from storage.bookings import NOW, Books, admission, failure, settlement, write_at
from storage.labelled_runs import TODAY, TOMORROW, figures, label, ran
from storage.plans import trace

pytestmark = pytest.mark.req("M-07")

_WRONG: Final = "usage of a label differs from the runs that ended with it"


@pytest.fixture
def paid(books: Books) -> Books:
    """Return the books of a workspace that can pay anything."""
    books.open(balance=10**9)
    return books


def test_runs_are_added_up_by_their_labels(paid: Books) -> None:
    """Each value has its runs, each name those of all its values; a run without labels is in none."""
    ran(paid, "a", {"client": "acme", "project": "spring"}, 10)
    ran(paid, "b", {"client": "acme"}, 20)
    ran(paid, "c", {"client": "Ünï=corp"}, 30)
    ran(paid, "d", {}, 40)
    labels = label({"client": "acme"})
    paid.write(admission("e", labels=labels), admission("f", labels=labels))
    paid.write(failure("e", booked=None), settlement("f", 5, booked=None))
    assert figures(paid) == {
        (TODAY, "client", ""): (5, 4, 65),
        (TODAY, "client", "=acme"): (4, 3, 35),
        (TODAY, "client", "=Ünï=corp"): (1, 1, 30),
        (TODAY, "project", ""): (1, 1, 10),
        (TODAY, "project", "=spring"): (1, 1, 10),
    }


def test_refund_lowers_the_labels_of_its_run(paid: Books) -> None:
    """On the day on which the run ended; the run still counts as one."""
    ran(paid, "a", {"client": "acme"}, 60)
    ran(paid, "b", {"client": "acme", "project": "spring"}, 40)
    paid.do(lambda c: refund_run(c, "a", RefundOrder("black", 50), NOW + DAY_MS, is_dry=False))
    assert figures(paid)[TODAY, "client", "=acme"] == (2, 2, 50)
    assert figures(paid)[TODAY, "client", ""] == (2, 2, 50)
    assert figures(paid)[TODAY, "project", "=spring"] == (1, 1, 40)


def test_run_without_labels_costs_no_statement(paid: Books) -> None:
    """Only runs with labels look at their usage."""

    def touches(labels: str | None) -> bool:
        id_ = f"run {labels}"
        paid.write(admission(id_, labels=labels))
        end = settlement(id_, booked=BookedRun(100, None, "acme/one", labels=labels))
        return any("label_days" in sql for sql, _ in trace(paid, partial(write_at, entries=[end], now=NOW)))

    assert not touches(None)
    assert touches(label({"client": "acme"}))


def read_usage(books: Books, *, by_workspace: bool = False, **asked: Any) -> Any:
    """Read the usage of a label of all workspaces on two days."""
    query = UsageQuery(day_of(NOW), day_of(NOW + DAY_MS), **{"by": (), **asked})
    return books.do(partial(usage_of_labels, workspace_ids=None, query=query, limit=100, by_workspace=by_workspace))


@pytest.fixture
def used(paid: Books) -> Books:
    """Return books in which runs of two clients and of none have ended, on two days."""
    ran(paid, "a", {"client": "acme"}, 10)
    ran(paid, "b", {"client": "Ünï=corp"}, 20)
    ran(paid, "c", {"project": "spring"}, 30)
    ran(paid, "d", {}, 40)
    paid.write(admission("e", labels=label({"client": "acme"})))
    paid.write(failure("e", finished_at=NOW + DAY_MS, booked=None))
    return paid


def test_usage_by_a_label_is_all_usage(used: Books) -> None:
    """Values come in their order, and runs without the label last."""
    acme, corp = UsedLabel("client", "acme"), UsedLabel("client", "Ünï=corp")
    assert read_usage(used, label_name="client") == [
        (None, Usage(2, 1, 10, label=acme)),
        (None, Usage(1, 1, 20, label=corp)),
        (None, Usage(2, 2, 70)),
    ]
    assert read_usage(used, label_name="client", by=(Grouping.DAY,), by_workspace=True) == [
        ("lab-id-name", Usage(1, 1, 10, day=TODAY, label=acme)),
        ("lab-id-name", Usage(1, 1, 20, day=TODAY, label=corp)),
        ("lab-id-name", Usage(2, 2, 70, day=TODAY)),
        ("lab-id-name", Usage(1, 0, 0, day=TOMORROW, label=acme)),
    ]
    assert read_usage(used, label_name="nothing") == [(None, Usage(5, 4, 100))]


def test_usage_of_one_label_has_only_its_runs(used: Books) -> None:
    """A value that no run has is no row."""
    assert read_usage(used, label=("client", "acme")) == [(None, Usage(2, 1, 10))]
    days = read_usage(used, label=("client", "acme"), by=(Grouping.DAY,))
    assert [row.day for _, row in days] == [TODAY, TOMORROW]
    assert read_usage(used, label=("client", "ACME")) == []


class TestAudit:
    """Books that are wrong on purpose."""

    @pytest.fixture
    def proven_books(self) -> None:
        """Take the folder's proof away."""

    @pytest.mark.req("R-29")
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE label_days SET runs = runs + 1 WHERE value = '=acme'",
            "UPDATE label_days SET succeeded = succeeded - 1 WHERE value = ''",
            "UPDATE label_days SET charge = charge + 1 WHERE value = '=acme'",
            "UPDATE label_days SET day = '2026-01-16' WHERE value = '=acme'",
            "UPDATE label_days SET name = 'project' WHERE value = '=acme'",
            "UPDATE label_days SET value = '=third' WHERE value = '=acme'",
            "DELETE FROM label_days WHERE value = '=acme'",
            "DELETE FROM label_days WHERE name = 'client'",
            "INSERT INTO label_days VALUES ('lab-id', '2026-01-15', 'client', '=x', 1, 1, 5)",
            "UPDATE runs SET labels = NULL WHERE id = 'a'",
            "UPDATE runs SET charge = charge + 1 WHERE id = 'a'",
        ],
    )
    def test_wrong_usage_of_a_label_is_found_by_the_audit(self, paid: Books, statement: str) -> None:
        """Every figure and every name of a row is proven by the runs that ended, and no row may be missing."""
        ran(paid, "a", {"client": "acme"})
        ran(paid, "b", {"client": "other"})
        assert paid.do(ledger.disagreements) == []
        paid.sql(statement)
        found = [row for row in paid.do(ledger.disagreements) if row["check"] == _WRONG]
        assert found
        assert all(row["workspace"] and row["day"] and row["name"] for row in found)
