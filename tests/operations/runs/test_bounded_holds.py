"""Runs whose holds an operator bounds by their typical price (FAIRLEAD_HOLD_TYPICAL_TIMES, D-28)."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, InsufficientCredits
from fairlead.domain.runs.entries import Acceptance, TopUp
from fairlead.observing.observations import PartnerReportedMore
from fairlead.operations.ledger.statements import statement
from fairlead.operations.runs import dispatch
from fairlead.operations.runs.inspect import timeline_of
from operations.queueing import claim, enqueue
from operations.servers import CENT, DOLLAR, DONE, Guarded, Partner, Server, model_text
from storage.bookings import Books

Start = Callable[..., Server]
BUSY: Final = {"status": "running"}


@pytest.fixture
def folder(folder: Path) -> Path:
    """Return the models, and two whose runs are held for 400 pictures at most, of which two are usual.

    The partner of one says in its answer how many there were, that of the other before.
    """
    for call, measured in (("now", 'answer = "/used"'), ("telling", 'told = "cost"')):
        text = model_text(f"open-{call}", "plain", call).replace('at_most = "4"', 'at_most = "400"\ntypical = "2"')
        text = text.replace('product = ["/n"] ', 'product = ["/limit"], bound = true ')
        (folder / f"open-{call}.toml").write_text(text.replace('answer = "/used"', measured))
    return folder


@pytest.fixture
def rich(new_caller: Callable[..., Caller]) -> Caller:
    """Return a caller whose prepaid workspace has a hundred dollars."""
    return new_caller(balance=100 * DOLLAR)


@pytest.fixture
def bounding(start_server: Start) -> Server:
    """Return a server on which a hold is at most three times the typical price."""
    return start_server("server-1", {}, Decimal(3))


@pytest.mark.parametrize(
    ("body", "hold"), [({}, 60), ({"limit": 4}, 40), ({"limit": 1}, 10)], ids=["open", "limited", "below the usual"]
)
def test_run_is_held_for_a_multiple_of_its_typical_price(
    bounding: Server, caller: Caller, books: Books, run: Run, body: Mapping[str, Any], hold: int
) -> None:
    """And for no more than its body permits; what it is charged is measured as ever."""
    answer = run(bounding.answer(caller, "open-now", body))
    assert (books.state()["hold"], answer.charge) == (hold * CENT, 10 * CENT)


def test_without_the_setting_a_run_is_held_for_the_most(server: Server, caller: Caller, run: Run) -> None:
    """Four hundred pictures, which a dollar does not pay."""
    with pytest.raises(FaultError) as refused:
        run(server.answer(caller, "open-now", {}))
    assert refused.value.fault == InsufficientCredits(available=DOLLAR, needed=40 * DOLLAR)


def raises(books: Books) -> list[int]:
    """Return by how many cents the holds of runs were raised, in order."""
    return [held // CENT for kind, _, held in books.entries() if kind == "raise"]


@pytest.mark.req("X-02")
@pytest.mark.parametrize(
    ("submit", "polls", "raised", "charge"),
    [
        ({"cost": 20}, [DONE], [140], 200),
        ({"cost": 3}, [DONE], [], 30),
        ({}, [{**BUSY, "cost": 9}, BUSY, {**BUSY, "cost": 15}, DONE], [30, 60], 150),
        ({"cost": 20}, [{**BUSY, "cost": 15}, DONE], [140], 150),
        ({}, [{**DONE, "cost": 20}], [140], 200),
        ({"cost": 999}, [DONE], [3940], 4000),
    ],
    ids=["with the submit", "within the hold", "in between", "less than it said", "with its end", "beyond the most"],
)
def test_hold_is_raised_to_what_the_partner_tells(
    bounding: Server,
    rich: Caller,
    partner: Partner,
    books: Books,
    run: Run,
    submit: Mapping[str, Any],
    polls: list[Mapping[str, Any]],
    raised: list[int],
    charge: int,
) -> None:
    """Up to the most that the body permits, so the charge is as without a bound."""
    partner.answers |= {"/later": {"id": "task-7", **submit}, "/later/task-7": polls}
    answer = run(bounding.answer(rich, "open-telling", {}))
    assert (raises(books), answer.charge) == (raised, charge * CENT)
    assert books.state()["hold"] == (60 + sum(raised)) * CENT
    assert books.figures(rich.workspace_id) == (100 * DOLLAR - charge * CENT, 0, 0)


@pytest.mark.req("X-02")
def test_hold_is_raised_when_the_answer_says_more(
    bounding: Server, rich: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """Before the end of the run is booked; its statement has one provider with the hold it had at last."""
    partner.answers["/now"] = {**DONE, "used": 20}
    assert run(bounding.answer(rich, "open-now", {})).charge == 200 * CENT
    assert (raises(books), bounding.observations_of(PartnerReportedMore)) == ([140], [])
    found = run(statement(bounding.database, "run-1"))
    assert [(leg["provider"], leg["hold"]) for leg in found.legs] == [("plain", 200 * CENT)]
    assert found.run["most"] == 40 * DOLLAR
    told = [one.detail for one in timeline_of(found) if one.kind == "hold raised"]
    assert told == ["the provider tells that more is due than is held; the hold changes by 1.4 US dollars"]


@pytest.mark.req("X-02")
@pytest.mark.parametrize("model", ["open-now", "open-telling"])
def test_raise_that_is_refused_leaves_the_rest_to_the_operator(
    bounding: Server, caller: Caller, partner: Partner, books: Books, run: Run, model: str
) -> None:
    """The run goes on and costs its hold; the rest is told as where a partner reports more than a card permits."""
    partner.answers |= {"/now": {**DONE, "used": 20}, "/later": {"id": "task-7", "cost": 20}}
    answer = run(bounding.answer(caller, model, {}))
    assert answer.charge == 60 * CENT == books.state()["charge"]
    seen = PartnerReportedMore("run-1", f"acme/{model}", "plain", 60 * CENT, 200 * CENT)
    assert bounding.observations_of(PartnerReportedMore) == [seen]
    refused, *_ = [one for one in run(statement(bounding.database, "run-1")).events if one["kind"] == "hold not raised"]
    assert refused["detail"] == "2 dollars are due, 0.6 held: insufficient_credits"


@pytest.mark.req("X-02")
@pytest.mark.parametrize("is_raised", [True, False])
def test_run_that_is_taken_over_has_its_hold_raised_once(
    bounding: Server,
    rich: Caller,
    start_server: Start,
    partner: Partner,
    books: Books,
    run: Run,
    *,
    is_raised: bool,
) -> None:
    """Killed before the raise or between it and the end: the next server has the ledger's hold and what was told."""
    run(bounding.admit(rich, "open-telling", {}))
    books.write(Acceptance("run-1", 1, '{"id":"task-7","cost":"20"}'))
    if is_raised:
        books.write(TopUp("run-1", rich.workspace_id, 1, 200 * CENT, bounding.clock.now_ms()))
    successor = start_server("server-2", {}, Decimal(3))
    run(successor.queue.take_over())
    run(successor.executor.drain(5))
    assert (books.state()["charge"], raises(books)) == (200 * CENT, [140])
    assert partner.calls == ["GET /later/task-7"]


def test_hold_of_a_queued_run_is_raised(
    bounding: Server, rich: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A run that waited for its turn is held for and raised as any other."""
    partner.answers["/later"] = {"id": "task-7", "cost": 20}
    run(enqueue(bounding, rich, "open-telling"))
    assert run(claim(bounding, rich))
    assert (raises(books), books.figures(rich.workspace_id)) == ([140], (98 * DOLLAR, 0, 0))


def test_raise_whose_commit_is_not_confirmed_is_booked_once(
    bounding: Server, rich: Caller, partner: Partner, guarded: Guarded, books: Books, run: Run
) -> None:
    """A database that goes away after the commit is asked again, and has the raise."""
    partner.answers["/now"] = {**DONE, "used": 20}

    async def lose_the_next_answer() -> None:
        guarded.lost_answers = 1

    partner.before = lose_the_next_answer
    assert run(bounding.answer(rich, "open-now", {})).charge == 200 * CENT
    assert (raises(books), guarded.lost_answers) == ([140], 0)


def test_work_is_polled_while_its_raise_cannot_be_written(
    bounding: Server,
    rich: Caller,
    partner: Partner,
    guarded: Guarded,
    books: Books,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A database that is away holds up no poll for long, and the raise is made up for before the run ends."""
    monkeypatch.setattr(dispatch, "_TOP_UP_SECONDS", 0.02)
    partner.answers["/later/task-7"] = [{**BUSY, "cost": 20}, DONE]

    async def refuse_writes_once_it_is_polled() -> None:
        if partner.calls == ["POST /later", "GET /later/task-7"]:
            guarded.refused_writes = 2

    partner.before = refuse_writes_once_it_is_polled
    assert run(bounding.answer(rich, "open-telling", {})).charge == 200 * CENT
    assert (raises(books), len(partner.calls), guarded.refused_writes) == ([140], 3, 0)
