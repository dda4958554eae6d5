"""Budgets whose periods begin in the middle of a day in UTC: what counts, whatever comes late, and the proof (M-07)."""

from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Run
from fairlead.clock import new_id
from fairlead.domain.days import DAY_MS, HOUR_MS, first_id
from fairlead.domain.faults import BudgetExceeded
from fairlead.domain.ledger.budgets import BadBudgetError, Budget, BudgetPeriod, BudgetReset, BudgetScope, period_start
from fairlead.domain.ledger.corrections import RefundOrder
from fairlead.domain.runs.entries import BookedRun
from fairlead.storage.accounts import workspaces
from fairlead.storage.db.database import Database
from fairlead.storage.ledger import ledger
from fairlead.storage.ledger.budget_figures import earliest_shared_day
from fairlead.storage.ledger.budgets import (
    BudgetChanges,
    NewBudget,
    change_budget,
    change_team,
    create_budget,
    find_budget,
)
from fairlead.storage.ledger.corrections import refund_run
from storage.bookings import LAB, NOW, Books, admission, new_key, settlement, write_at
from storage.plans import trace

pytestmark = pytest.mark.req("M-07")

MIDNIGHT = NOW - NOW % DAY_MS
AT_SIX = BudgetReset("Europe/Vienna", 360)
"""In the winter of these tests that is at five in UTC."""
FIVE = MIDNIGHT + 5 * HOUR_MS
_LABELS = '{"client":"acme"}'
_SUBJECTS = {
    BudgetScope.TEAM: "studio",
    BudgetScope.KEY: "key-1",
    BudgetScope.MODEL: "acme/one",
    BudgetScope.LABEL: "client=acme",
}


@pytest.fixture
def paid(books: Books) -> Books:
    """Return the books of a workspace that can pay anything, with a key of a team."""
    books.open(balance=10**9)
    books.do(partial(workspaces.create_key, new=new_key("key-1", team="studio")))
    return books


def give(
    books: Books,
    scope: BudgetScope = BudgetScope.WORKSPACE,
    reset: BudgetReset = AT_SIX,
    period: str = "day",
    at: int = FIVE,
    **changes: Any,
) -> None:
    """Give the lab a budget that begins at six in Vienna."""
    usual = {"id": "budget", "workspace_id": LAB, "subject": _SUBJECTS.get(scope, ""), "created_at": at}
    new = NewBudget(**{**usual, **changes}, scope=scope, budget=Budget(1_000, BudgetPeriod(period), reset))
    books.do(lambda c: create_budget(c, new, at))


def spent(books: Books, at: int) -> int:
    """Return what is spent of it at a time."""
    found: int = books.do(lambda c: find_budget(c, LAB, "budget", at)).spent
    return found


def ran(books: Books, at: int, charge: int = 60, *, written_at: int | None = None, **changes: Any) -> str:
    """Have a run of the key end at a time, and be written then or later; its id."""
    number = len(books.rows("SELECT id FROM runs"))
    id_ = f"{first_id(at)}-7000-8000-{number:012d}"
    books.write(admission(id_, key_id="key-1", created_at=at, labels=_LABELS, **changes), now=written_at or at)
    of = {name: changes[name] for name in ("workspace_id",) if name in changes}
    booked = BookedRun(100, "key-1", "acme/one", labels=_LABELS)
    books.write(settlement(id_, charge, finished_at=at, booked=booked, **of), now=written_at or at)
    return id_


@pytest.mark.parametrize("scope", BudgetScope)
def test_period_counts_from_its_time_on(paid: Books, scope: BudgetScope) -> None:
    """What ended a moment before it is in the period before; the next day it begins at that time again."""
    ran(paid, FIVE - 1, 7)
    ran(paid, FIVE, 11)
    give(paid, scope)
    assert spent(paid, FIVE) == 11
    ran(paid, FIVE + DAY_MS - 1, 13)
    assert spent(paid, FIVE + DAY_MS - 1) == 24
    ran(paid, FIVE + DAY_MS, 17)
    assert spent(paid, FIVE + DAY_MS) == 17


def test_run_is_refused_until_the_period_ends(paid: Books) -> None:
    """Midnight in UTC changes nothing."""
    give(paid)
    ran(paid, FIVE, 100)
    ask = partial(admission, hold=901, key_id=None)
    refused = BudgetExceeded(1_000, "day", 100, 0, 901, "workspace", "", FIVE + DAY_MS, "Europe/Vienna")
    assert paid.write(ask("a"), now=MIDNIGHT + DAY_MS) == [refused]
    (alert,) = paid.rows("SELECT figures FROM alerts")
    told = msgspec.json.decode(alert["figures"])
    assert (told["since"], told["resets_at"], told["time_zone"]) == ("2026-01-15", FIVE + DAY_MS, "Europe/Vienna")
    assert paid.write(ask("b"), now=FIVE + DAY_MS) == [None]


def test_end_and_turn_of_one_batch_are_counted_once(paid: Books) -> None:
    """A run that ended just before the period began is written with the first one of it."""
    give(paid)
    for id_ in ("early", "late"):
        paid.write(admission(id_, created_at=FIVE))
    early, late = (
        settlement(id_, charge, finished_at=FIVE + DAY_MS + shift, booked=BookedRun(100, None, "acme/one"))
        for id_, charge, shift in (("early", 7, -1), ("late", 11, 1))
    )
    paid.write(early, late, now=FIVE + DAY_MS + 2)
    assert spent(paid, FIVE + DAY_MS + 2) == 11


def test_end_that_comes_late_counts_where_it_ended(paid: Books) -> None:
    """The period has begun; a run of the same day, before it, is written only now, and later refunded."""
    give(paid)
    ran(paid, FIVE + DAY_MS, 11)
    late = ran(paid, FIVE + DAY_MS - 1, 7, written_at=FIVE + DAY_MS + 1)
    assert spent(paid, FIVE + DAY_MS + 1) == 11
    paid.do(lambda c: refund_run(c, late, RefundOrder("black"), FIVE + 2 * DAY_MS, is_dry=False))
    assert spent(paid, FIVE + DAY_MS + 1) == 11


def test_refund_lowers_the_period_of_its_run(paid: Books) -> None:
    """One of the morning before the period leaves it as it is."""
    before, after = ran(paid, FIVE - 1, 7), ran(paid, FIVE, 11)
    give(paid)
    for id_ in (before, after):
        paid.do(partial(refund_run, run_id=id_, order=RefundOrder("black"), now=FIVE + 5, is_dry=False))
    assert spent(paid, FIVE) == 0


def test_changed_zone_counts_anew(paid: Books) -> None:
    """As a changed period does; a limit that is changed leaves the terms."""
    ran(paid, FIVE - 1, 7)
    ran(paid, FIVE, 11)
    give(paid)
    change = partial(change_budget, workspace_id=LAB, budget_id="budget", now=FIVE + 1)
    paid.do(partial(change, changes=BudgetChanges(limit=5)))
    assert spent(paid, FIVE) == 11
    paid.do(partial(change, changes=BudgetChanges(time_zone="UTC", reset_minute=0)))
    assert spent(paid, FIVE) == 18
    paid.do(partial(change, changes=BudgetChanges(reset_minute=300)))
    assert spent(paid, FIVE) == 11
    with pytest.raises(BadBudgetError):
        paid.do(partial(change, changes=BudgetChanges(time_zone="Mars/Olympus")))


def test_period_that_a_server_of_an_earlier_version_began_is_given_up(paid: Books) -> None:
    """It begins periods at midnight in UTC, and knows nothing of the time; the next run counts anew."""
    ran(paid, MIDNIGHT - 14 * DAY_MS - HOUR_MS, 7)
    ran(paid, MIDNIGHT - 14 * DAY_MS, 11)
    give(paid, reset=BudgetReset("Europe/Vienna"), period="month")
    paid.sql("UPDATE budgets SET since = '2026-01-01', spent = 11")
    assert spent(paid, FIVE) == 18
    ran(paid, FIVE, 13)
    assert spent(paid, FIVE) == 31
    assert paid.do(ledger.disagreements) == []


def test_key_takes_the_spending_of_the_period_into_another_team(paid: Books) -> None:
    """And what was before it stays out."""
    ran(paid, FIVE - 1, 7)
    ran(paid, FIVE, 11)
    give(paid, BudgetScope.TEAM, subject="other")
    assert spent(paid, FIVE) == 0
    paid.do(lambda c: change_team(c, "key-1", "other", FIVE + 1))
    assert spent(paid, FIVE) == 11


def test_shown_period_begins_on_the_day_of_its_zone(paid: Books) -> None:
    """It is Monday there, while it is Sunday in UTC."""
    give(paid, reset=BudgetReset("Asia/Tokyo", 60), period="week")
    found = paid.do(lambda c: find_budget(c, LAB, "budget", FIVE))
    assert found.since == "2026-01-12"
    assert found.resets_at == MIDNIGHT + 3 * DAY_MS + 16 * HOUR_MS


def test_runs_are_needed_from_the_earliest_day_on(paid: Books) -> None:
    """On which a period began after the day did; others ask for no run."""
    for number, (reset, period) in enumerate(
        [(BudgetReset(), "week"), (BudgetReset("Asia/Tokyo", 540), "day"), (BudgetReset("Asia/Tokyo"), "total")]
    ):
        give(paid, reset=reset, period=period, id=f"{number}")
    assert paid.do(lambda c: earliest_shared_day(c, FIVE)) is None
    give(paid, BudgetScope.MODEL, period="day")
    give(paid, BudgetScope.MODEL, period="month", id="monthly")
    assert paid.do(lambda c: earliest_shared_day(c, FIVE)) == MIDNIGHT - 14 * DAY_MS


def test_runs_before_a_period_are_found_by_an_index(paid: Books) -> None:
    """No history is read, and a budget that begins with a day reads no run."""
    give(paid)
    give(paid, reset=BudgetReset(), period="week", id="weekly")
    entries = [admission("a", key_id="key-1", created_at=FIVE + DAY_MS)]
    plans = trace(paid, partial(write_at, entries=entries, now=FIVE + DAY_MS))
    (plan,) = [steps for sql, steps in plans if "runs.charge" in sql.replace("\n", " ")]
    assert "ix_runs_charged" in plan


_STEP = st.one_of(
    st.tuples(st.just("run"), st.integers(0, 180), st.integers(1, 100)),
    st.tuples(st.just("refund"), st.integers(0, 10), st.integers(1, 100)),
    st.tuples(st.just("change"), st.sampled_from(["UTC", "Asia/Kolkata", "America/New_York"]), st.integers(0, 1439)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1500), _STEP), max_size=10), st.sampled_from(["day", "week", "month"]))
def test_books_agree_after_any_ends_refunds_and_turns(
    database: Database, run: Run, steps: list[tuple[int, tuple[str, Any, int]]], period: str
) -> None:
    """Minutes pass between the steps; ends are written up to three hours late."""
    books, lab, key, budget_id = Books(database, run), new_id(), new_id(), new_id()
    books.open(lab, balance=10**9)
    books.do(partial(workspaces.create_key, new=new_key(key, workspace_id=lab)))
    give(books, BudgetScope.KEY, period=period, at=NOW, id=budget_id, workspace_id=lab, subject=key)
    now, reset = NOW, AT_SIX
    charges: dict[str, tuple[int, int]] = {}
    refunded: set[str] = set()
    for minutes, (step, one, other) in steps:
        now += minutes * 60_000
        if step == "run":
            id_, at = new_id(), now - one * 60_000
            books.write(admission(id_, workspace_id=lab, key_id=key, created_at=at), now=now)
            end = settlement(id_, other, workspace_id=lab, finished_at=at, booked=BookedRun(100, key, "acme/one"))
            books.write(end, now=now)
            charges[id_] = at, other
        elif step == "refund" and (left := sorted(set(charges) - refunded)):
            id_ = left[one % len(left)]
            at, charge = charges[id_]
            order = RefundOrder("black", min(other, charge))
            books.do(partial(refund_run, run_id=id_, order=order, now=now, is_dry=False))
            charges[id_] = at, charge - min(other, charge)
            refunded.add(id_)
        elif step == "change":
            reset = BudgetReset(one, other)
            changes = BudgetChanges(time_zone=one, reset_minute=other)
            books.do(partial(change_budget, workspace_id=lab, budget_id=budget_id, changes=changes, now=now))
        assert books.do(ledger.disagreements) == []
    start = period_start(BudgetPeriod(period), reset, now).moment
    found = books.do(lambda c: find_budget(c, lab, budget_id, now))
    assert found.spent == sum(charge for at, charge in charges.values() if at >= start)


class TestAudit:
    """Books that are wrong on purpose."""

    @pytest.fixture
    def proven_books(self) -> None:
        """Take the folder's proof away."""

    @pytest.mark.req("R-29")
    @pytest.mark.parametrize("scope", BudgetScope)
    @pytest.mark.parametrize(
        "shift",
        [
            "spent = spent - 1",
            "spent = spent - 1, spent_before = spent_before + 1",
            "since_at = since_at - 60000",
        ],
    )
    def test_spending_moved_out_of_a_period_is_found_by_the_audit(
        self, paid: Books, scope: BudgetScope, shift: str
    ) -> None:
        """What the first day had before the period is proven by its runs."""
        ran(paid, FIVE - 1, 7)
        ran(paid, FIVE, 11)
        give(paid, scope)
        assert paid.do(ledger.disagreements) == []
        paid.sql(f"UPDATE budgets SET {shift}")  # noqa: S608 -- one of three
        (found,) = paid.do(ledger.disagreements)
        assert found["check"] == "what is held or spent of a budget differs from its runs"
