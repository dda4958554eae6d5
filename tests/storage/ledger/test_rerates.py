"""Re-rates: the charge by another card, as often as cards change, and the books agree after every step (M-07)."""

import datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.domain.days import DAY_MS, day_of
from fairlead.domain.ledger.budgets import BudgetScope
from fairlead.domain.ledger.corrections import NotRefundableError, RefundOrder, RunSelection
from fairlead.domain.ledger.price_facts import captures_of
from fairlead.domain.ledger.quantities import Factor, Requested
from fairlead.domain.ledger.rates import (
    Component,
    RateCard,
)
from fairlead.domain.ledger.rerates import (
    RERATES_MAX,
    NotRerateableError,
    Rerate,
    RerateObstacle,
    RerateOrder,
    card_for,
)
from fairlead.domain.pointers import capture
from fairlead.storage.accounts import workspaces
from fairlead.storage.ledger.ledger import disagreements
from fairlead.storage.ledger.rerates import ReratePage, rerate_run, rerate_selected
from storage.bookings import LAB, NOW, Books, admission, failure, new_key, settlement
from storage.ledger.test_corrections import LATER, begin_archive, give, refund, run_id, spent

pytestmark = pytest.mark.req("M-07")

TODAY = datetime.date(2026, 11, 29)
OF_MODEL = RunSelection(model_id="acme/one", since=NOW - DAY_MS)


def card(version: str, price: int, at: str = "n", day: int = 1) -> RateCard:
    """Return a card that has a price for each of a number in the body."""
    component = Component("picture", price, Decimal(10), Requested((Factor((at,)),)))
    return RateCard(version, datetime.date(2026, 11, day), (component,))


CARDS = (card("v1", 20), card("cheap", 10), card("dear", 30), card("free", 0), card("other", 10, "seconds", 2))
"""The last is in force."""


def facts(n: int) -> str | None:
    """Return what is kept of a run that asked for some pictures by the first card."""
    asked = {"size": 2, "operation": None, "is_strict": False, "answer": {}, "body": {"n": n}, "defaults": {}}
    return capture(captures_of(CARDS[0].components), asked, 1000)


def ran(books: Books, number: int = 1, n: int = 3, hold: int = 100, **changes: Any) -> str:
    """Have a run begin and end, charged by the first card."""
    id_ = run_id(number)
    books.write(admission(id_, hold, **changes))
    of = {name: changes[name] for name in ("workspace_id", "rate_version") if name in changes}
    books.write(settlement(id_, min(20 * n, hold), booked=None, facts=facts(n), **of))
    return id_


def find(model_id: str, provider: str, charged_by: str, order: RerateOrder) -> RateCard | None:
    """Find the card of a run of the model that there is."""
    assert provider == "acme"
    return card_for(CARDS, charged_by, order.to_version, TODAY) if model_id == "acme/one" else None


def rerate(books: Books, id_: str, to: str | None, *, may_raise: bool = True, is_dry: bool = False) -> Rerate:
    """Re-rate a run."""
    order = RerateOrder(f"by {to}", to, may_raise)
    found: Rerate = books.do(lambda c: rerate_run(c, id_, order, partial(find, order=order), LATER, is_dry=is_dry))
    return found


def select(
    books: Books, to: str, wanted: RunSelection = OF_MODEL, after: str | None = None, limit: int = 2
) -> ReratePage:
    """Re-rate a page of runs."""
    order = RerateOrder("wrong card", to)
    cards = partial(find, order=order)
    page: ReratePage = books.do(lambda c: rerate_selected(c, wanted, order, cards, after, limit, LATER, is_dry=False))
    return page


@pytest.fixture
def paid(books: Books) -> Books:
    """Return the books of a workspace with money and a key."""
    books.open(balance=100_000)
    books.do(partial(workspaces.create_key, new=new_key("key-1", team="studio")))
    return books


def test_rerate_charges_a_run_by_the_other_card(paid: Books) -> None:
    """The entry has the run, the reason and the new card, which is the run's from then on; the hold bounds it."""
    id_ = ran(paid)
    told = rerate(paid, id_, "cheap")
    assert (told.before, told.charge, told.rate_version, told.at, told.is_new) == (60, 30, "cheap", LATER, True)
    assert paid.figures() == (99_970, 0, 0)
    (entry,) = paid.rows("SELECT * FROM ledger_entries WHERE kind = 'rerate'")
    assert (entry["run_id"], entry["balance_change"], entry["held_change"], entry["phase"]) == (id_, 30, 0, -2)
    assert (entry["reason"], entry["rate_version"], entry["created_at"]) == ("by cheap", "cheap", LATER)
    run = paid.state(id_)
    assert (run["charge"], run["rate_version"], run["price_facts"]) == (30, "cheap", facts(3))
    assert rerate(paid, ran(paid, 2, 4), "dear").charge == 100


def test_rerate_that_is_repeated_changes_nothing(paid: Books) -> None:
    """It tells the charge; a third card is another re-rate, and the first card one too."""
    id_ = ran(paid)
    rerate(paid, id_, "cheap")
    again = rerate(paid, id_, "cheap")
    assert (again.before, again.charge, again.at, again.is_new) == (30, 30, LATER, False)
    assert [rerate(paid, id_, to).charge for to in ("dear", "v1")] == [90, 60]
    assert paid.figures()[0] == 99_940
    assert not rerate(paid, ran(paid, 2), "v1").is_new


def test_markup_of_the_run_stays(paid: Books) -> None:
    """Also where the card that charged it is gone."""
    charged = [rerate(paid, ran(paid, at, rate_version=by), "cheap") for at, by in enumerate(("v1+50%", "v0-10%"))]
    assert [(one.charge, one.rate_version) for one in charged] == [(45, "cheap+50%"), (27, "cheap-10%")]


def test_what_was_refunded_stays_refunded(paid: Books) -> None:
    """The new charge is the new price without it, and a run that was refunded whole costs nothing still."""
    half, whole = ran(paid), ran(paid, 2)
    for id_, amount in ((half, 20), (whole, None)):
        refund(paid, id_, RefundOrder("black", amount))
    assert (rerate(paid, half, "cheap").charge, rerate(paid, whole, "cheap").charge) == (10, 0)
    assert (rerate(paid, half, "free").charge, paid.figures()[0]) == (0, 100_000)


def test_usage_and_budgets_follow(paid: Books) -> None:
    """On the day on which the run ended, and in the budgets whose period has it; both up and down."""
    give(paid, BudgetScope.WORKSPACE, "total")
    id_ = ran(paid, key_id="key-1")
    for to, charge in (("cheap", 30), ("dear", 90)):
        rerate(paid, id_, to)
        assert paid.rows("SELECT day, runs, charge FROM usage_days") == [
            {"day": day_of(NOW).isoformat(), "runs": 1, "charge": charge}
        ]
        assert spent(paid, NOW) == charge


def test_dry_run_changes_nothing(paid: Books) -> None:
    """It tells what would be charged."""
    id_ = ran(paid)
    assert rerate(paid, id_, "cheap", is_dry=True).charge == 30
    assert paid.state(id_)["charge"] == 60


def obstacle_of(books: Books, id_: str, to: str | None = "cheap", **changes: Any) -> RerateObstacle:
    """Return why a run is not re-rated, and that nothing was booked."""
    balance = books.figures()[0]
    with pytest.raises(NotRerateableError) as refused:
        rerate(books, id_, to, **changes)
    assert books.figures()[0] == balance
    return refused.value.obstacle


def test_run_that_cannot_be_priced_again_is_told_why(paid: Books) -> None:
    """Nothing is guessed."""
    id_ = ran(paid)
    assert obstacle_of(paid, id_, None) is RerateObstacle.NOT_KNOWN, "the card in force reads seconds"
    assert obstacle_of(paid, id_, "v7") is RerateObstacle.NO_CARD
    assert obstacle_of(paid, ran(paid, 2, model_id="acme/two")) is RerateObstacle.NO_CARD
    paid.sql("UPDATE runs SET price_facts = NULL WHERE id = :id", id=id_)
    assert obstacle_of(paid, id_) is RerateObstacle.NOT_KEPT
    paid.write(admission(run_id(3)))
    assert obstacle_of(paid, run_id(3)) is RerateObstacle.LIVE
    paid.write(failure(run_id(3), booked=None))
    assert obstacle_of(paid, run_id(3)) is RerateObstacle.FAILED
    paid.write(admission(run_id(4), 0, byok=True))
    paid.write(settlement(run_id(4), 0, booked=None))
    assert obstacle_of(paid, run_id(4)) is RerateObstacle.OWN_KEY
    archived = ran(paid, 5)
    begin_archive(paid, archived)
    assert obstacle_of(paid, archived) is RerateObstacle.ARCHIVING
    paid.sql("DELETE FROM archives")
    with pytest.raises(NotRefundableError, match="nothing was charged"):
        refund(paid, run_id(3), RefundOrder("free"))


def test_raise_is_allowed_by_a_word_and_by_the_balance(paid: Books) -> None:
    """What a workspace cannot pay is not charged; what it gets back by a run before counts."""
    id_ = ran(paid)
    assert obstacle_of(paid, id_, "dear", may_raise=False) is RerateObstacle.RAISE
    paid.write(admission(run_id(2), 99_915))
    assert obstacle_of(paid, id_, "dear") is RerateObstacle.BALANCE
    paid.sql("UPDATE workspaces SET billing = 'postpaid', cap = 5")
    assert rerate(paid, id_, "dear").charge == 90


def test_run_is_rerated_so_often_and_no_more(paid: Books) -> None:
    """A mistake that is repeated by a program ends."""
    id_ = ran(paid)
    for number in range(RERATES_MAX):
        rerate(paid, id_, "v1" if number % 2 else "cheap")
    assert obstacle_of(paid, id_) is RerateObstacle.TOO_OFTEN


def test_run_that_nobody_knows_is_not_rerated(paid: Books) -> None:
    """Like one that was archived."""
    assert rerate(paid, run_id(9), "cheap") is None


def test_selection_is_rerated_in_pages(paid: Books) -> None:
    """By model, time, workspace and card; those that cannot be are told, and a repeat changes nothing."""
    paid.open(id_="office", balance=1_000)
    ids = [ran(paid, number) for number in range(3)]
    ran(paid, 3, workspace_id="office")
    paid.write(admission(run_id(4)))
    paid.write(failure(run_id(4), booked=None))
    of_lab = RunSelection(model_id="acme/one", since=NOW - DAY_MS, workspace_id=LAB, rate_version="v1")
    first = select(paid, "cheap", of_lab)
    assert ([one.run_id for one in first.rerates], first.after) == (ids[:2], ids[1])
    second = select(paid, "cheap", of_lab, first.after)
    assert ([one.run_id for one in second.rerates], second.after) == (ids[2:], None)
    assert second.obstacles == {run_id(4): RerateObstacle.FAILED}
    again = select(paid, "cheap", OF_MODEL, limit=9)
    assert [(one.charge, one.is_new) for one in again.rerates] == [(30, False)] * 3 + [(30, True)]
    assert (paid.figures()[0], paid.figures("office")[0]) == (100_000 - 90, 1_000 - 30)


STEPS = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["v1", "cheap", "dear", "free", 1, 25, None])), max_size=12
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
@given(steps=STEPS)
def test_books_agree_after_refunds_and_rerates_in_any_order(paid: Books, steps: list[tuple[int, Any]]) -> None:
    """A run never costs more than its hold or less than nothing, and what was refunded stays refunded."""
    base = len(paid.rows("SELECT id FROM runs"))
    ids = [ran(paid, base + number, number + 1, hold=50, key_id="key-1") for number in range(4)]
    for number, step in steps:
        id_ = ids[number]
        try:
            if isinstance(step, str):
                rerate(paid, id_, step)
            else:
                order = RefundOrder("black", step)
                refund(paid, id_, order)
        except (NotRefundableError, NotRerateableError):
            pass
        assert 0 <= paid.state(id_)["charge"] <= 50
    assert paid.do(disagreements) == []
