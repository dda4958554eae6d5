"""Execution: the partner is asked, the books are closed once, and only then is anybody answered."""

import asyncio
import dataclasses
from collections.abc import Callable

import msgspec
import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.catalog.models import Catalog
from fairlead.domain.faults import (
    ContentPolicyViolation,
    DeadlineExceeded,
    FaultError,
    InternalError,
    ProviderError,
    Upstream,
)
from fairlead.domain.runs.outcomes import Completed, Failed, Reached
from fairlead.domain.work.entries import TakeOver
from fairlead.observing.observations import (
    DatabaseTrouble,
    DeadlinePassed,
    RunEnded,
    RunSuperseded,
    UnexpectedError,
)
from fairlead.operations.runs.results import Answer
from operations.servers import CENT, DOLLAR, DONE, Partner, Server
from storage.bookings import Books
from waiting import until


@pytest.mark.req("R-28", "R-29")
def test_generation_is_charged_what_the_partner_reports(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """Held for what was asked, charged for what the partner reports, once."""
    answer = run(server.answer(caller, body={"n": 3}))
    assert isinstance(answer.outcome, Completed)
    assert answer.charge == 10 * CENT
    assert partner.calls == ["POST /now"]
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)
    assert books.entries()[1:] == [("hold", 0, 30 * CENT), ("post", -10 * CENT, -30 * CENT)]
    (ended,) = server.observations_of(RunEnded)
    assert (ended.result, ended.charge, ended.upstream_status) == ("success", 10 * CENT, 200)


@pytest.mark.req("R-27")
@pytest.mark.parametrize(("policy", "charged"), [("yes", 30 * CENT), ("no", 0), ("unknown", 0)])
def test_refusal_is_billed_by_the_rule_of_the_catalog(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, policy: str, charged: int
) -> None:
    """What a refusal on content grounds costs is what the model's catalog entry says: its hold, or nothing."""
    models = server.catalog.current.models
    model = dataclasses.replace(models["acme/plain-now"], charges_on_policy_rejection=policy)
    server.catalog.current = Catalog("refusing", {**models, model.id: model})
    partner.statuses["/now"] = 451
    answer = run(server.answer(caller, body={"n": 3}))
    assert answer.outcome == Failed(ContentPolicyViolation(None, Upstream(451)), 451, Reached.REFUSED)
    assert answer.charge == charged
    assert books.figures(caller.workspace_id) == (DOLLAR - charged, 0, 0)
    assert (books.state()["state"], books.state()["reason"]) == ("failed", "content_policy_violation")


def test_submitted_work_is_answered_when_it_is_done(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """The handle is durable before the first poll, and the run ends with the work."""
    partner.answers["/later/task-7"] = [{"status": "running"}, DONE]
    handles: list[str] = []

    async def look() -> None:
        if partner.calls[-1].startswith("GET"):
            handles.append(await server.database.read(lambda c: c.exec_driver_sql("SELECT handle FROM runs").scalar()))

    partner.before = look
    answer = run(server.answer(caller, "plain-later"))
    assert isinstance(answer.outcome, Completed)
    assert partner.calls == ["POST /later", "GET /later/task-7", "GET /later/task-7"]
    assert handles == ["task-7", "task-7"]
    assert books.state()["state"] == "succeeded"


@pytest.mark.req("R-29")
def test_failure_is_not_charged(server: Server, caller: Caller, partner: Partner, books: Books, run: Run) -> None:
    """What the partner failed at costs nothing."""
    partner.statuses["/now"] = 500
    answer = run(server.answer(caller))
    assert isinstance(answer.outcome, Failed)
    assert isinstance(answer.outcome.fault, ProviderError)
    assert answer.charge == 0
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)
    assert (books.state()["reason"], books.state()["upstream_status"]) == ("provider_error", 500)


def test_bug_voids_the_hold(server: Server, caller: Caller, books: Books, run: Run) -> None:
    """An unexpected error voids the run, tells the caller nothing and is observed."""

    async def admit_and_break() -> object:
        admitted = await server.admit(caller)
        broken = msgspec.structs.replace(admitted.plan, call="no call of this partner")
        execution = server.executor.start(msgspec.structs.replace(admitted, plan=broken))
        return (await server.executor.answer_in_time(execution, 5)).outcome

    assert run(admit_and_break()) == Failed(InternalError())
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)
    assert books.state()["reason"] == "internal_error"
    assert len(server.observations_of(UnexpectedError)) == 1


@pytest.mark.req("R-29")
def test_settlement_is_booked_once_when_the_database_is_back(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """The answer waits until the books are closed, which happens once."""

    async def go_away() -> None:
        server.database.refusals = 2

    partner.before = go_away
    answer = run(server.answer(caller))
    assert isinstance(answer.outcome, Completed)
    assert (server.database.refused, partner.calls) == (2, ["POST /now"])
    assert [entry[0] for entry in books.entries()] == ["credit", "hold", "post"]
    assert [trouble.doing for trouble in server.observations_of(DatabaseTrouble)] == ["Settlement", "Settlement"]


@pytest.mark.req("R-24", "R-29")
def test_run_outlives_the_deadline_of_its_caller(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """Past the deadline the caller is told so; the run goes on and is billed."""

    async def miss_the_deadline() -> None:
        release = asyncio.Event()

        async def wait() -> None:
            await release.wait()

        partner.before = wait
        with pytest.raises(FaultError) as caught:
            await server.answer(caller, seconds=0.05)
        assert caught.value.fault == DeadlineExceeded(0.05)
        assert server.executor.under_way == 1
        release.set()
        await until(lambda: server.executor.under_way == 0)

    run(miss_the_deadline())
    assert (books.state()["state"], books.state()["charge"]) == ("succeeded", 10 * CENT)
    assert len(server.observations_of(DeadlinePassed)) == 1


@pytest.mark.req("R-25", "R-29")
def test_caller_that_left_is_billed(server: Server, caller: Caller, books: Books, run: Run) -> None:
    """A generation that completed is billed, and that nobody received it is recorded."""

    async def leave() -> None:
        execution = server.executor.start(await server.admit(caller), has_left=lambda: True)
        await server.executor.answer_in_time(execution, 5)

    run(leave())
    row = books.state()
    assert (bool(row["caller_left"]), row["state"], row["charge"]) == (True, "succeeded", 10 * CENT)
    assert server.observations_of(RunEnded)[0].caller_left


@pytest.fixture
def disowned(server: Server, caller: Caller, partner: Partner) -> Callable[[int], None]:
    """Return a function that has the run taken over while its partner works, which answers with a status then."""

    def disown(status: int) -> None:
        async def take_over() -> None:
            partner.before = None
            await server.journal.write(TakeOver("run-1", caller.workspace_id, 1, "server-2", 0))
            partner.statuses["/now"] = status

        partner.before = take_over

    return disown


@pytest.mark.req("M-02")
def test_result_reaches_its_caller_though_the_run_was_taken_over(
    server: Server, caller: Caller, disowned: Callable[[int], None], books: Books, run: Run
) -> None:
    """A partner that answers the server which lost its lease has been paid for: the run is settled by that answer."""
    disowned(200)
    answer = run(server.answer(caller))
    assert isinstance(answer.outcome, Completed)
    assert server.observations_of(RunSuperseded) == []
    assert (books.state()["state"], books.state()["charge"]) == ("succeeded", 10 * CENT)


@pytest.mark.req("M-02")
def test_caller_of_a_superseded_call_is_answered_by_its_new_owner(
    server: Server,
    start_server: Callable[[str], Server],
    caller: Caller,
    partner: Partner,
    disowned: Callable[[int], None],
    books: Books,
    run: Run,
) -> None:
    """A caller without a key waits at the old server, and has the result for which the new one was charged."""
    disowned(500)
    successor = start_server("server-3")

    async def answer_call() -> Answer:
        waiting = asyncio.get_running_loop().create_task(server.answer(caller, "careful-now"))
        await until(lambda: server.observations_of(RunSuperseded))
        partner.statuses["/now"] = 200
        assert await successor.queue.take_over() == 1
        return await waiting

    answer = run(answer_call())
    assert isinstance(answer.outcome, Completed)
    assert (answer.charge, answer.is_replay) == (10 * CENT, False)
    assert (books.state()["state"], books.state()["attempt"]) == ("succeeded", 3)
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)


@pytest.mark.req("M-02", "R-24")
def test_caller_of_a_superseded_call_waits_until_its_deadline(
    server: Server, caller: Caller, disowned: Callable[[int], None], run: Run
) -> None:
    """While nobody has ended the run, the old server's caller is told that it goes on."""
    disowned(500)
    with pytest.raises(FaultError) as told:
        run(server.answer(caller, seconds=0.3))
    assert isinstance(told.value.fault, DeadlineExceeded)


@pytest.mark.req("M-02")
def test_caller_of_a_superseded_call_is_told_that_its_run_is_lost(
    server: Server, start_server: Callable[[str], Server], caller: Caller, disowned: Callable[[int], None], run: Run
) -> None:
    """A partner that honours no keys is not asked again: nothing is charged, and it is no error of ours."""
    disowned(500)
    successor = start_server("server-3")

    async def answer_call() -> Answer:
        waiting = asyncio.get_running_loop().create_task(server.answer(caller, "plain-now"))
        await until(lambda: server.observations_of(RunSuperseded))
        assert await successor.queue.take_over() == 1
        return await waiting

    answer = run(answer_call())
    assert isinstance(answer.outcome, Failed)
    assert isinstance(answer.outcome.fault, ProviderError)


def test_draining_waits_for_runs_under_way(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """Draining waits for runs under way; those that take too long stay live in the books."""

    async def drain_in_time() -> None:
        server.executor.start(await server.admit(caller))
        await server.executor.drain(5)

    async def drain_too_early() -> None:
        release = asyncio.Event()

        async def wait() -> None:
            await release.wait()

        partner.before = wait
        execution = server.executor.start(await server.admit(caller, run_id="run-2"))
        await until(lambda: len(partner.calls) == 2)
        await server.executor.drain(0.01)
        await asyncio.wait([execution.task])
        release.set()

    run(drain_in_time())
    run(drain_too_early())
    assert (books.state("run-1")["state"], books.state("run-2")["state"]) == ("succeeded", "dispatched")
