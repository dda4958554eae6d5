"""What runs have cost by day, key and model: added up as they end, read back, and proven."""

import datetime
from functools import partial
from typing import Any

import pytest

from fairlead.domain.days import DAY_MS
from fairlead.domain.ledger.usage import Grouping, Usage, UsageQuery, UsedKey
from fairlead.storage.accounts import workspaces
from fairlead.storage.ledger import ledger
from fairlead.storage.ledger.run_books import UsageBook
from fairlead.storage.ledger.usage import usage_addition, usage_of
from storage.bookings import LAB, NOW, Books, admission, failure, new_key, settlement

ALL = tuple(Grouping)
MIDNIGHT = NOW // DAY_MS * DAY_MS
TODAY = datetime.date(2026, 1, 15)
"""The day of NOW."""
_WRONG = "usage of a day differs from the runs that ended on it"


def read_usage(
    books: Books, *by: Grouping, first: datetime.date = TODAY, last: datetime.date = TODAY, **also: Any
) -> Any:
    """Read the usage of a workspace, told apart by something."""
    query = UsageQuery(first, last, by)
    workspace_id, limit = also.get("workspace_id", LAB), also.get("limit", 100)
    return books.do(lambda c: usage_of(c, workspace_id, query, limit))


@pytest.fixture
def ended(books: Books) -> Books:
    """Return books in which runs of two keys and of a token ended, on two days."""
    books.open(balance=10_000)
    books.open(id_="office", balance=10_000)
    for name in ("key-1", "key-2"):
        key = new_key(name, label=f"label of {name}")
        books.do(partial(workspaces.create_key, new=key))
    runs = (
        ("a", "key-1", "acme/one", 10),
        ("b", "key-1", "acme/one", 20),
        ("c", "key-1", "acme/two", 30),
        ("d", "key-2", "acme/one", 40),
        ("e", None, "acme/one", 50),
    )
    books.write(*(admission(run, key_id=key_id, model_id=model) for run, key_id, model, _ in runs))
    books.write(*(settlement(run, charge=charge, finished_at=NOW) for run, _, _, charge in runs))
    books.write(admission("f", key_id="key-1"), admission("g", workspace_id="office"), admission("live"))
    books.write(failure("f", finished_at=MIDNIGHT - 1), settlement("g", 60, workspace_id="office", finished_at=NOW))
    return books


def test_usage_is_added_up_by_day_model_and_key(ended: Books) -> None:
    """Each day, model and key has a row of its own, in order; tokens come first, with no key."""
    one, two = (UsedKey(f"key-{n}", f"label of key-{n}", "flk_a…z") for n in (1, 2))
    assert read_usage(ended, *ALL) == [
        Usage(1, 1, 50, "2026-01-15", "acme/one", None),
        Usage(2, 2, 30, "2026-01-15", "acme/one", one),
        Usage(1, 1, 40, "2026-01-15", "acme/one", two),
        Usage(1, 1, 30, "2026-01-15", "acme/two", one),
    ]


def test_usage_is_grouped_only_as_asked(ended: Books) -> None:
    """What is not asked for is added up."""
    yesterday = TODAY - datetime.timedelta(days=1)
    assert read_usage(ended, Grouping.DAY, first=yesterday) == [
        Usage(1, 0, 0, "2026-01-14"),
        Usage(5, 5, 150, "2026-01-15"),
    ]
    assert read_usage(ended, Grouping.MODEL) == [
        Usage(4, 4, 120, model_id="acme/one"),
        Usage(1, 1, 30, model_id="acme/two"),
    ]
    assert [(row.key and row.key.id, row.charge) for row in read_usage(ended, Grouping.KEY)] == [
        (None, 50),
        ("key-1", 60),
        ("key-2", 40),
    ]


def test_run_counts_on_the_day_it_ended(ended: Books) -> None:
    """The last millisecond belongs to its day."""
    yesterday = TODAY - datetime.timedelta(days=1)
    (row,) = read_usage(ended, *ALL, first=yesterday, last=yesterday)
    assert (row.runs, row.succeeded, row.charge) == (1, 0, 0)
    assert read_usage(ended, *ALL, first=TODAY + datetime.timedelta(days=1), last=datetime.date.max) == []


def test_workspace_is_told_its_own_usage(ended: Books) -> None:
    """A workspace is told its own."""
    assert read_usage(ended, Grouping.MODEL, workspace_id="office") == [Usage(1, 1, 60, model_id="acme/one")]
    assert read_usage(ended, Grouping.MODEL, workspace_id="nobody") == []


def test_usage_rows_are_limited(ended: Books) -> None:
    """A limit is kept to, from the first row on."""
    assert [row.charge for row in read_usage(ended, *ALL, limit=2)] == [50, 30]


def test_runs_of_a_batch_share_usage_rows(books: Books) -> None:
    """Runs of a batch share the rows of their day, model and key, and a later batch adds to them."""
    books.open(balance=10_000)
    for number in range(2):
        ids = [f"{number}-{n}" for n in range(5)]
        books.write(*(admission(run_id) for run_id in ids))
        books.write(*(settlement(run_id, 7) for run_id in ids[:3]), *(failure(run_id) for run_id in ids[3:]))
    (row,) = books.rows("SELECT * FROM usage_days")
    assert (row["runs"], row["succeeded"], row["charge"], row["key_id"]) == (10, 6, 42, "")


def test_repeated_settlement_counts_once(books: Books) -> None:
    """A settlement whose answer was lost, and one that comes too late, add nothing."""
    books.open(balance=1000)
    books.write(admission())
    for _ in range(2):
        books.write(settlement(charge=60))
    books.write(settlement(charge=90, finished_at=NOW + 9))
    assert [row["charge"] for row in books.rows("SELECT charge FROM usage_days")] == [60]


def test_batch_without_ends_writes_no_usage(books: Books) -> None:
    """Nothing gathered is nothing written."""
    books.do(lambda c: usage_addition(c.dialect.name).run(c, UsageBook().rows()))
    assert books.rows("SELECT * FROM usage_days") == []


class TestAudit:
    """Books that are wrong on purpose."""

    @pytest.fixture
    def proven_books(self) -> None:
        """Take the folder's proof away."""

    @pytest.mark.req("R-29")
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE usage_days SET runs = runs + 1 WHERE key_id = 'key-2'",
            "UPDATE usage_days SET succeeded = succeeded - 1 WHERE key_id = 'key-2'",
            "UPDATE usage_days SET charge = charge + 1 WHERE key_id = 'key-2'",
            "UPDATE usage_days SET day = '2026-01-16' WHERE key_id = 'key-2'",
            "UPDATE usage_days SET key_id = 'key-3' WHERE key_id = 'key-2'",
            "UPDATE usage_days SET model_id = 'acme/three' WHERE key_id = 'key-2'",
            "UPDATE usage_days SET workspace_id = 'office' WHERE key_id = 'key-2'",
            "DELETE FROM usage_days WHERE key_id = 'key-2'",
            "INSERT INTO usage_days VALUES ('lab-id', '2026-01-15', 'key-9', 'acme/one', 1, 1, 5)",
            "UPDATE runs SET finished_at = finished_at - 86400000 WHERE id = 'd'",
            "UPDATE runs SET finished_at = NULL WHERE id = 'd'",
            "UPDATE runs SET charge = charge + 1 WHERE id = 'd'",
            "UPDATE runs SET key_id = NULL WHERE id = 'd'",
        ],
    )
    def test_wrong_usage_is_found_by_the_audit(self, ended: Books, statement: str) -> None:
        """Every figure and every name of a row is proven by the runs that ended."""
        ended.sql(statement)
        found = [row for row in ended.do(ledger.disagreements) if row["check"] == _WRONG]
        assert found
        assert all(row["name"] and len(row) > 5 for row in found)

    def test_right_usage_passes_the_audit(self, ended: Books) -> None:
        """Nothing is held against usage that was kept by the books."""
        assert ended.do(ledger.disagreements) == []
