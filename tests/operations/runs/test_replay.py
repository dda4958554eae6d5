"""Idempotency keys: one call is one run, whose end is told again for as long as it may be."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from damage import blob_files, flip
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import (
    DeadlineExceeded,
    Fault,
    FaultError,
    InsufficientCredits,
    InternalError,
    KeyConflict,
    ProviderError,
    ServiceUnavailable,
    StillRunning,
    Upstream,
)
from fairlead.domain.runs.entries import IdempotencyKey
from fairlead.domain.runs.outcomes import Completed, Failed
from fairlead.operations.runs.results import INLINE_MAX, Answer
from operations.servers import (
    CENT,
    DOLLAR,
    DONE,
    LARGEST_REPLAY,
    LINKS_SECONDS,
    Partner,
    Server,
    idempotency_key,
    leg_text,
    model_text,
)
from storage.bookings import Books
from waiting import until

_TRANSLATION = '\n[legs.translation]\nfields = [{ from = "/n", to = "/count" }]\n'
KEY = idempotency_key()


@pytest.fixture
def folder(folder: Path) -> Path:
    """Return the folder with a model that another provider serves in other words."""
    text = model_text("twice", "plain", "now", more=leg_text("spare", more=_TRANSLATION))
    (folder / "twice.toml").write_text(text)
    return folder


def twice(run: Run, server: Server, caller: Caller, **how: Any) -> tuple[Answer, Answer]:
    """Make one call two times under one key."""
    first: Answer = run(server.answer(caller, key=KEY, **how))
    again: Answer = run(server.answer(caller, key=KEY, run_id="run-2", **how))
    return first, again


def refusal_of(run: Run, server: Server, caller: Caller, **how: Any) -> Fault:
    """Check that a call under the key is refused, and return the fault."""
    with pytest.raises(FaultError) as caught:
        run(server.answer(caller, run_id="run-2", **{"key": KEY, **how}))
    return caught.value.fault


@pytest.mark.req("R-18", "R-29")
@pytest.mark.parametrize("size", [1, INLINE_MAX + 1, LARGEST_REPLAY - 100], ids=["small", "in a blob", "the largest"])
def test_repeated_call_is_answered_without_another_run(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, size: int
) -> None:
    """The partner is asked once, the workspace charged once, and the same bytes are told again."""
    partner.answers["/now"] = {**DONE, "data": "x" * size}
    first, again = twice(run, server, caller)
    assert isinstance(first.outcome, Completed)
    assert isinstance(again.outcome, Completed)
    assert (again.outcome.content, again.outcome.content_type) == (first.outcome.content, first.outcome.content_type)
    assert (first.is_replay, again.is_replay, again.charge) == (False, True, 10 * CENT)
    assert (partner.calls, [row["id"] for row in books.rows("SELECT id FROM runs")]) == (["POST /now"], ["run-1"])
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)


@pytest.mark.req("A-01")
def test_replays_of_a_run_are_noted_up_to_a_bound(server: Server, caller: Caller, books: Books, run: Run) -> None:
    """The timeline says when a result was sent again; a caller that asks for ever does not make it grow for ever."""
    for number in range(30):
        run(server.answer(caller, key=KEY, run_id=f"run-{number}"))
    noted = books.rows("SELECT run_id, kind FROM run_events")
    assert {(row["run_id"], row["kind"]) for row in noted} == {("run-0", "replayed")}
    assert len(noted) == 20


@pytest.mark.req("R-18")
def test_result_too_large_to_keep_is_not_run_again(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """What is too large to keep is not told again, and not generated again either."""
    partner.answers["/now"] = {**DONE, "data": "x" * LARGEST_REPLAY}
    assert isinstance(run(server.answer(caller, key=KEY)).outcome, Completed)
    fault = refusal_of(run, server, caller)
    assert isinstance(fault, KeyConflict)
    assert "too large" in fault.detail
    assert partner.calls == ["POST /now"]


@pytest.mark.req("R-18", "R-36")
def test_result_with_expired_links_is_refused_and_not_run_again(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """A result that names a partner's links is told for a while, then refused, and never generated again."""
    partner.answers["/now"] = {**DONE, "data": [{"url": "https://cdn.example/a.png"}]}
    _, again = twice(run, server, caller)
    assert again.is_replay
    server.now_ns += LINKS_SECONDS * 10**9
    fault = refusal_of(run, server, caller)
    assert isinstance(fault, KeyConflict)
    assert "expired" in fault.detail
    assert partner.calls == ["POST /now"]


@pytest.mark.req("R-18")
def test_result_without_links_is_told_as_long_as_its_key_is_kept(server: Server, caller: Caller, run: Run) -> None:
    """What names no links is told for as long as its key is kept."""
    run(server.answer(caller, key=KEY))
    server.now_ns += 10 * LINKS_SECONDS * 10**9
    assert run(server.answer(caller, key=KEY)).is_replay


@pytest.mark.req("R-18")
def test_key_with_another_call_is_refused(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """One key is for one call: another is refused, and nothing is dispatched for it."""
    run(server.answer(caller, key=KEY))
    assert isinstance(refusal_of(run, server, caller, key=idempotency_key(fingerprint="call-2")), KeyConflict)
    assert partner.calls == ["POST /now"]


@pytest.mark.req("R-18", "R-24")
def test_call_whose_deadline_passed_is_collected_under_its_key(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """After a 504 the same key waits for the accepted generation, and collects it; there is never a second."""

    async def miss_the_deadline_and_come_back() -> Answer:
        release = asyncio.Event()

        async def wait() -> None:
            await release.wait()

        partner.before = wait
        with pytest.raises(FaultError) as missed:
            await server.answer(caller, seconds=0.05, key=KEY)
        assert isinstance(missed.value.fault, DeadlineExceeded)
        with pytest.raises(FaultError) as early:
            await server.answer(caller, run_id="run-2", key=KEY)
        assert isinstance(early.value.fault, StillRunning)
        release.set()
        await until(lambda: server.executor.under_way == 0)
        return await server.answer(caller, run_id="run-3", key=KEY)

    answer = run(miss_the_deadline_and_come_back())
    assert isinstance(answer.outcome, Completed)
    assert (answer.is_replay, partner.calls) == (True, ["POST /now"])
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)


@pytest.mark.req("R-18")
@pytest.mark.parametrize(("status", "answer"), [(500, {}), (400, {}), (451, {}), (504, {}), (200, None)])
def test_failure_is_told_again_and_not_run_again(
    server: Server, caller: Caller, partner: Partner, run: Run, status: int, answer: Any
) -> None:
    """What a partner answered, and what it may have worked on, ends the call for good: the same fault is told."""
    partner.statuses["/now"], partner.answers["/now"] = status, answer
    first, again = twice(run, server, caller)
    assert isinstance(first.outcome, Failed)
    assert isinstance(again.outcome, Failed)
    assert (again.outcome.fault, again.is_replay, again.charge) == (first.outcome.fault, True, 0)
    assert partner.calls == ["POST /now"]


@pytest.mark.req("R-18")
def test_call_that_reached_no_partner_leaves_its_key_free(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A call that reached no partner leaves its key free for another try."""
    here = server.providers["plain"]
    server.providers["plain"] = here.at("http://127.0.0.1:1")
    failed = run(server.answer(caller, key=KEY))
    assert isinstance(failed.outcome, Failed)
    assert books.rows("SELECT id FROM runs WHERE idempotency_id IS NOT NULL") == []
    with pytest.raises(FaultError) as met:  # as a call is told that found the key taken a moment before it was freed
        run(server.replayer.tell("run-1"))
    assert isinstance(met.value.fault, StillRunning)
    server.providers["plain"] = here
    answer = run(server.answer(caller, run_id="run-2", key=KEY))
    assert isinstance(answer.outcome, Completed)
    assert (answer.is_replay, partner.calls) == (False, ["POST /now"])


@pytest.mark.req("R-18")
def test_refusal_by_a_full_partner_leaves_the_key_free(
    server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """A partner without room did nothing: the key may be used when it has some."""
    partner.statuses["/now"] = 429
    assert isinstance(run(server.answer(caller, key=KEY)).outcome, Failed)
    partner.statuses.clear()
    assert not run(server.answer(caller, run_id="run-2", key=KEY)).is_replay


@pytest.mark.req("R-18")
@pytest.mark.parametrize("refusal", [{"body": {"n": 0}}, {"body": b"nonsense"}])
def test_refused_call_leaves_its_key_free(server: Server, caller: Caller, run: Run, refusal: dict[str, Any]) -> None:
    """What was never admitted has no key: it may be mended and sent under the same one."""
    refusal_of(run, server, caller, **refusal)
    assert not run(server.answer(caller, key=KEY)).is_replay


@pytest.mark.req("R-18")
def test_expired_key_is_free(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """A key whose time is up is as good as new, swept or not."""
    brief = IdempotencyKey(KEY.id, KEY.fingerprint, server.clock.now_ms() + 1000)
    run(server.answer(caller, key=brief))
    server.now_ns += 1000 * 10**6
    assert not run(server.answer(caller, run_id="run-2", key=KEY)).is_replay
    assert partner.calls == ["POST /now"] * 2


@pytest.mark.req("R-18")
def test_old_keys_and_results_are_deleted(server: Server, caller: Caller, books: Books, run: Run) -> None:
    """Keys and results whose time is up are deleted; the others stay. An absent database delays that."""
    run(server.answer(caller, key=IdempotencyKey("old", "call", server.clock.now_ms() + 1000)))
    run(server.answer(caller, run_id="run-2", key=KEY))
    assert run(server.replayer.forget()) == 0
    server.now_ns += 1000 * 10**6
    server.database.refusals = 1
    assert [run(server.replayer.forget()) for _ in range(3)] == [0, 2, 0]
    assert [
        row["idempotency_id"] for row in books.rows("SELECT idempotency_id FROM runs WHERE idempotency_id IS NOT NULL")
    ] == [KEY.id]
    assert [row["id"] for row in books.rows("SELECT id FROM runs WHERE result_expires_at IS NOT NULL")] == ["run-2"]


@pytest.mark.req("R-18")
def test_replay_is_free(server: Server, new_caller: Callable[..., Caller], partner: Partner, run: Run) -> None:
    """A workspace that has spent its last cent is told what it has paid for; a new call is refused."""
    caller = new_caller(balance=10 * CENT)
    run(server.answer(caller, key=KEY))
    spent = Caller(caller.workspace_id, caller.workspace, caller.key_id, is_exhausted=True)
    assert run(server.answer(spent, run_id="run-2", key=KEY)).is_replay
    assert isinstance(refusal_of(run, server, spent, key=idempotency_key("key-2")), InsufficientCredits)
    assert partner.calls == ["POST /now"]


@pytest.mark.req("R-12", "R-14", "R-18")
def test_replay_names_who_served(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """Who served a run after a failure, and what had to be left out, is told again with the result."""
    partner.statuses["/now"] = 503
    first, again = twice(run, server, caller, model="twice", body={"n": 2, "style": "bold"})
    assert (first.fallback_provider, len(first.dropped)) == ("spare", 1)
    assert (again.fallback_provider, again.dropped, again.is_replay) == ("spare", first.dropped, True)


@pytest.mark.req("R-17", "R-18")
def test_replay_with_a_key_of_the_callers_is_not_billed(
    server: Server, caller: Caller, partner: Partner, run: Run, folder: Path
) -> None:
    """A run with the caller's own credential has no charge, told again or not."""
    (folder / "locked.toml").write_text(model_text("locked", "locked", "now"))
    server.catalog.reload()
    run(server.own_keys.put(caller.workspace_id, "locked", "own-key"))
    own = Caller(caller.workspace_id, caller.workspace, caller.key_id, own_keys=frozenset({"locked"}))
    first, again = twice(run, server, own, model="locked")
    assert (first.charge, again.charge, again.is_replay) == (None, None, True)
    assert partner.credentials == ["Bearer own-key"]


@pytest.mark.req("R-18")
@pytest.mark.parametrize(("gone", "kind"), [(True, KeyConflict), (False, ServiceUnavailable)])
def test_unreadable_result_is_not_run_again(
    server: Server, caller: Caller, partner: Partner, folder: Path, run: Run, *, gone: bool, kind: type[Fault]
) -> None:
    """A kept result that is away for a while is asked for later, one that is gone never; neither is run again."""
    partner.answers["/now"] = {**DONE, "data": "x" * (INLINE_MAX + 1)}
    run(server.answer(caller, key=KEY))
    blobs = folder.parent / "blobs"
    for path in [path for path in blobs.rglob("*") if path.is_file()]:
        path.unlink()
    if not gone:
        shutil.rmtree(blobs)
        blobs.write_text("no folder any more")
    assert isinstance(refusal_of(run, server, caller), kind)
    assert partner.calls == ["POST /now"]


@pytest.mark.req("S-08", "R-18")
def test_damaged_result_is_never_replayed(
    server: Server, caller: Caller, partner: Partner, folder: Path, run: Run
) -> None:
    """A kept result whose bytes have changed is an error of ours, and the run is not repeated."""
    partner.answers["/now"] = {**DONE, "data": "x" * (INLINE_MAX + 1)}
    run(server.answer(caller, key=KEY))
    (blob,) = blob_files(folder.parent / "blobs")
    flip(blob, 100)
    assert isinstance(refusal_of(run, server, caller), InternalError)
    assert partner.calls == ["POST /now"]


@pytest.mark.req("R-18")
def test_unavailable_store_costs_the_replay_and_not_the_run(
    server: Server, caller: Caller, partner: Partner, folder: Path, run: Run
) -> None:
    """A store that is away when a run ends costs the replay, not the run."""
    partner.answers["/now"] = {**DONE, "data": "x" * (INLINE_MAX + 1)}
    blobs = folder.parent / "blobs"
    shutil.rmtree(blobs)
    blobs.write_text("no folder any more")
    assert isinstance(run(server.answer(caller, key=KEY)).outcome, Completed)
    assert isinstance(refusal_of(run, server, caller), KeyConflict)
    assert partner.calls == ["POST /now"]


@pytest.mark.req("R-18")
def test_concurrent_calls_under_one_key_make_one_run(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """Of calls that arrive together under one key one runs, and the others learn that it does."""

    async def call_together() -> list[Any]:
        calls = [asyncio.ensure_future(server.answer(caller, run_id=f"run-{n}", key=KEY)) for n in range(5)]

        async def until_the_others_were_told() -> None:
            await until(lambda: sum(call.done() for call in calls) == 4)

        partner.before = until_the_others_were_told
        return await asyncio.gather(*calls, return_exceptions=True)

    ends = run(call_together())
    told = [end.fault for end in ends if isinstance(end, FaultError)]
    assert (len(told), {type(fault) for fault in told}) == (4, {StillRunning})
    assert (partner.calls, len(books.rows("SELECT id FROM runs"))) == (["POST /now"], 1)


@pytest.mark.req("R-18")
def test_lost_run_keeps_its_key(
    server: Server, start_server: Callable[..., Server], caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """Nobody knows what a lost run's partner did: its key stays taken, and says so."""
    run(server.admit(caller, key=KEY))
    successor = start_server("server-2")
    assert run(successor.queue.take_over()) == 1
    answer = run(successor.answer(caller, run_id="run-2", key=KEY))
    assert isinstance(answer.outcome, Failed)
    assert isinstance(answer.outcome.fault, ProviderError)
    assert "could not be determined" in answer.outcome.fault.detail
    assert (answer.charge, answer.is_replay, partner.calls) == (None, True, [])
    assert (books.state()["state"], books.figures(caller.workspace_id)) == ("lost", (DOLLAR, 0, 0))


@pytest.mark.req("R-18")
def test_voided_stray_frees_its_key(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """An admission nobody was told of was never dispatched: its key is free with its money."""
    run(server.admit(caller, key=KEY))
    assert isinstance(refusal_of(run, server, caller), StillRunning)
    server.now_ns += 61 * 10**9
    assert run(server.queue.end_strays()) == 1
    assert not run(server.answer(caller, run_id="run-2", key=KEY)).is_replay
    assert partner.calls == ["POST /now"]


@pytest.mark.req("R-18")
def test_result_outlives_its_server(
    server: Server, start_server: Callable[..., Server], caller: Caller, partner: Partner, run: Run
) -> None:
    """Killed between the settlement and the answer: another server tells the result, and takes nothing over."""
    run(server.answer(caller, key=KEY))
    successor = start_server("server-2")
    assert run(successor.queue.take_over()) == 0
    assert run(successor.answer(caller, run_id="run-2", key=KEY)).is_replay
    assert partner.calls == ["POST /now"]


@pytest.mark.req("R-18")
def test_run_that_was_taken_over_leaves_its_result(
    server: Server, start_server: Callable[..., Server], caller: Caller, partner: Partner, run: Run
) -> None:
    """Killed while the partner works: the server that takes over keeps the result for the key."""
    run(server.admit(caller, "careful-now", key=KEY))
    successor = start_server("server-2")
    run(successor.queue.take_over())
    run(successor.executor.drain(5))
    answer = run(successor.answer(caller, "careful-now", run_id="run-2", key=KEY))
    assert isinstance(answer.outcome, Completed)
    assert (answer.is_replay, answer.charge, partner.keys) == (True, 10 * CENT, ["run-1"])


@pytest.mark.req("R-18", "R-29")
@pytest.mark.parametrize("trouble", ["away", "full"])
def test_takeover_that_failed_keeps_the_key(
    server: Server, start_server: Callable[..., Server], caller: Caller, partner: Partner, run: Run, trouble: str
) -> None:
    """That a repeat reached nobody says nothing of the first call: its key stays taken, or it might be paid twice."""
    run(server.admit(caller, "careful-now", key=KEY))
    successor = start_server("server-2")
    if trouble == "away":
        successor.providers["careful"] = successor.providers["careful"].at("http://127.0.0.1:1")
    else:
        partner.statuses["/now"] = 429
    run(successor.queue.take_over())
    run(successor.executor.drain(5))
    partner.statuses.clear()
    answer = run(successor.answer(caller, "careful-now", run_id="run-2", key=KEY))
    assert isinstance(answer.outcome, Failed)
    assert answer.is_replay


@pytest.mark.req("R-18", "R-22")
def test_replayed_failure_shows_the_partners_status(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """The partner's own status is part of what is told again."""
    partner.statuses["/now"] = 502
    _, again = twice(run, server, caller)
    assert again.outcome == Failed(ProviderError(upstream=Upstream(502)))
