"""Runs whose server has lost sight of them, or of itself: each of these was found by a history of tests/simulation."""

import asyncio
from collections.abc import Callable

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import InvalidInput, ProviderError, ServiceUnavailable
from fairlead.domain.runs.outcomes import Failed, Reached
from fairlead.domain.runs.retries import may_be_waited_for
from fairlead.domain.work.entries import TakeOver
from operations.queueing import enqueue
from operations.servers import CENT, Partner, Server
from storage.bookings import Books
from storage.queued_runs import run_id
from waiting import until

Start = Callable[[str], Server]
_MINUTE_NS = 61 * 10**9


@pytest.mark.req("R-29")
def test_takeover_whose_answer_was_lost_is_taken_over_again(
    server: Server, start_server: Start, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """Its partner may be at work: such a run is let go and taken over again, not voided as if it had never begun."""
    run(server.admit(caller, "careful-now", {"n": 3}))
    successor = start_server("server-2")
    successor.database.lost_answers = 1
    assert run(successor.queue.take_over()) == 0
    assert (books.state()["server_id"], books.state()["attempt"]) == ("server-2", 2)
    successor.now_ns += _MINUTE_NS
    assert run(successor.queue.end_strays()) == 1
    assert run(successor.queue.take_over()) == 1
    run(successor.executor.drain(5))
    row = books.state()
    assert (row["state"], row["attempt"], row["charge"]) == ("succeeded", 3, 10 * CENT)
    assert partner.keys == ["run-1"]


@pytest.mark.req("R-29")
def test_run_is_not_voided_while_its_claim_is_written(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A claim is written however long that takes; the run may be old in the books when it begins."""
    run(enqueue(server, caller))

    async def claim() -> None:
        server.database.lost_answers = 1
        claiming = asyncio.create_task(server.queue.claim(run_id(), caller.workspace_id))
        await until(lambda: server.database.lost_answers == 0)
        server.now_ns += _MINUTE_NS
        assert await server.queue.end_strays() == 0
        execution = await claiming
        assert execution is not None
        await execution.task

    run(claim())
    assert (books.state(run_id())["state"], partner.calls) == ("succeeded", ["POST /now"])


def test_run_that_was_won_back_is_forgotten_after_its_last_execution(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A server that lost a run and won it back knows it until the later of its two executions has ended."""
    gates = [asyncio.Event(), asyncio.Event()]
    waiting = iter(gates)

    async def hold() -> None:
        await next(waiting).wait()

    partner.before = hold

    async def lose_and_win_back() -> None:
        first = server.executor.start(await server.admit(caller, "careful-now"))
        await until(lambda: len(partner.calls) == 1)
        await server.journal.write(TakeOver("run-1", caller.workspace_id, 1, "server-2", 0))
        assert await server.queue.take_over() == 1
        await until(lambda: len(partner.calls) == 2)
        gates[0].set()
        await first.task
        assert server.executor.run_ids() == {"run-1"}
        gates[1].set()
        await server.executor.drain(5)

    run(lose_and_win_back())
    assert (books.state()["state"], books.state()["attempt"]) == ("succeeded", 3)
    assert server.executor.run_ids() == set()


@pytest.mark.req("R-29")
@pytest.mark.parametrize("status", [429, 503])
def test_takeover_asks_an_overloaded_partner_again(
    server: Server, start_server: Start, caller: Caller, partner: Partner, books: Books, run: Run, status: int
) -> None:
    """The partner may hold the result already: one that is out of breath is asked again under the same key."""
    run(server.admit(caller, "careful-now", {"n": 3}))
    successor = start_server("server-2")
    partner.statuses["/now"] = status

    async def take_breath() -> None:
        if len(partner.calls) > 1:
            partner.statuses.clear()

    partner.before = take_breath
    assert run(successor.queue.take_over()) == 1
    run(successor.executor.drain(5))
    assert (books.state()["state"], books.state()["charge"]) == ("succeeded", 10 * CENT)
    assert partner.keys == ["run-1"] * 2


@pytest.mark.req("R-29")
@pytest.mark.parametrize(
    ("failed", "is_worth_it"),
    [
        (Failed(ProviderError(), None, Reached.NOTHING), True),
        (Failed(ProviderError(), None, Reached.UNKNOWN), True),
        (Failed(ProviderError(), 500, Reached.REFUSED), True),
        (Failed(ServiceUnavailable("It rests.", 20), None, Reached.NOTHING), True),
        (Failed(ServiceUnavailable("There is no credential."), None, Reached.NOTHING), False),
        (Failed(InvalidInput("No."), 400, Reached.REFUSED), False),
        (Failed(ProviderError(), 500, Reached.ACCEPTED), False),
    ],
)
def test_takeover_waits_only_for_what_may_pass(failed: Failed, *, is_worth_it: bool) -> None:
    """It waits for a connection, for room and for the end of a rest, and for nothing that a partner or we have said."""
    assert may_be_waited_for(failed, repeats_safely=True) is is_worth_it
