"""Cancelling queued runs without an API: whose they are, whom the request reaches, what is written of it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import Cancelled, RequestNotFound, ServiceUnavailable
from fairlead.domain.runs.outcomes import Completed
from fairlead.domain.runs.replays import read_fault
from fairlead.observing.observations import DatabaseTrouble, RunWithdrawn
from operations.queueing import claim, enqueue, gate_of, make_run
from operations.runs.test_collect import refusal_of
from operations.servers import CENT, DOLLAR, WEEK_MS, Partner, Server, leg_text, model_text
from storage.bookings import Books
from storage.queued_runs import run_id
from waiting import until

pytestmark = pytest.mark.req("R-35")

Start = Callable[..., Server]
MODEL = "acme/plain-now"
FIRST = run_id()


@pytest.mark.req("R-29")
@pytest.mark.parametrize("state", ["released", "parked"])
def test_cancelled_waiting_run_is_never_dispatched(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, books: Books, run: Run, state: str
) -> None:
    """A waiting run ends at once and unbilled, with or without a slot; the next run gets its slot."""
    caller = new_caller(in_flight_limit=1)
    ids = [run(enqueue(server, caller, number=number)).run_id for number in (1, 2, 3)]
    unwanted = ids[0] if state == "released" else ids[1]
    assert books.state(unwanted)["state"] == state
    assert run(server.canceller.cancel(caller, MODEL, unwanted))
    assert server.observations_of(RunWithdrawn) == [RunWithdrawn(unwanted, "cancelled")]
    row = books.state(unwanted)
    assert (row["state"], row["charge"], row["reason"], row["attempt"]) == ("failed", 0, "cancelled", 0)
    assert books.figures(caller.workspace_id) == (DOLLAR, 20 * CENT, 1)
    assert {books.state(id_)["state"] for id_ in ids if id_ != unwanted} == {"released", "parked"}
    (kept,) = books.rows(
        "SELECT result_fault AS fault, result_expires_at AS expires_at FROM runs WHERE result_expires_at IS NOT NULL"
    )
    assert read_fault(bytes(kept["fault"])) == Cancelled()
    assert kept["expires_at"] == row["finished_at"] + WEEK_MS
    assert not run(server.canceller.cancel(caller, MODEL, unwanted))
    assert partner.calls == []


def test_cancelling_a_run_under_way_notes_a_request(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """For a run in progress the first request is noted with its time; the run ends as the partner says."""
    run(enqueue(server, caller))
    gate = gate_of(partner)
    execution = run(server.queue.claim(FIRST, caller.workspace_id))
    assert execution is not None
    run(until(lambda: partner.calls == ["POST /now"]))
    for _ in range(2):
        assert run(server.canceller.cancel(caller, MODEL, FIRST))
        server.now_ns += 1_000_000_000
    assert execution.cancellation.is_requested
    noted = books.state(FIRST)["cancel_requested_at"]
    assert noted == server.clock.now_ms() - 2000
    events = books.rows("SELECT kind FROM run_events WHERE run_id = :id ORDER BY id", id=FIRST)
    assert {row["kind"] for row in events} == {"cancel requested"}
    gate.set()
    run(until(execution.task.done))
    assert (books.state(FIRST)["state"], books.state(FIRST)["charge"]) == ("succeeded", 10 * CENT)
    assert not run(server.canceller.cancel(caller, MODEL, FIRST))
    assert server.observations_of(RunWithdrawn) == []


def test_call_that_is_free_without_its_connection_is_left(
    server: Server, caller: Caller, partner: Partner, folder: Path, books: Books, run: Run
) -> None:
    """The run ends as cancelled while the partner still works, costs nothing, and the next one is served."""
    (folder / "plain-now.toml").write_text(model_text("plain-now", "plain", "free", more=leg_text("spare")))
    server.catalog.reload()
    run(enqueue(server, caller))
    gate = gate_of(partner)
    execution = run(server.queue.claim(FIRST, caller.workspace_id))
    assert execution is not None
    run(until(lambda: partner.calls == ["POST /now"]))
    assert run(server.canceller.cancel(caller, MODEL, FIRST))
    run(until(execution.task.done))
    row = books.state(FIRST)
    assert (row["state"], row["reason"], row["charge"]) == ("failed", "cancelled", 0)
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)
    gate.set()
    assert isinstance(run(server.answer(caller, "plain-now")).outcome, Completed)
    assert partner.calls == ["POST /now", "POST /now"]


def test_server_that_stops_leaves_such_a_call_to_the_next(
    server: Server, caller: Caller, partner: Partner, folder: Path, books: Books, run: Run
) -> None:
    """Nobody has cancelled it: the run is not ended, and is taken over."""
    (folder / "plain-now.toml").write_text(model_text("plain-now", "plain", "free"))
    server.catalog.reload()
    run(enqueue(server, caller))
    gate = gate_of(partner)
    execution = run(server.queue.claim(FIRST, caller.workspace_id))
    assert execution is not None
    run(until(lambda: partner.calls == ["POST /now"]))
    run(server.executor.drain(0))
    run(until(execution.task.done))
    assert execution.task.cancelled()
    assert books.state(FIRST)["state"] == "dispatched"
    gate.set()


def test_cancel_request_reaches_the_server_that_works_on_the_run(
    start_server: Start, server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """The server that works on a run reads in the database that it is not wanted, and no other's runs."""
    run(enqueue(server, caller))
    gate = gate_of(partner)
    execution = run(server.queue.claim(FIRST, caller.workspace_id))
    assert execution is not None
    run(until(lambda: partner.calls == ["POST /now"]))
    other = start_server("server-2")
    assert run(other.canceller.cancel(caller, MODEL, FIRST))
    assert not execution.cancellation.is_requested
    run(other.pass_on_cancels())
    assert not execution.cancellation.is_requested
    run(server.pass_on_cancels())
    assert execution.cancellation.is_requested
    gate.set()
    run(until(execution.task.done))


def test_cancel_is_unavailable_while_the_database_is(server: Server, caller: Caller, books: Books, run: Run) -> None:
    """Where the request cannot be written the caller is told, and the run waits on."""
    run(enqueue(server, caller))
    server.database.refused_writes = 1
    asked = server.canceller.cancel(caller, MODEL, FIRST)
    assert isinstance(refusal_of(run, asked), ServiceUnavailable)
    assert [trouble.doing for trouble in server.observations_of(DatabaseTrouble)] == ["cancel"]
    assert books.state(FIRST)["state"] == "released"


@pytest.mark.req("R-29")
def test_cancellation_and_claim_never_both_win(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """When both come at once the first decides: the run is dispatched and the request noted, or it is withdrawn."""

    async def both(number: int) -> tuple[bool, bool]:
        id_ = run_id(number)
        cancelling = server.canceller.cancel(caller, MODEL, id_)
        claiming = claim(server, caller, number)
        first, second = (cancelling, claiming) if number % 2 else (claiming, cancelling)
        one, two = await asyncio.gather(first, second)
        return (one, two) if number % 2 else (two, one)

    for number in range(1, 9):
        run(enqueue(server, caller, number=number))
        is_requested, is_claimed = run(both(number))
        row = books.state(run_id(number))
        assert (row["state"] == "succeeded") == is_claimed
        assert is_requested or is_claimed
        if not is_claimed:
            assert (row["reason"], row["charge"]) == ("cancelled", 0)
    assert len(partner.calls) == sum(row["state"] == "succeeded" for row in books.rows("SELECT state FROM runs"))


def test_stranger_cannot_cancel(server: Server, new_caller: Callable[..., Caller], books: Books, run: Run) -> None:
    """Another workspace, and another model's address, find nothing to cancel."""
    caller, stranger = new_caller(), new_caller(name="office")
    run(enqueue(server, caller))
    cancel = server.canceller.cancel
    asked = (cancel(stranger, MODEL, FIRST), cancel(caller, "acme/plain-later", FIRST), cancel(caller, MODEL, "x"))
    assert [refusal_of(run, one) for one in asked] == [RequestNotFound()] * 3
    assert books.state(FIRST)["state"] == "released"


def test_cancelling_an_ended_run_changes_nothing(server: Server, caller: Caller, books: Books, run: Run) -> None:
    """What has ended keeps its result and its end."""
    run(make_run(server, caller))
    before = books.state(FIRST)
    assert not run(server.canceller.cancel(caller, MODEL, FIRST))
    assert books.state(FIRST) == before
