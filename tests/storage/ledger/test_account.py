"""The account of a workspace in pages and in sums: exact, scoped, and by indexes (A-02)."""

import datetime
import itertools
from functools import partial
from typing import Any

import pytest

from cases import for_each
from fairlead.domain.days import DAY_MS, day_of
from fairlead.domain.ledger.usage import Grouping, UsageQuery
from fairlead.storage.accounts import workspaces
from fairlead.storage.accounts.credits import NewCredit, credit
from fairlead.storage.ledger import account
from fairlead.storage.ledger.account import AccountEntry, MonthStatement
from fairlead.storage.ledger.usage import usage_of_many
from storage.bookings import LAB, NOW, Books, admission, new_key, settlement
from storage.plans import trace

HOUR = 3_600_000
DAYS = 12


@pytest.fixture
def booked(books: Books) -> Books:
    """Return books of two workspaces in which something is booked every six hours for some days before NOW."""
    books.open()
    books.do(lambda c: credit(c, LAB, NewCredit(1_000_000, "paid in"), NOW - DAYS * DAY_MS - HOUR))
    books.open("office", balance=500)
    books.do(lambda c: workspaces.create_key(c, new_key(label="studio")))
    for number in range(DAYS * 4):
        at = NOW - DAYS * DAY_MS + number * 6 * HOUR
        # The clocks of servers differ: every fifth entry is booked by one that is behind.
        at -= 1_000 if number % 5 == 0 else 0
        id_, key = f"run-{number}", "key-1" if number % 2 else None
        books.write(admission(id_, 100, created_at=at, key_id=key))
        books.write(settlement(id_, 10 + number, finished_at=at))
    books.write(admission("of the office", 100, workspace_id="office"))
    return books


def entries(books: Books, since: int | None = None, until: int | None = None) -> list[AccountEntry]:
    """Return all entries of the lab within bounds, page by page, the newest first."""
    found: list[AccountEntry] = []
    before = None
    while page := books.do(
        partial(account.list_entries, workspace_id=LAB, since=since, until=until, before=before, limit=7)
    ):
        found += page
        before = page[-1].id
    return found


def test_pages_have_every_entry_of_the_workspace_once(booked: Books) -> None:
    """Both ways; nothing of another workspace is among them."""
    found = entries(booked)
    assert len(found) == 1 + 2 * 4 * DAYS
    assert [one.id for one in found] == sorted({one.id for one in found}, reverse=True)
    assert {one.run_id for one in found if one.model_id is None} == {None}
    up: list[AccountEntry] = []
    after = 0
    while page := booked.do(
        partial(account.entries_after, workspace_id=LAB, since=None, until=None, after=after, limit=9)
    ):
        up += page
        after = page[-1].id
    assert up == found[::-1]


@for_each(
    "since, until, near",
    itertools.product(
        (None, NOW - 5 * DAY_MS, NOW - 5 * DAY_MS - 500, NOW + DAY_MS),
        (None, NOW - 2 * DAY_MS, NOW - 2 * DAY_MS + 1, 0),
        (1, 10, 1_000),
    ),
)
def test_bounds_of_time_are_exact(
    booked: Books, monkeypatch: pytest.MonkeyPatch, since: int | None, until: int | None, near: int
) -> None:
    """Also where an entry was booked by a server whose clock is behind, and however near the halving comes."""
    monkeypatch.setattr(account, "_NEAR", near)
    wanted = [
        one.id for one in entries(booked) if (since is None or one.at >= since) and (until is None or one.at < until)
    ]
    assert [one.id for one in entries(booked, since, until)] == wanted


@pytest.mark.req("A-02")
def test_statement_adds_up(booked: Books) -> None:
    """The balance before a month, what was paid in and what was spent make the balance after it."""
    booked.do(lambda c: credit(c, LAB, NewCredit(700, "invoice 7"), NOW + 1))
    first = day_of(NOW).replace(day=1)
    after = (first + datetime.timedelta(days=31)).replace(day=1)
    told: MonthStatement = booked.do(lambda c: account.month_statement(c, LAB, first, after))
    spent = sum(line.charge for line in told.spending)
    assert told.opening + told.credited - spent == told.closing
    assert told.closing == booked.figures()[0]
    assert [(line.amount, line.reason) for line in told.credits] == [(1_000_000, "paid in"), (700, "invoice 7")]
    assert [(line.key_label, line.runs) for line in told.spending] == [("studio", 24), (None, 24)]
    before: MonthStatement = booked.do(lambda c: account.month_statement(c, LAB, datetime.date(2020, 1, 1), first))
    assert (before.opening, before.closing) == (0, told.opening)


@pytest.mark.parametrize(
    "work",
    [
        partial(account.list_entries, workspace_id=LAB, since=NOW - DAY_MS, until=NOW, before=50, limit=5),
        partial(account.entries_after, workspace_id=LAB, since=None, until=None, after=5, limit=5),
        partial(account.newest_entry, workspace_id=LAB),
    ],
)
def test_no_page_reads_the_whole_ledger(booked: Books, work: Any) -> None:
    """Each is found by an index of the workspace and its ids."""
    booked.sql("ANALYZE")
    for sql, plan in trace(booked, work):
        assert "SCAN ledger_entries" not in plan or "USING" in plan, (sql, plan)
        assert "TEMP B-TREE" not in plan, (sql, plan)


def test_usage_of_many_is_told_apart_by_workspace(booked: Books) -> None:
    """For some workspaces, for all, or for one key; the most expensive first."""
    booked.write(settlement("of the office", 60, workspace_id="office"))
    query = UsageQuery(day_of(NOW - 30 * DAY_MS), day_of(NOW), (Grouping.MODEL, Grouping.KEY))
    rows = booked.do(lambda c: usage_of_many(c, None, None, query, 100, by_workspace=True))
    assert [(name, row.runs, row.key and row.key.label) for name, row in rows] == [
        ("lab-id-name", 24, "studio"),
        ("lab-id-name", 24, None),
        ("office-name", 1, None),
    ]
    rows = booked.do(lambda c: usage_of_many(c, [LAB], "key-1", query, 100, by_workspace=False))
    assert [(name, row.runs) for name, row in rows] == [(None, 24)]
