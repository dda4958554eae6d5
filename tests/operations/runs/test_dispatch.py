"""Fallback: another provider serves a run whose first certainly has not, and the books know of the move first."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from conftest import Run
from fairlead.domain.accounts.callers import Caller, Gate
from fairlead.domain.faults import Fault, InternalError, ProviderError, ServiceUnavailable, Upstream
from fairlead.domain.runs.outcomes import Completed, Failed
from fairlead.domain.runs.selection import RouteOptions
from fairlead.observing.observations import ProviderNotConfigured, RunEnded, RunRedirected, UnexpectedError
from fairlead.operations.runs.results import Answer
from operations.servers import CENT, DOLLAR, DONE, Partner, Server, leg_text, model_text
from storage.bookings import Books
from waiting import until

_EDIT = '[[operations]]\nname = "edit"\nedit = true\nwhen = [{ at = "/image" }]\n[[operations]]\nname = "generate"\n\n'
_STRICT_EDIT = 'operations = [{ name = "edit", when = [{ at = "/count" }] }, { name = "generate" }]\n'


@pytest.fixture
def folder(folder: Path) -> Path:
    """Return the folder with models that several providers serve."""
    models = {
        "twice": ("plain", "now", "", leg_text("spare", price="0.20")),
        "thrice": ("plain", "now", "", leg_text("spare", price="0.20") + leg_text("third")),
        "twice-later": ("plain", "later", "", leg_text("spare", "later")),
        "steady": ("plain", "now", "", leg_text("careful", price="0.20")),
        "locked-twice": ("locked", "now", "", leg_text("spare")),
        "editor": ("plain", "now", _EDIT, leg_text("spare", strict=_STRICT_EDIT)),
    }
    for name, (provider, call, head, more) in models.items():
        (folder / f"{name}.toml").write_text(model_text(name, provider, call, head=head, more=more))
    return folder


def fault_of(answer: Answer) -> Fault:
    """The fault of a run that failed."""
    assert isinstance(answer.outcome, Failed), answer
    return answer.outcome.fault


@pytest.mark.req("R-14", "R-28", "R-29")
def test_run_of_a_failed_provider_is_served_by_the_next(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """The next leg serves it: held for and charged at that leg's rate, once, and named to the caller."""
    partner.statuses["/now"] = 503
    answer = run(server.answer(caller, "twice", {"n": 3}))
    assert isinstance(answer.outcome, Completed)
    assert (answer.fallback_provider, answer.charge) == ("spare", 20 * CENT)
    assert partner.calls == ["POST /now", "POST /spare/now"]
    assert books.entries()[1:] == [
        ("hold", 0, 30 * CENT),
        ("raise", 0, 30 * CENT),
        ("post", -20 * CENT, -60 * CENT),
    ]
    assert books.figures(caller.workspace_id) == (DOLLAR - 20 * CENT, 0, 0)
    assert (books.state()["provider"], books.state()["state"]) == ("spare", "succeeded")
    assert server.observations_of(RunRedirected) == [RunRedirected("run-1", "acme/twice", "plain", "spare")]
    assert [ended.provider for ended in server.observations_of(RunEnded)] == ["spare"]


@pytest.mark.req("R-14")
@pytest.mark.parametrize("status", [401, 403, 429, 500, 502, 503])
def test_refusal_for_the_partners_own_sake_is_served_elsewhere(
    server: Server, caller: Caller, partner: Partner, run: Run, status: int
) -> None:
    """Whatever the partner refused for its own sake, another may serve."""
    partner.statuses["/now"] = status
    assert run(server.answer(caller, "twice")).fallback_provider == "spare"


@pytest.mark.req("R-14")
def test_unreachable_partner_is_replaced_by_another(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """What could not be sent was certainly not taken."""
    server.providers["plain"] = server.providers["plain"].at("http://127.0.0.1:1")
    assert run(server.answer(caller, "twice")).fallback_provider == "spare"
    assert partner.calls == ["POST /spare/now"]


@pytest.mark.req("R-14")
@pytest.mark.parametrize(
    ("status", "answer"),
    [(400, {}), (422, {}), (451, {}), (408, {}), (504, {}), (200, {"unlike": "a result"}), (200, None)],
    ids=["rejected", "invalid", "refused", "408", "504", "unreadable", "broken off"],
)
def test_work_that_may_have_been_done_is_not_repeated_elsewhere(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, status: int, answer: Any
) -> None:
    """What the caller did wrong, and what the partner may have worked on, is asked of nobody else."""
    partner.statuses["/now"], partner.answers["/now"] = status, answer
    told = run(server.answer(caller, "twice"))
    assert isinstance(told.outcome, Failed)
    assert (partner.calls, told.fallback_provider, told.charge) == (["POST /now"], None, 0)
    assert [entry[0] for entry in books.entries()] == ["credit", "hold", "void"]


@pytest.mark.req("R-14")
@pytest.mark.parametrize(("status", "answer"), [(200, {"status": "failed"}), (500, {}), (200, {"status": "?"})])
def test_failed_task_is_not_ordered_elsewhere(
    server: Server, caller: Caller, partner: Partner, run: Run, status: int, answer: Any
) -> None:
    """Work that was accepted was perhaps done: its failure ends the run."""
    partner.statuses["/later/task-7"], partner.answers["/later/task-7"] = status, answer
    assert isinstance(run(server.answer(caller, "twice-later")).outcome, Failed)
    assert partner.calls == ["POST /later", "GET /later/task-7"]


@pytest.mark.req("R-14", "R-29")
def test_task_that_ended_unbilled_is_ordered_elsewhere(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A partner that bills nothing for the failed work is replaced: one hold, raised once, and one charge."""
    partner.answers["/later/task-7"] = {"status": "given up"}
    assert run(server.answer(caller, "twice-later")).fallback_provider == "spare"
    assert partner.calls == ["POST /later", "GET /later/task-7", "POST /spare/later", "GET /spare/later/task-7"]
    assert [entry[0] for entry in books.entries()] == ["credit", "hold", "raise", "post"]
    row = books.state()
    assert (row["state"], row["provider"], row["handle"]) == ("succeeded", "spare", "task-7")
    assert books.figures(caller.workspace_id)[1:] == (0, 0)


@pytest.mark.req("R-14")
def test_first_failure_is_told_when_all_tasks_ended_unbilled(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """The last partner's task may end unbilled too: the run ends, costs nothing, and holds nothing."""
    partner.statuses["/later"], partner.answers["/spare/later/task-7"] = 429, {"status": "given up"}
    answer = run(server.answer(caller, "twice-later"))
    assert isinstance(fault_of(answer), ServiceUnavailable)
    assert (answer.charge, books.state()["state"]) == (0, "failed")
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)


@pytest.mark.req("R-14", "R-29")
def test_takeover_after_a_move_from_ended_work_asks_nobody_about_it(
    server: Server,
    start_server: Callable[..., Server],
    caller: Caller,
    partner: Partner,
    books: Books,
    run: Run,
) -> None:
    """Killed while the second partner is asked: the handle of the first is not taken for one of the second."""
    killed = asyncio.Event()

    async def die() -> None:
        if len(partner.calls) == 3:  # the second provider has the call, and we are gone
            await killed.wait()

    async def run_and_die() -> None:
        execution = server.executor.start(await server.admit(caller, "twice-later"))
        await until(lambda: len(partner.calls) == 3)
        await server.executor.drain(0.01)
        await asyncio.wait([execution.task])
        killed.set()

    partner.answers["/later/task-7"], partner.before = {"status": "given up"}, die
    run(run_and_die())
    successor = start_server("server-2")
    assert run(successor.queue.take_over()) == 1
    run(successor.executor.drain(5))
    assert partner.calls == ["POST /later", "GET /later/task-7", "POST /spare/later"]
    assert (books.state()["state"], books.state()["charge"]) == ("lost", 0)
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)


@pytest.mark.req("R-14")
def test_refused_submission_is_ordered_elsewhere(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A submit that was refused moves on, and the other provider's handle is followed."""
    partner.statuses["/later"] = 429
    assert run(server.answer(caller, "twice-later")).fallback_provider == "spare"
    assert partner.calls == ["POST /later", "POST /spare/later", "GET /spare/later/task-7"]
    assert books.state()["handle"] == "task-7"


@pytest.mark.req("R-14")
@pytest.mark.parametrize("status", [400, 422])
def test_rejection_of_a_translated_body_is_not_told_to_the_caller(
    server: Server, caller: Caller, partner: Partner, run: Run, status: int
) -> None:
    """A body in the second provider's words was ours: what it rejects there is no news, the first failure is told."""
    partner.statuses |= {"/now": 503, "/spare/now": status}
    assert isinstance(fault_of(run(server.answer(caller, "twice"))), ProviderError)
    assert partner.calls == ["POST /now", "POST /spare/now"]


@pytest.mark.req("R-14")
def test_second_provider_that_may_have_worked_is_the_last(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """The rule holds for every leg: after a time-out of the second the third is not asked."""
    partner.statuses |= {"/now": 503, "/spare/now": 504}
    answer = run(server.answer(caller, "thrice"))
    assert (answer.fallback_provider, answer.charge) == (None, 0)
    assert partner.calls == ["POST /now", "POST /spare/now"]


@pytest.mark.req("R-14")
def test_first_failure_is_told_when_nobody_can_serve(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """When nobody can serve a run, the caller learns what the provider it asked for said."""
    partner.statuses |= {"/now": 503, "/spare/now": 500, "/third/now": 429}
    answer = run(server.answer(caller, "thrice"))
    assert fault_of(answer) == ProviderError(upstream=Upstream(503))
    assert (answer.fallback_provider, answer.charge) == (None, 0)
    assert partner.calls == ["POST /now", "POST /spare/now", "POST /third/now"]
    assert (books.state()["upstream_status"], books.figures(caller.workspace_id)) == (503, (DOLLAR, 0, 0))
    assert [held for kind, _, held in books.entries() if kind == "raise"] == [10 * CENT, -10 * CENT]


@pytest.mark.req("R-14")
def test_provider_that_costs_too_much_is_skipped(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, books: Books, run: Run
) -> None:
    """A provider that costs more than the workspace has is skipped; one that it can pay serves."""
    partner.statuses["/now"] = 503
    caller = new_caller(balance=30 * CENT)
    answer = run(server.answer(caller, "thrice", {"n": 3}))
    assert (answer.fallback_provider, answer.charge) == ("third", 10 * CENT)
    assert partner.calls == ["POST /now", "POST /third/now"]
    assert books.figures(caller.workspace_id) == (20 * CENT, 0, 0)


@pytest.mark.req("R-14")
def test_fallback_never_spends_more_than_the_workspace_has(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, books: Books, run: Run
) -> None:
    """When the money does not cover the only other provider, the first failure is the answer."""
    partner.statuses["/now"] = 503
    caller = new_caller(balance=30 * CENT)
    assert fault_of(run(server.answer(caller, "twice", {"n": 3}))) == ProviderError(upstream=Upstream(503))
    assert partner.calls == ["POST /now"]
    assert books.figures(caller.workspace_id) == (30 * CENT, 0, 0)


@pytest.mark.req("R-14")
def test_move_to_another_provider_is_durable_before_it_is_asked(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """When the second provider is called, its name and its hold are durable."""
    known: list[tuple[Any, ...]] = []

    async def look() -> None:
        query = "SELECT provider, hold, rate_version FROM runs"
        known.append(tuple(await server.database.read(lambda c: c.exec_driver_sql(query).one())))

    partner.statuses["/now"], partner.before = 503, look
    run(server.answer(caller, "twice"))
    assert known == [("plain", 10 * CENT, "v1"), ("spare", 20 * CENT, "v1")]


@pytest.mark.req("R-14", "R-29")
@pytest.mark.parametrize(
    ("model", "calls", "end"),
    [
        ("steady", ["POST /now", "POST /now", "POST /now"], ("succeeded", "careful", 20 * CENT)),
        ("twice", ["POST /now", "POST /spare/now"], ("lost", "spare", 0)),
    ],
)
def test_takeover_goes_on_at_the_second_provider(
    server: Server,
    start_server: Callable[..., Server],
    caller: Caller,
    partner: Partner,
    books: Books,
    run: Run,
    model: str,
    calls: list[str],
    end: tuple[str, str, int],
) -> None:
    """Killed while the second provider is asked: the server that takes over goes on there or gives up by its rules."""
    killed = asyncio.Event()

    async def die() -> None:
        if len(partner.calls) == 2:  # the second provider has the call, and we are gone
            await killed.wait()

    async def run_and_die() -> None:
        execution = server.executor.start(await server.admit(caller, model))
        await until(lambda: len(partner.calls) == 2)
        await server.executor.drain(0.01)
        await asyncio.wait([execution.task])
        killed.set()

    partner.statuses["/now"], partner.before = 503, die
    run(run_and_die())
    partner.statuses.clear()
    successor = start_server("server-2")
    assert run(successor.queue.take_over()) == 1
    run(successor.executor.drain(5))
    assert partner.calls == calls
    assert partner.keys[2:] == ["run-1"] * len(calls[2:])
    row = books.state()
    assert (row["state"], row["provider"], row["charge"]) == end
    assert books.figures(caller.workspace_id)[1:] == (0, 0)


def test_move_whose_commit_was_not_confirmed_is_written_once(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A database that goes away after it has written is told again, and finds the move done."""

    async def go_away() -> None:
        if len(partner.calls) == 1:
            server.database.lost_answers = 1

    partner.statuses["/now"], partner.before = 503, go_away
    answer = run(server.answer(caller, "twice"))
    assert (answer.fallback_provider, server.database.lost_answers) == ("spare", 0)
    assert [entry[0] for entry in books.entries()] == ["credit", "hold", "raise", "post"]
    assert server.observations_of(UnexpectedError) == []


@pytest.mark.req("R-14")
@pytest.mark.parametrize(
    ("model", "body", "options", "asked"),
    [
        ("twice", {}, RouteOptions(may_fall_back=False), "/now"),
        ("twice", {}, RouteOptions(provider="spare", is_strict=True), "/spare/now"),
        ("editor", {"image": "data:,"}, RouteOptions(), "/now"),
    ],
    ids=["switched off", "strict", "edit"],
)
def test_fallback_is_off_where_it_is_inert(
    server: Server,
    caller: Caller,
    partner: Partner,
    run: Run,
    model: str,
    body: Any,
    options: RouteOptions,
    asked: str,
) -> None:
    """Switched off, under strict mode and for an edit, the first failure reaches the caller."""
    partner.statuses[asked] = 503
    answer = run(server.answer(caller, model, body, options=options))
    assert fault_of(answer) == ProviderError(upstream=Upstream(503))
    assert partner.calls == [f"POST {asked}"]


@pytest.mark.req("R-14")
def test_generation_of_an_editing_model_falls_back(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """The other operation of a model that also edits has its fallback."""
    partner.statuses["/now"] = 503
    assert run(server.answer(caller, "editor")).fallback_provider == "spare"


@pytest.mark.req("R-14")
def test_native_provider_stands_in_for_an_alternate(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """The native provider stands in for an alternate as well, at its own rate."""
    partner.statuses["/spare/now"] = 503
    answer = run(server.answer(caller, "twice", options=RouteOptions(provider="spare")))
    assert (answer.fallback_provider, answer.charge) == ("plain", 10 * CENT)
    assert partner.calls == ["POST /spare/now", "POST /now"]


@pytest.mark.req("R-14", "R-38")
@pytest.mark.parametrize(
    "options", [{"gates": {"provider:spare": Gate.OFF}}, {"providers": ("plain",)}], ids=["gate", "policy"]
)
def test_run_never_falls_back_to_a_forbidden_provider(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, run: Run, options: dict[str, Any]
) -> None:
    """A provider this workspace may not use does not serve it by the back door."""
    partner.statuses["/now"] = 503
    answer = run(server.answer(new_caller(**options), "twice"))
    assert fault_of(answer) == ProviderError(upstream=Upstream(503))
    assert partner.calls == ["POST /now"]


def test_provider_without_our_credential_is_skipped(
    start_server: Callable[..., Server], caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A leg that cannot be called is not tried: another one serves the run from the start, and that is observed."""
    poor = start_server("server-2", {})
    answer = run(poor.answer(caller, "locked-twice"))
    assert isinstance(answer.outcome, Completed)
    assert (partner.calls, books.state()["provider"]) == (["POST /spare/now"], "spare")
    assert poor.observations_of(ProviderNotConfigured) == [
        ProviderNotConfigured("locked", ("FAIRLEAD_PROVIDER_LOCKED_KEY",))
    ]


def test_provider_in_cooldown_is_skipped(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, run: Run
) -> None:
    """After some failures in a row a credential cools down, and runs go straight to the next one."""
    partner.statuses["/now"], caller = 503, new_caller(balance=10 * DOLLAR)
    for number in range(6):
        run(server.answer(caller, "twice", run_id=f"run-{number}"))
    assert (partner.calls.count("POST /now"), partner.calls.count("POST /spare/now")) == (5, 6)
    told = run(server.answer(caller, "plain-now", run_id="run-6"))
    fault = fault_of(told)
    assert isinstance(fault, ServiceUnavailable)
    assert fault.retry_after is not None
    assert partner.calls.count("POST /now") == 5


@pytest.mark.req("T-02")
def test_failing_bodies_of_one_workspace_close_no_partner_for_another(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, run: Run
) -> None:
    """A workspace whose bodies a partner answers with 503 is kept from it itself, and no other is."""
    one, other = new_caller(), new_caller(name="other")
    assert isinstance(run(server.answer(other, "plain-now", run_id="well")).outcome, Completed)
    partner.statuses["/now"] = 503
    for number in range(6):
        run(server.answer(one, "plain-now", run_id=f"run-{number}"))
    assert partner.calls.count("POST /now") == 6
    partner.statuses["/now"] = 200
    assert isinstance(fault_of(run(server.answer(one, "plain-now", run_id="late"))), ServiceUnavailable)
    assert isinstance(run(server.answer(other, "plain-now", run_id="again")).outcome, Completed)


def test_bug_after_a_move_frees_the_current_hold(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """An unexpected error frees what is held by then, not what was held at first."""

    async def admit_and_break() -> object:
        admitted = await server.admit(caller, "twice")
        (leg,) = admitted.selection.fallbacks
        broken = msgspec.structs.replace(
            admitted.selection, fallbacks=(replace(leg, calls={"run": "no call of this partner"}),)
        )
        execution = server.executor.start(msgspec.structs.replace(admitted, selection=broken))
        return (await server.executor.answer_in_time(execution, 5)).outcome

    partner.statuses["/now"] = 503
    assert run(admit_and_break()) == Failed(InternalError())
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)


def test_charge_after_a_move_stays_within_the_new_hold(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """The bound of the serving leg's hold holds after a move as well."""
    partner.statuses["/now"] = 503
    partner.answers["/spare/now"] = {**DONE, "used": 1000}
    assert run(server.answer(caller, "twice", {"n": 2})).charge == 40 * CENT
