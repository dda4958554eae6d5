"""Budgets of workspaces, teams and models beside those of keys: what counts, who is refused, who is told (A-03)."""

import asyncio
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Run
from fairlead.clock import new_id
from fairlead.domain.days import DAY_MS
from fairlead.domain.faults import BudgetExceeded, is_fault
from fairlead.domain.ledger.alerts import ChannelKind
from fairlead.domain.ledger.budgets import ADDITIONS_MAX, Addition, Budget, BudgetPeriod, BudgetScope
from fairlead.domain.runs.entries import BookedRun
from fairlead.storage.accounts import workspaces
from fairlead.storage.db.database import Database
from fairlead.storage.ledger import alerts, ledger
from fairlead.storage.ledger.budgets import (
    BudgetChanges,
    BudgetRecord,
    BudgetTakenError,
    NewBudget,
    TooManyAdditionsError,
    UnknownAdditionError,
    UnknownBudgetError,
    add_to_budget,
    change_budget,
    change_team,
    create_budget,
    delete_budget,
    find_budget,
    list_budgets,
    withdraw_addition,
)
from fairlead.storage.runs.batch import Written
from storage.bookings import LAB, NOW, Books, admission, failure, new_key, redirection, resets_at, settlement, write_at
from storage.plans import trace

pytestmark = pytest.mark.req("A-03")

TOMORROW = NOW + DAY_MS
_SUBJECTS = {
    BudgetScope.WORKSPACE: "",
    BudgetScope.TEAM: "studio",
    BudgetScope.KEY: "key-1",
    BudgetScope.MODEL: "acme/one",
    BudgetScope.LABEL: "client=acme",
}
_LABELS = '{"client":"acme","project":"spring"}'


@pytest.fixture
def paid(books: Books) -> Books:
    """Return the books of a workspace that can pay anything, with two keys of a team and one of none."""
    books.open(balance=10**9)
    for id_, team in (("key-1", "studio"), ("key-2", "studio"), ("key-3", None)):
        books.do(partial(workspaces.create_key, new=new_key(id_, team=team)))
    return books


def give(books: Books, scope: BudgetScope, limit: int = 100, **changes: Any) -> str:
    """Give the lab a budget of a scope, and return its id."""
    period = changes.pop("period", BudgetPeriod.MONTH)
    usual = {"id": f"{scope} {period}", "workspace_id": LAB, "subject": _SUBJECTS[scope], "created_at": NOW}
    new = NewBudget(**{**usual, **changes}, scope=scope, budget=Budget(limit, period))
    books.do(lambda c: create_budget(c, new, NOW))
    return new.id


def figures(books: Books, id_: str, at: int = NOW) -> tuple[Any, Any]:
    """Return what is spent of a budget and held."""
    found = books.do(lambda c: find_budget(c, LAB, id_, at))
    return found.spent, found.held


def alert_kinds(books: Books) -> list[tuple[str, dict[str, Any]]]:
    """Return the kinds of the alerts that were made, with their figures, the oldest first."""
    rows = books.rows("SELECT kind, figures FROM alerts ORDER BY id")
    return [(row["kind"], msgspec.json.decode(row["figures"])) for row in rows]


def ask(books: Books, run_id: str, hold: int, key_id: str | None = "key-1", **changes: Any) -> Any:
    """Ask for a run, alone in its batch."""
    return books.write(admission(run_id, hold, **{"key_id": key_id, "labels": _LABELS, **changes}))[0]


@pytest.mark.parametrize("scope", BudgetScope)
def test_budget_of_each_scope_refuses_what_it_does_not_cover(paid: Books, scope: BudgetScope) -> None:
    """Held, spent and wanted may come to the budget exactly; the refusal says whose it is."""
    id_ = give(paid, scope)
    assert ask(paid, "a", 60) is None
    named = "" if scope is BudgetScope.KEY else _SUBJECTS[scope]
    assert ask(paid, "b", 41) == BudgetExceeded(100, "month", 0, 60, 41, scope.value, named, resets_at())
    paid.write(settlement("a", charge=30))
    assert figures(paid, id_) == (30, 0)
    assert ask(paid, "c", 70) is None
    assert figures(paid, id_) == (30, 70)
    paid.write(failure("c"))
    assert figures(paid, id_) == (30, 0)


@pytest.mark.parametrize(
    ("scope", "changes"),
    [
        (BudgetScope.TEAM, {"key_id": "key-3"}),
        (BudgetScope.TEAM, {"key_id": None}),
        (BudgetScope.KEY, {"key_id": "key-2"}),
        (BudgetScope.MODEL, {"model_id": "acme/two"}),
        (BudgetScope.LABEL, {"labels": None}),
        (BudgetScope.LABEL, {"labels": '{"client":"acme=","project":"acme"}'}),
    ],
)
def test_budget_leaves_the_runs_of_others_alone(paid: Books, scope: BudgetScope, changes: dict[str, Any]) -> None:
    """Other keys, teams, models and labels, and tokens, are not refused, and are not counted."""
    id_ = give(paid, scope)
    assert ask(paid, "a", 1_000, **changes) is None
    paid.write(settlement("a", charge=900))
    assert figures(paid, id_) == (0, 0)


@pytest.mark.req("M-07")
@pytest.mark.parametrize("is_booked", [False, True])
def test_label_budget_of_a_run_that_ends_without_being_read(paid: Books, is_booked: bool) -> None:  # noqa: FBT001 -- a parameter of the test
    """Whoever ends a run, its labels are those of its admission; a raise counts for them too."""
    id_ = give(paid, BudgetScope.LABEL, 200)
    ask(paid, "run-1", 100)
    assert paid.write(redirection(hold=120)) == [None]
    assert figures(paid, id_) == (0, 120)
    booked = BookedRun(120, "key-1", "acme/one", labels=_LABELS) if is_booked else None
    paid.write(settlement(charge=70, booked=booked))
    assert figures(paid, id_) == (70, 0)


def test_team_is_the_sum_of_its_keys(paid: Books) -> None:
    """Keys of a team share its budget."""
    id_ = give(paid, BudgetScope.TEAM)
    assert ask(paid, "a", 60, "key-1") is None
    assert ask(paid, "b", 60, "key-2") == BudgetExceeded(100, "month", 0, 60, 60, "team", "studio", resets_at())
    assert figures(paid, id_) == (0, 60)


def test_key_takes_its_spending_into_another_team(paid: Books) -> None:
    """What a key has spent and what is held for it counts for the team it is in."""
    studio = give(paid, BudgetScope.TEAM)
    other = give(paid, BudgetScope.TEAM, id="other", subject="other")
    ask(paid, "a", 40)
    ask(paid, "b", 20)
    paid.write(settlement("a", charge=30))
    assert paid.do(lambda c: change_team(c, "key-1", "other", NOW))
    assert (figures(paid, studio), figures(paid, other)) == ((0, 0), (30, 20))
    assert not paid.do(lambda c: change_team(c, "key-9", "other", NOW))


@pytest.mark.parametrize("scope", BudgetScope)
def test_new_budget_counts_what_was_spent_before_it(paid: Books, scope: BudgetScope) -> None:
    """A budget that is made in the middle of its period begins with what its runs have cost, and with what is held."""
    ask(paid, "a", 60)
    paid.write(settlement("a", charge=50))
    ask(paid, "b", 30)
    assert figures(paid, give(paid, scope)) == (50, 30)


def test_budget_is_whole_again_in_its_next_period(paid: Books) -> None:
    """A day later the budget of a day is whole, also where nothing has run since; that of a month is not."""
    daily = give(paid, BudgetScope.WORKSPACE, period=BudgetPeriod.DAY)
    monthly = give(paid, BudgetScope.WORKSPACE)
    ask(paid, "a", 60)
    paid.write(settlement("a", charge=60))
    assert (figures(paid, daily, TOMORROW), figures(paid, monthly, TOMORROW)) == ((0, 0), (60, 0))
    assert ask(paid, "b", 40, created_at=TOMORROW) is None
    paid.write(settlement("b", charge=40, finished_at=TOMORROW))
    assert (figures(paid, daily, TOMORROW), figures(paid, monthly, TOMORROW)) == ((40, 0), (100, 0))


def test_late_end_counts_in_no_later_period(paid: Books) -> None:
    """A run that ended yesterday is written today: the budget of today, already begun, stays as it is."""
    daily = give(paid, BudgetScope.WORKSPACE, period=BudgetPeriod.DAY)
    ask(paid, "a", 10)
    ask(paid, "b", 10, created_at=TOMORROW)
    paid.write(settlement("b", charge=10, finished_at=TOMORROW))
    paid.write(settlement("a", charge=10), now=TOMORROW)
    assert figures(paid, daily, TOMORROW) == (10, 0)


def test_budget_that_is_not_enforced_only_tells(paid: Books) -> None:
    """Runs go on past it, and people are told."""
    id_ = give(paid, BudgetScope.WORKSPACE, is_enforced=False)
    assert ask(paid, "a", 500) is None
    paid.write(settlement("a", charge=400))
    assert figures(paid, id_) == (400, 0)
    assert [(kind, found["percent"]) for kind, found in alert_kinds(paid)] == [("threshold", 100)]


def test_each_threshold_is_told_once(paid: Books) -> None:
    """Thresholds are told as they are come to, the highest where one run passes several, and none a second time."""
    give(paid, BudgetScope.MODEL, 1_000)
    for number, charge in enumerate((499, 1, 100, 250, 50, 100)):
        ask(paid, f"run-{number}", 250 if charge == 250 else 500 if charge == 499 else 100)
        paid.write(settlement(f"run-{number}", charge=charge))
    assert [(kind, found["percent"], found["spent"]) for kind, found in alert_kinds(paid)] == [
        ("threshold", 50, 500),
        ("threshold", 80, 850),
        ("threshold", 100, 1_000),
    ]


def test_new_period_tells_again(paid: Books) -> None:
    """Thresholds and refusals are told once in each period."""
    give(paid, BudgetScope.WORKSPACE, period=BudgetPeriod.DAY, thresholds=(50,))
    for run_id, at in (("a", NOW), ("b", TOMORROW)):
        ask(paid, run_id, 60, created_at=at)
        paid.write(settlement(run_id, charge=60, finished_at=at))
        ask(paid, "c", 60, created_at=at)
        ask(paid, "c", 60, created_at=at)
    assert [kind for kind, _ in alert_kinds(paid)] == ["threshold", "refusal"] * 2


def test_first_refusal_is_told(paid: Books) -> None:
    """What a budget refuses is told once in its period, with what was wanted."""
    give(paid, BudgetScope.TEAM)
    assert is_fault(ask(paid, "a", 101))
    assert is_fault(ask(paid, "b", 102))
    ((kind, found),) = alert_kinds(paid)
    assert (kind, found["needed"], found["subject"]) == ("refusal", 101, "studio")


def test_raise_counts_against_every_budget(paid: Books) -> None:
    """A move to a dearer provider is an admission of the difference."""
    id_ = give(paid, BudgetScope.MODEL, 120)
    ask(paid, "run-1", 100)
    assert paid.write(redirection(hold=130)) == [
        BudgetExceeded(120, "month", 0, 100, 30, "model", "acme/one", resets_at())
    ]
    assert paid.write(redirection(hold=120)) == [None]
    assert figures(paid, id_) == (0, 120)


def test_second_budget_of_a_subject_needs_another_period(paid: Books) -> None:
    """A subject has one budget of each period."""
    give(paid, BudgetScope.WORKSPACE)
    with pytest.raises(BudgetTakenError):
        give(paid, BudgetScope.WORKSPACE, id="another")
    give(paid, BudgetScope.WORKSPACE, period=BudgetPeriod.DAY)


def test_changed_and_deleted_budgets_take_effect(paid: Books) -> None:
    """An amount, a period and enforcement can be changed; a deleted budget refuses nothing, and none is looked up."""
    id_ = give(paid, BudgetScope.WORKSPACE)
    paid.do(lambda c: change_budget(c, LAB, id_, BudgetChanges(50), NOW))
    assert is_fault(ask(paid, "a", 51))
    paid.do(lambda c: change_budget(c, LAB, id_, BudgetChanges(period=BudgetPeriod.DAY), NOW))
    assert ask(paid, "b", 50) is None
    with pytest.raises(UnknownBudgetError):
        paid.do(lambda c: delete_budget(c, "office", id_))
    with pytest.raises(UnknownBudgetError):
        paid.do(lambda c: change_budget(c, "office", id_, BudgetChanges(1), NOW))
    paid.do(lambda c: delete_budget(c, LAB, id_))
    assert ask(paid, "c", 1_000) is None
    assert paid.rows("SELECT budgets FROM workspaces")[0]["budgets"] == 0


def add(books: Books, budget_id: str, amount: int, until: int, id_: str = "more", at: int = NOW) -> None:
    """Add to a budget until a time."""
    new = Addition(id_, amount, until, "the fair", "Ada", at)
    books.do(lambda c: add_to_budget(c, LAB, budget_id, new))


@pytest.mark.req("T-07")
def test_addition_counts_until_it_ends_by_the_clock_of_the_database(paid: Books) -> None:
    """A run is admitted on the limit of its moment, whatever its own server's clock says; the refusal names it."""
    id_ = give(paid, BudgetScope.TEAM)
    add(paid, id_, 50, NOW + 1000)
    assert ask(paid, "a", 140) is None
    assert ask(paid, "b", 11) == BudgetExceeded(150, "month", 0, 140, 11, "team", "studio", resets_at())
    paid.write(failure("a"))
    late = partial(paid.write, now=NOW + 1000)
    assert late(admission("c", 101, key_id="key-1")) == [
        BudgetExceeded(100, "month", 0, 0, 101, "team", "studio", resets_at())
    ]
    assert late(admission("d", 100, key_id="key-1", created_at=NOW + 5000)) == [None]


def test_addition_makes_thresholds_and_refusals_news_again(paid: Books) -> None:
    """Thresholds are shares of the limit in force, and the first refusal under it is told."""
    id_ = give(paid, BudgetScope.WORKSPACE, thresholds=(80,))
    assert is_fault(ask(paid, "a", 101))
    add(paid, id_, 100, TOMORROW)
    for number, charge in enumerate((90, 60, 10)):
        assert ask(paid, f"run-{number}", charge) is None
        paid.write(settlement(f"run-{number}", charge=charge))
    assert is_fault(ask(paid, "b", 41))
    told = [(kind, found["limit"], found["spent"]) for kind, found in alert_kinds(paid)]
    assert told == [("refusal", 100, 0), ("threshold", 200, 160), ("refusal", 200, 160)]


def test_addition_is_withdrawn_and_forgotten_after_its_end(paid: Books) -> None:
    """One that is withdrawn counts no more; ended ones make room, and only so many are in force at once."""
    id_ = give(paid, BudgetScope.WORKSPACE)
    for number in range(ADDITIONS_MAX):
        add(paid, id_, 1, NOW + 1000, f"more-{number}")
    with pytest.raises(TooManyAdditionsError):
        add(paid, id_, 1, TOMORROW)
    paid.do(lambda c: withdraw_addition(c, LAB, id_, "more-0"))
    with pytest.raises(UnknownAdditionError):
        paid.do(lambda c: withdraw_addition(c, LAB, id_, "more-0"))
    assert is_fault(ask(paid, "a", 100 + ADDITIONS_MAX))
    add(paid, id_, 7, TOMORROW, at=NOW + 1000)
    found = paid.do(lambda c: find_budget(c, LAB, id_, NOW))
    assert [one.amount for one in found.additions] == [7]
    for work in (partial(withdraw_addition, addition_id="more"), partial(add_to_budget, new=found.additions[0])):
        with pytest.raises(UnknownBudgetError):
            paid.do(partial(work, workspace_id="office", budget_id=id_))


def test_budgets_are_listed_in_pages(paid: Books) -> None:
    """The newest first, and only those of the workspace."""
    for number in range(5):
        give(paid, BudgetScope.MODEL, id=f"budget-{number}", subject=f"acme/{number}")
    first = paid.do(lambda c: list_budgets(c, LAB, NOW, None, 3))
    assert [row.id for row in first] == ["budget-4", "budget-3", "budget-2"]
    second = paid.do(lambda c: list_budgets(c, LAB, NOW, "budget-2", 3))
    assert [row.id for row in second] == ["budget-1", "budget-0"]
    assert paid.do(lambda c: list_budgets(c, "office", NOW, None, 3)) == []


def test_alert_is_told_by_every_channel_of_its_workspace(paid: Books) -> None:
    """An alert is to be delivered to the channels that its workspace has, in the transaction that made it."""
    paid.open("office")
    for id_, workspace_id in (("one", LAB), ("two", LAB), ("three", "office")):
        channel = alerts.Channel(id_, workspace_id, ChannelKind.WEBHOOK, b"sealed", "shown", NOW)
        paid.do(partial(alerts.add_channel, channel=channel, most=2))
    give(paid, BudgetScope.WORKSPACE)
    ask(paid, "a", 101)
    due = paid.do(lambda c: alerts.claim_due(c, NOW, NOW + 5, 10))
    assert sorted(one.channel.id for one in due) == ["one", "two"]
    extra = alerts.Channel("four", LAB, ChannelKind.EMAIL, b"sealed", "shown", NOW)
    with pytest.raises(alerts.TooManyChannelsError):
        paid.do(lambda c: alerts.add_channel(c, extra, 2))


def test_workspace_without_budgets_costs_no_statement(paid: Books) -> None:
    """Admission and end of a run execute the same statements as before there were budgets."""

    def tables(run_id: str) -> str:
        entries: list[list[Any]] = [
            [admission(run_id, key_id="key-1")],
            [settlement(run_id, booked=BookedRun(100, "key-1", "acme/one"))],
        ]
        return " ".join(sql for each in entries for sql, _ in trace(paid, partial(write_at, now=NOW, entries=each)))

    assert " budgets " not in f" {tables('a')} ".replace("workspaces.budgets", "").replace("\n", " ")
    give(paid, BudgetScope.WORKSPACE, 10**9)
    assert "budgets" in tables("b").replace("workspaces.budgets", "")


def test_budgets_are_found_by_their_targets(paid: Books) -> None:
    """No admission reads budgets of others, nor history."""
    give(paid, BudgetScope.WORKSPACE)
    plans = trace(paid, partial(write_at, entries=[admission("a", key_id="key-1")], now=NOW))
    (plan,) = [steps for sql, steps in plans if "FROM budgets" in sql.replace("\n", " ")]
    assert "uq_budgets_target_period" in plan or "Seq Scan on budgets" in plan  # PostgreSQL reads a page of few rows


_RUN = st.tuples(
    st.integers(1, 60),
    st.sampled_from(["key-1", "key-2", "key-3", None]),
    st.sampled_from(["acme/one", "acme/two"]),
    st.sampled_from([None, _LABELS, '{"client":"other"}']),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15)
@given(st.lists(_RUN, min_size=2, max_size=12), st.integers(0, 100))
def test_spending_never_passes_an_enforced_budget(
    database: Database, run: Run, asked: list[tuple[int, str | None, str, str | None]], share: int
) -> None:
    """Several servers admit and end runs at once: held and spent together never pass any budget, and the books agree.

    Each example is a workspace of its own, with budgets of every scope.
    """
    books = Books(database, run)
    lab = new_id()
    books.open(lab, balance=10**9)
    keys = {name: new_id() for name in ("key-1", "key-2", "key-3")}
    for name, id_ in keys.items():
        team = None if name == "key-3" else "studio"
        books.do(partial(workspaces.create_key, new=new_key(id_, workspace_id=lab, team=team)))
    for scope, limit in zip(BudgetScope, (150, 100, 70, 90, 60), strict=True):
        subject = keys["key-1"] if scope is BudgetScope.KEY else _SUBJECTS[scope]
        give(books, scope, limit, id=new_id(), workspace_id=lab, subject=subject)

    async def serve(hold: int, key: str | None, model: str, labels: str | None) -> None:
        run_id, key_id = new_id(), None if key is None else keys[key]
        entry = admission(run_id, hold, workspace_id=lab, key_id=key_id, model_id=model, labels=labels)
        written: Written = await database.write(partial(write_at, entries=[entry], now=NOW))
        assert all(row.held + row.spent <= row.budget.limit for row in await _all(database, lab))
        if written.verdicts[0] is None:
            booked = BookedRun(hold, key_id, model, labels=labels)
            end = settlement(run_id, hold * share // 100, workspace_id=lab, booked=booked)
            await database.write(partial(write_at, entries=[end], now=NOW))
            assert all(row.held + row.spent <= row.budget.limit for row in await _all(database, lab))

    async def serve_all() -> None:
        await asyncio.gather(*(serve(*one) for one in asked))

    run(serve_all())
    assert books.do(ledger.disagreements) == []


async def _all(database: Database, workspace_id: str) -> list[BudgetRecord]:
    return await database.read(lambda c: list_budgets(c, workspace_id, NOW, None, 10))


class TestAudit:
    """Books that are wrong on purpose."""

    @pytest.fixture
    def proven_books(self) -> None:
        """Take the folder's proof away."""

    @pytest.mark.req("R-29")
    @pytest.mark.parametrize("scope", BudgetScope)
    @pytest.mark.parametrize("figure", ["held", "spent"])
    def test_wrong_figure_of_a_budget_is_found_by_the_audit(self, paid: Books, scope: BudgetScope, figure: str) -> None:
        """What is held is proven by live runs, what is spent by the usage of the days."""
        give(paid, scope)
        ask(paid, "done", 30)
        paid.write(settlement("done", charge=30))
        ask(paid, "live", 20)
        assert paid.do(ledger.disagreements) == []
        paid.sql(f"UPDATE budgets SET {figure} = {figure} + 1")  # noqa: S608 -- one of two names
        (found,) = paid.do(ledger.disagreements)
        assert found["check"] == "what is held or spent of a budget differs from its runs"
