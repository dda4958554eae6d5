"""Queued runs that wait for their partner: while it fails, while it cools down, and no longer than they may (T-01)."""

from collections.abc import Callable

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import ProviderError
from fairlead.domain.runs.queue import QueueStatus
from fairlead.observing.observations import RunClaimed, RunPostponed
from operations.queueing import HOUR_MS, claim, enqueue
from operations.servers import CENT, DOLLAR, Partner, Server
from storage.bookings import Books
from storage.queued_runs import run_id

pytestmark = pytest.mark.req("T-01")

FIRST = run_id()
MODEL = "acme/plain-now"


def pass_time(server: Server, seconds: float) -> None:
    """Let time pass."""
    server.now_ns += round(seconds * 1e9)


def states(books: Books) -> list[str]:
    """The states of the runs, in the order of the queue."""
    return [row["state"] for row in books.rows("SELECT state FROM runs WHERE place > 0 ORDER BY place")]


def cool_down(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """Have the partner cool down for a workspace, and then work again."""
    partner.statuses["/now"] = 503
    for number in range(5):
        run(server.answer(caller, run_id=f"call-{number}"))
    partner.statuses["/now"] = 200


def test_run_whose_partner_fails_waits_and_is_tried_again(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A partner's 500 sends the run back into its queue; when it is tried again it succeeds, charged once."""
    partner.statuses["/now"] = 500
    run(enqueue(server, caller))
    assert run(claim(server, caller))
    assert books.state(FIRST)["state"] == "parked"
    assert books.figures(caller.workspace_id) == (DOLLAR, 10 * CENT, 0)
    told = run(server.collector.status(caller, MODEL, FIRST))
    assert (told.status, told.position, told.error_type, told.waits_for) == (QueueStatus.IN_QUEUE, 0, None, "plain")
    assert 7 < told.retry_after <= 15
    run(server.use_room())
    assert books.state(FIRST)["state"] == "parked"  # its time has not come

    partner.statuses["/now"] = 200
    pass_time(server, 15)
    run(server.use_room())
    assert run(server.collector.status(caller, MODEL, FIRST)).waits_for is None
    assert run(claim(server, caller))
    row = books.state(FIRST)
    assert (row["state"], row["attempt"], row["postponed"], row["tries"]) == ("succeeded", 2, 1, 1)
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)
    (event,) = books.rows("SELECT detail FROM run_events WHERE kind = 'postponed'")
    assert event["detail"].startswith("plain: answered 500; it is tried again after ")
    assert (len(server.observations_of(RunPostponed)), len(server.observations_of(RunClaimed))) == (1, 1)


def test_tries_of_a_run_are_bounded(server: Server, caller: Caller, partner: Partner, books: Books, run: Run) -> None:
    """After the tries of its provider's file the last failure is the run's, and its hold is free."""
    partner.statuses["/now"] = 500
    pauses = []
    run(enqueue(server, caller))
    for _ in range(server.providers["plain"].postpone.times):
        assert run(claim(server, caller))
        pauses.append(server.observations_of(RunPostponed)[-1].seconds)
        pass_time(server, 300)
        run(server.use_room())
    assert run(claim(server, caller))
    assert (books.state(FIRST)["state"], books.state(FIRST)["reason"]) == ("failed", "provider_error")
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)
    for pause, most in zip(pauses, (15, 30, 60, 120, 240, 300, 300, 300), strict=True):
        assert most / 2 <= pause <= most


def test_cooling_partner_holds_back_all_its_runs_of_the_workspace(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, books: Books, run: Run
) -> None:
    """One run finds that the partner cools down: the others at it wait with it, and those at another go on."""
    caller = new_caller(balance=10 * DOLLAR, in_flight_limit=1)
    cool_down(server, caller, partner, run)
    for number in (1, 2, 3):
        run(enqueue(server, caller, number=number))
    run(enqueue(server, caller, "careful-now", number=4))
    assert states(books) == ["released", "parked", "parked", "parked"]
    assert run(claim(server, caller, 1))
    assert states(books) == ["parked", "parked", "parked", "released"]
    calls = len(partner.calls)
    assert run(claim(server, caller, 4))
    run(server.use_room())
    assert states(books) == ["parked", "parked", "parked", "succeeded"]
    assert len(partner.calls) == calls + 1
    assert books.state(FIRST)["tries"] == 0


def test_cancelled_run_does_not_wait(server: Server, caller: Caller, partner: Partner, books: Books, run: Run) -> None:
    """A run that is cancelled while its partner fails ends with that failure."""

    async def cancel() -> None:
        await server.canceller.cancel(caller, MODEL, FIRST)

    partner.statuses["/now"], partner.before = 500, cancel
    run(enqueue(server, caller))
    assert run(claim(server, caller))
    assert books.state(FIRST)["state"] == "failed"
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)


def test_run_that_waits_can_be_cancelled(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A run that waits for its partner is cancelled like any that waits."""
    partner.statuses["/now"] = 500
    run(enqueue(server, caller))
    assert run(claim(server, caller))
    assert run(server.canceller.cancel(caller, MODEL, FIRST))
    assert (books.state(FIRST)["state"], books.state(FIRST)["reason"]) == ("failed", "cancelled")
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)


def test_work_that_may_have_been_taken_is_not_tried_again(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A connection that breaks off leaves in doubt whether the partner works: the run ends."""
    partner.answers["/now"] = None
    run(enqueue(server, caller))
    assert run(claim(server, caller))
    assert books.state(FIRST)["state"] == "failed"


def test_run_waits_no_longer_than_its_queue_allows(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """A run whose time in the queue would be over before the next try ends with its failure."""
    partner.statuses["/now"] = 500
    run(enqueue(server, caller))
    pass_time(server, 24 * HOUR_MS / 1000 - 5)
    assert run(claim(server, caller))
    answer = run(server.collector.collect(caller, MODEL, FIRST))
    assert isinstance(answer.outcome.fault, ProviderError)


@pytest.mark.parametrize("seconds", [3, 120])
def test_backlog_outlasts_an_outage(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, books: Books, run: Run, seconds: float
) -> None:
    """Forty queued runs of a workspace with two slots, and a partner that fails for a while: all of them succeed."""
    caller = new_caller(balance=100 * DOLLAR, in_flight_limit=2)
    for number in range(1, 41):
        run(enqueue(server, caller, number=number))
    partner.statuses["/now"] = 500
    began = server.now_ns

    async def work() -> None:
        for one in await server.queue.find_released():
            execution = await server.queue.claim(one.id, one.workspace_id)
            if execution is not None:
                await execution.task
        pass_time(server, 0.5)
        await server.use_room()

    while (server.now_ns - began) / 1e9 < 3600 and set(states(books)) != {"succeeded"}:
        if (server.now_ns - began) / 1e9 >= seconds:
            partner.statuses["/now"] = 200
        run(work())
    assert states(books) == ["succeeded"] * 40
    assert books.figures(caller.workspace_id) == (100 * DOLLAR - 40 * 10 * CENT, 0, 0)
    assert partner.calls.count("POST /now") < 40 + 2 * seconds
