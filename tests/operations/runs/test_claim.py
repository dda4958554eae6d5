"""Claiming queued runs: once each, whole again out of the books, or ended without a charge."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import QueueTimeout, ServiceUnavailable
from fairlead.domain.ledger.books import UNLIMITED
from fairlead.domain.runs.replays import read_fault
from fairlead.observing.observations import DatabaseTrouble, RunClaimed, RunWithdrawn
from fairlead.operations.runs.collect import Collector
from operations.queueing import HOUR_MS, claim, enqueue, gate_of
from operations.servers import CENT, DAY_MS, DOLLAR, WEEK_MS, Partner, Server
from storage.bookings import Books
from storage.queued_runs import run_id
from waiting import until

Start = Callable[..., Server]
FIRST = run_id()


def _fault(books: Books, id_: str = FIRST) -> object:
    (row,) = books.rows("SELECT result_fault AS fault FROM runs WHERE id = :id", id=id_)
    return read_fault(bytes(row["fault"]))


@pytest.mark.req("R-32", "R-29")
def test_claimed_run_is_executed_charged_and_kept(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A released run is claimed, executed and charged like any other, and its result is kept for collectors."""
    assert run(enqueue(server, caller, body={"n": 3})).position == 0
    assert books.state(FIRST)["state"] == "released"
    server.now_ns += 5_000_000_000
    assert run(claim(server, caller))
    row = books.state(FIRST)
    assert (row["state"], row["attempt"], row["charge"], row["server_id"]) == ("succeeded", 1, 10 * CENT, "server-1")
    assert partner.bodies == [b'{"model":"plain-now","n": 3}']
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)
    assert server.observations_of(RunClaimed) == [RunClaimed(FIRST, "acme/plain-now", 5.0)]
    (kept,) = books.rows(
        "SELECT result_content AS content, result_expires_at AS expires_at FROM runs WHERE result_expires_at > 0"
    )
    assert bytes(kept["content"]) == b'{"data": "x", "used": 1, "status": "done"}'
    assert kept["expires_at"] == row["finished_at"] + WEEK_MS


@pytest.mark.req("R-29")
def test_run_is_claimed_by_one_server(
    start_server: Start, server: Server, caller: Caller, partner: Partner, run: Run
) -> None:
    """One of two servers claims the run, whether they come at once or one comes after its end."""
    other = start_server("server-2")
    run(enqueue(server, caller))
    assert run(claim(server, caller))
    assert not run(claim(other, caller))
    assert not run(claim(server, caller))
    assert partner.calls == ["POST /now"]


def test_unknown_run_cannot_be_claimed(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """A name that was heard of and is none is nobody's work."""
    assert not run(claim(server, caller, 9))
    assert partner.calls == []


@pytest.mark.req("R-35")
def test_withdrawn_run_cannot_be_claimed(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """What was cancelled before the worker came is never dispatched."""
    run(enqueue(server, caller))
    assert run(server.canceller.cancel(caller, "acme/plain-now", FIRST))
    assert not run(claim(server, caller))
    assert partner.calls == []


@pytest.mark.req("R-29", "R-34")
@pytest.mark.parametrize("spoiled", ["model", "card", "provider", "request"])
def test_run_that_can_no_longer_be_made_ends_unbilled(
    server: Server, caller: Caller, folder: Path, books: Books, partner: Partner, run: Run, spoiled: str
) -> None:
    """Without its model, leg, card or body a run ends unasked and unbilled, and its collector is told."""
    run(enqueue(server, caller))
    file = folder / "plain-now.toml"
    match spoiled:
        case "model":
            file.unlink()
        case "card":
            file.write_text(file.read_text().replace('version = "v1"', 'version = "v2"'))
        case "provider":
            file.write_text(file.read_text().replace('provider = "plain"', 'provider = "careful"'))
        case _:
            books.sql("UPDATE runs SET request = :bytes", bytes=b"not json")
    server.catalog.reload()
    assert not run(claim(server, caller))
    assert partner.calls == []
    assert (books.state(FIRST)["state"], books.state(FIRST)["charge"]) == ("failed", 0)
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)
    assert isinstance(_fault(books), ServiceUnavailable)


@pytest.mark.req("R-28")
def test_waiting_run_is_charged_by_the_card_it_was_held_by(
    server: Server, caller: Caller, folder: Path, books: Books, run: Run
) -> None:
    """A run is charged by the card it was quoted and held by, however long it waited."""
    run(enqueue(server, caller))
    file = folder / "plain-now.toml"
    newer = file.read_text().partition("[[legs.rate_cards]]")[2].replace("v1", "v2").replace("2020", "2021")
    file.write_text(file.read_text() + "\n[[legs.rate_cards]]" + newer.replace('price = "0.10"', 'price = "0.90"'))
    server.catalog.reload()
    run(claim(server, caller))
    assert (books.state(FIRST)["charge"], books.state(FIRST)["rate_version"]) == (10 * CENT, "v1")


@pytest.mark.req("R-17")
def test_queued_run_uses_the_workspaces_own_key(
    server: Server, new_caller: Callable[..., Caller], folder: Path, partner: Partner, books: Books, run: Run
) -> None:
    """The workspace's own key is read when the run is made, newest first; without it the run ends, and asks nobody."""
    text = (folder / "plain-now.toml").read_text().replace("plain-now", "locked-now").replace('"plain"', '"locked"')
    (folder / "locked-now.toml").write_text(text)
    server.catalog.reload()
    caller = replace(new_caller(balance=0), own_keys=frozenset({"locked"}))
    run(server.own_keys.put(caller.workspace_id, "locked", "mine-1"))
    for number in (1, 2):
        run(enqueue(server, caller, "locked-now", number=number))
    run(server.own_keys.put(caller.workspace_id, "locked", "mine-2"))
    assert run(claim(server, caller))
    run(server.own_keys.delete(caller.workspace_id, "locked"))
    assert not run(claim(server, caller, 2))
    assert partner.credentials == ["Bearer mine-2"]
    assert [books.state(run_id(number))["charge"] for number in (1, 2)] == [0, 0]
    assert isinstance(_fault(books, run_id(2)), ServiceUnavailable)


@pytest.mark.parametrize("refusals", [1, 3])
def test_claim_is_written_when_the_database_is_back(
    server: Server, caller: Caller, books: Books, run: Run, refusals: int
) -> None:
    """A claim is written when the database is back."""
    run(enqueue(server, caller))
    server.database.refusals = refusals
    assert run(claim(server, caller))
    assert [trouble.doing for trouble in server.observations_of(DatabaseTrouble)] == ["claim"] * refusals
    assert books.state(FIRST)["state"] == "succeeded"


@pytest.mark.req("R-29")
def test_claim_whose_answer_was_lost_is_executed_once(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """A claim that was written though the database said otherwise is found to be ours, and executed once."""
    run(enqueue(server, caller))
    server.database.lost_answers = 1
    assert run(claim(server, caller))
    assert (books.state(FIRST)["state"], books.state(FIRST)["attempt"]) == ("succeeded", 1)
    assert partner.calls == ["POST /now"]


def test_released_runs_are_found_oldest_first(server: Server, new_caller: Callable[..., Caller], run: Run) -> None:
    """What no wake-up told of is found, the oldest first, whosever it is; what is parked is not."""
    lab, office = new_caller(in_flight_limit=1), new_caller(name="office")
    for number, caller in enumerate((lab, lab, office), start=1):
        run(enqueue(server, caller, number=number))
    assert run(server.queue.find_released()) == [
        (run_id(1), lab.workspace_id, "default"), (run_id(3), office.workspace_id, "default"),
    ]  # fmt: skip
    run(claim(server, lab))
    assert [one.id for one in run(server.queue.find_released())] == [run_id(2), run_id(3)]


@pytest.mark.req("R-32", "R-34", "R-29")
def test_run_that_waited_too_long_is_withdrawn(
    server: Server, new_caller: Callable[..., Caller], partner: Partner, books: Books, run: Run
) -> None:
    """What has waited too long is withdrawn, with a slot or without one; what was claimed in time goes on."""
    caller = new_caller(in_flight_limit=2)
    for number in (1, 2, 3):
        run(enqueue(server, caller, number=number))
    gate = gate_of(partner)
    execution = run(server.queue.claim(run_id(1), caller.workspace_id))
    assert execution is not None
    run(until(lambda: partner.calls == ["POST /now"]))
    server.now_ns += (DAY_MS - 1) * 1_000_000
    assert run(server.time_out()) == 0
    server.now_ns += 2_000_000
    assert run(server.time_out()) == 2
    assert run(server.time_out()) == 0
    for id_ in (run_id(2), run_id(3)):
        assert (books.state(id_)["state"], books.state(id_)["reason"]) == ("failed", "queue_timeout")
        assert _fault(books, id_) == QueueTimeout()
    assert sorted(seen.run_id for seen in server.observations_of(RunWithdrawn)) == [run_id(2), run_id(3)]
    gate.set()
    run(until(execution.task.done))
    assert books.state(FIRST)["state"] == "succeeded"
    assert books.figures(caller.workspace_id) == (DOLLAR - 10 * CENT, 0, 0)


@pytest.mark.req("R-23")
def test_raised_limit_releases_waiting_runs(
    server: Server, new_caller: Callable[..., Caller], books: Books, run: Run
) -> None:
    """Where a limit was raised, as many get a slot as there is room for, in order."""
    caller = new_caller(in_flight_limit=1)
    for number in range(1, 6):
        run(enqueue(server, caller, number=number))
    run(server.use_room())
    assert _states(books) == ["released", *["parked"] * 4]
    books.sql("UPDATE workspaces SET in_flight_limit = 3")
    run(server.use_room())
    assert _states(books) == [*["released"] * 3, *["parked"] * 2]
    books.sql("UPDATE workspaces SET in_flight_limit = :none", none=UNLIMITED)
    run(server.use_room())
    assert _states(books) == ["released"] * 5


def _states(books: Books) -> list[str]:
    return [row["state"] for row in books.rows("SELECT state FROM runs ORDER BY place")]


def test_looking_for_work_survives_an_unavailable_database(server: Server, caller: Caller, run: Run) -> None:
    """Whatever is looked for is looked for again later, and the trouble is observed."""
    run(enqueue(server, caller))
    server.now_ns += (DAY_MS + HOUR_MS) * 1_000_000
    server.database.refusals = 4
    assert run(server.queue.find_released()) == []
    assert run(server.time_out()) == 0
    run(server.use_room())
    run(server.pass_on_cancels())
    assert len(server.observations_of(DatabaseTrouble)) == 4
    assert run(server.time_out()) == 1


def test_time_out_that_cannot_be_written_is_tried_again(server: Server, caller: Caller, run: Run) -> None:
    """Where the database reads and does not write, nothing was withdrawn, and the next round tries again."""
    run(enqueue(server, caller))
    server.now_ns += (DAY_MS + HOUR_MS) * 1_000_000

    server.database.refused_writes = 1
    assert run(server.time_out()) == 0
    assert server.observations_of(RunWithdrawn) == []
    assert run(server.time_out()) == 1


@pytest.mark.req("R-33")
def test_claims_tell_how_fast_a_queue_moves(server: Server, new_caller: Callable[..., Caller], run: Run) -> None:
    """Each claim of a workspace tells how fast its queue moves; any server tells a waiting caller half the wait."""
    caller = new_caller(in_flight_limit=2, balance=10 * DOLLAR)
    for number in range(1, 9):
        run(enqueue(server, caller, number=number))
    for number in (1, 2):
        server.now_ns += 20_000_000_000
        run(claim(server, caller, number))
    assert server.throughput.interval_ms(caller.workspace_id) == 20_000
    claiming_nothing = Collector(server.database, server.results, server.clock)
    for collector in (server.collector, claiming_nothing):
        told = run(collector.status(caller, "acme/plain-now", run_id(5)))
        assert (told.position, told.retry_after) == (2, 30)
