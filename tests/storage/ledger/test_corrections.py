"""Refunds: once for each run, with its usage and its budgets, and the books agree after every step (M-07)."""

from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.domain.days import DAY_MS, day_of, first_id
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod, BudgetScope
from fairlead.domain.ledger.corrections import NotRefundableError, Obstacle, RefundOrder, RunSelection
from fairlead.domain.ledger.money import BALANCE_MAX
from fairlead.storage.accounts import workspaces
from fairlead.storage.accounts.credits import BalanceBoundError
from fairlead.storage.ledger.budgets import NewBudget, create_budget, find_budget
from fairlead.storage.ledger.corrections import RefundSums, refund_run, refund_selected, refund_sums
from storage.bookings import LAB, NOW, Books, admission, new_key, settlement

pytestmark = pytest.mark.req("M-07")

LATER = NOW + 40 * DAY_MS
"""In the month after the next."""
GIVEN = RefundOrder("the picture was black")
OF_MODEL = RunSelection(model_id="acme/one", since=NOW - DAY_MS)


def run_id(number: int) -> str:
    """Return an id as it is made, in order of its number."""
    return f"{first_id(NOW + number)}-7000-8000-{number:012d}"


def ran(books: Books, number: int = 1, charge: int = 60, **changes: Any) -> str:
    """Have a run begin and end; its id."""
    id_ = run_id(number)
    books.write(admission(id_, **changes))
    of = {name: changes[name] for name in ("workspace_id",) if name in changes}
    books.write(settlement(id_, charge, booked=None, **of))
    return id_


def refund(books: Books, id_: str, order: RefundOrder = GIVEN, *, at: int = LATER, is_dry: bool = False) -> Any:
    """Refund a run."""
    return books.do(lambda c: refund_run(c, id_, order, at, is_dry=is_dry))


def select(books: Books, wanted: RunSelection = OF_MODEL, after: str | None = None, limit: int = 2) -> Any:
    """Refund a page of runs."""
    return books.do(lambda c: refund_selected(c, wanted, GIVEN, after, limit, LATER, is_dry=False))


@pytest.fixture
def paid(books: Books) -> Books:
    """Return the books of a workspace with money and a key."""
    books.open(balance=10_000)
    books.do(partial(workspaces.create_key, new=new_key("key-1", team="studio")))
    return books


def test_refund_names_its_run_and_gives_its_charge_back(paid: Books) -> None:
    """The balance is as before the run; the entry has the run, the reason and the card of the charge."""
    id_ = ran(paid)
    told = refund(paid, id_)
    assert (told.amount, told.charge, told.at, told.is_new) == (60, 0, LATER, True)
    assert paid.figures() == (10_000, 0, 0)
    entry = paid.rows("SELECT * FROM ledger_entries WHERE kind = 'refund'")[0]
    assert (entry["run_id"], entry["balance_change"], entry["held_change"]) == (id_, 60, 0)
    assert (entry["reason"], entry["rate_version"], entry["created_at"]) == (GIVEN.reason, "v1", LATER)


def test_refund_that_is_repeated_tells_the_first(paid: Books) -> None:
    """Whatever the second asks for, nothing more is booked."""
    id_ = ran(paid)
    refund(paid, id_, RefundOrder("half", 30))
    again = refund(paid, id_, RefundOrder("all"), at=LATER + DAY_MS)
    assert (again.amount, again.charge, again.at, again.is_new) == (30, 30, LATER, False)
    assert paid.figures()[0] == 10_000 - 30


def test_dry_run_changes_nothing(paid: Books) -> None:
    """It tells what would be given back."""
    id_ = ran(paid)
    assert refund(paid, id_, is_dry=True).amount == 60
    assert paid.figures()[0] == 10_000 - 60


def test_usage_of_the_day_of_the_run_is_lowered(paid: Books) -> None:
    """On the day on which the run ended; the run still counts as one."""
    id_ = ran(paid, key_id="key-1")
    ran(paid, 2, key_id="key-1")
    refund(paid, id_)
    assert paid.rows("SELECT day, runs, succeeded, charge FROM usage_days") == [
        {"day": day_of(NOW).isoformat(), "runs": 2, "succeeded": 2, "charge": 60}
    ]


@pytest.mark.parametrize("period", BudgetPeriod)
@pytest.mark.parametrize("scope", BudgetScope)
def test_budgets_of_the_period_of_the_run_get_it_back(paid: Books, scope: BudgetScope, period: str) -> None:
    """Those of its workspace, team, key, model and label."""
    give(paid, scope, period)
    id_ = ran(paid, key_id="key-1", labels='{"client":"acme"}')
    refund(paid, id_)
    assert spent(paid, NOW) == 0


def test_budgets_of_a_later_period_stay(paid: Books) -> None:
    """What a run of an earlier period cost is not in them, so a refund adds nothing to what may be spent."""
    id_ = ran(paid, key_id="key-1")
    give(paid, BudgetScope.WORKSPACE, "day", at=NOW + DAY_MS)
    later = run_id(2)
    paid.write(admission(later, created_at=NOW + DAY_MS))
    paid.write(settlement(later, 40, booked=None, finished_at=NOW + DAY_MS))
    refund(paid, id_)
    assert spent(paid, NOW + DAY_MS) == 40


def give(books: Books, scope: BudgetScope, period: str, at: int = NOW) -> None:
    """Give the lab a budget."""
    subjects = {
        BudgetScope.TEAM: "studio", BudgetScope.KEY: "key-1", BudgetScope.MODEL: "acme/one",
        BudgetScope.LABEL: "client=acme",
    }  # fmt: skip
    new = NewBudget(
        id="budget", workspace_id=LAB, scope=scope, subject=subjects.get(scope, ""),
        budget=Budget(1_000, BudgetPeriod(period)), created_at=at,
    )  # fmt: skip
    books.do(lambda c: create_budget(c, new, at))


def spent(books: Books, at: int) -> int:
    """Return what is spent of that budget on a day."""
    found: int = books.do(lambda c: find_budget(c, LAB, "budget", at)).spent
    return found


@pytest.mark.parametrize(
    ("order", "obstacle"),
    [
        pytest.param(RefundOrder("more", 61), Obstacle.TOO_MUCH, id="more than its charge"),
        pytest.param(None, Obstacle.LIVE, id="live"),
        pytest.param(RefundOrder("free"), Obstacle.UNCHARGED, id="free"),
        pytest.param(RefundOrder("archived"), Obstacle.ARCHIVING, id="archiving"),
    ],
)
def test_run_that_cannot_be_refunded_is_told_why(paid: Books, order: RefundOrder | None, obstacle: Obstacle) -> None:
    """Nothing is booked for it."""
    id_ = run_id(1)
    if order is None:
        paid.write(admission(id_))
    else:
        ran(paid, charge=0 if obstacle is Obstacle.UNCHARGED else 60)
    if obstacle is Obstacle.ARCHIVING:
        begin_archive(paid, id_)
    balance = paid.figures()[0]
    with pytest.raises(NotRefundableError) as refused:
        refund(paid, id_, order or GIVEN)
    assert refused.value.obstacle is obstacle
    assert paid.figures()[0] == balance
    paid.sql("DELETE FROM archives")


def begin_archive(books: Books, id_: str) -> None:
    """Record an archive that has a run in its file and whose rows were not deleted yet."""
    books.sql(
        "INSERT INTO archives (number, before, first_run, last_run, runs, entries, events, file, size, digest,"
        " previous, checksum, created_at) VALUES (1, :before, :id, :id, 1, 2, 0, 'a', 1, 'd', :previous, 'c', :now)",
        before=NOW + DAY_MS, id=id_, previous="0" * 64, now=LATER,
    )  # fmt: skip


def test_run_that_nobody_knows_is_not_refunded(paid: Books) -> None:
    """Like one that was archived."""
    assert refund(paid, run_id(9)) is None


def test_refund_never_takes_a_balance_beyond_its_bound(paid: Books) -> None:
    """As credits do not."""
    id_ = ran(paid)
    more = BALANCE_MAX - 10_000 + 60
    paid.sql("UPDATE workspaces SET balance = balance + :more", more=more)
    with pytest.raises(BalanceBoundError):
        refund(paid, id_)
    paid.sql("UPDATE workspaces SET balance = balance - :more", more=more)


def test_selection_is_refunded_in_pages(paid: Books) -> None:
    """By model, time, workspace, card and outcome; a page says where the next begins."""
    paid.open(id_="office", balance=1_000)
    wanted = [ran(paid, number) for number in range(3)]
    ran(paid, 3, model_id="acme/two")
    ran(paid, 4, workspace_id="office")
    ran(paid, 5, charge=0)
    of_lab = RunSelection(model_id="acme/one", since=NOW - DAY_MS, workspace_id=LAB, rate_version="v1")
    assert paid.do(lambda c: refund_sums(c, of_lab)) == RefundSums(3, 180, 0, 0)
    first = select(paid, of_lab)
    assert ([one.run_id for one in first.refunds], first.after) == (wanted[:2], wanted[1])
    second = select(paid, of_lab, first.after)
    assert ([one.run_id for one in second.refunds], second.after) == (wanted[2:], None)
    assert paid.do(lambda c: refund_sums(c, of_lab)) == RefundSums(0, 0, 3, 180)
    narrowed: list[dict[str, Any]] = [{"rate_version": "v2"}, {"outcome": "failed"}, {"since": LATER}, {"until": NOW}]
    for narrower in narrowed:
        none = msgspec.structs.replace(OF_MODEL, workspace_id="office", **narrower)
        assert select(paid, none).refunds == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(pages=st.lists(st.integers(1, 4), max_size=4))
def test_refunds_that_were_killed_go_on_to_the_same_books(paid: Books, pages: list[int]) -> None:
    """Whatever pages were booked before, the rest is booked once."""
    base = len(paid.rows("SELECT id FROM runs"))
    ids = [ran(paid, base + number, charge=10 + number, key_id="key-1") for number in range(6)]
    for limit in pages:
        select(paid, limit=limit)  # without its cursor, as after a kill
    while select(paid).after is not None:
        pass
    assert paid.figures()[0] == 10_000
    rows = paid.rows("SELECT run_id FROM ledger_entries WHERE kind = 'refund'")
    assert {row["run_id"] for row in rows} >= set(ids)
    assert len(rows) == base + len(ids)
