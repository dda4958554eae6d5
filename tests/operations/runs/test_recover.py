"""Takeover: runs of silent servers are repeated where that is safe, polled where possible, given up otherwise."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.runs.entries import Acceptance
from fairlead.observing.observations import ClockCompared, DatabaseTrouble, RunEnded, RunTakenOver
from fairlead.operations.ledger.books import audit
from operations.servers import CENT, DOLLAR, DONE, Partner, Server
from storage.bookings import Books

Start = Callable[[str], Server]
Crash = Callable[..., None]

_ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
"""Where the database has the clock of the server, which tests set."""
_ON_POSTGRESQL = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
"""Where the database has a clock of its own."""


@pytest.fixture
def crash(server: Server, caller: Caller, run: Run) -> Crash:
    """Return a function that admits a run and, as a crashed server would, does no more than store a handle."""

    async def admit(model: str, handle: str | None, run_id: str) -> None:
        await server.admit(caller, model, {"n": 3}, run_id)
        if handle is not None:
            await server.journal.write(Acceptance(run_id, 1, handle))

    return lambda model, handle=None, run_id="run-1": run(admit(model, handle, run_id))


async def take_over(server: Server) -> int:
    """Take over what there is, and wait until it has ended."""
    claimed = await server.queue.take_over()
    await server.executor.drain(5)
    return claimed


@pytest.mark.req("R-29")
def test_partner_that_honours_keys_is_asked_again_under_the_same_key(
    start_server: Start, crash: Crash, partner: Partner, books: Books, run: Run
) -> None:
    """The same order goes out under the same key, and is billed once, at the next attempt."""
    crash("careful-now")
    successor = start_server("server-2")
    assert run(take_over(successor)) == 1
    assert (partner.calls, partner.keys) == (["POST /now"], ["run-1"])
    row = books.state()
    assert (row["state"], row["attempt"], row["charge"]) == ("succeeded", 2, 10 * CENT)
    assert successor.observations_of(RunTakenOver) == [RunTakenOver("run-1", "acme/careful-now", 2)]


@pytest.mark.req("R-29")
def test_accepted_work_is_polled_and_never_ordered_again(
    start_server: Start, crash: Crash, partner: Partner, books: Books, run: Run
) -> None:
    """A run with a handle is polled; the partner is never called a second time."""
    crash("plain-later", "task-7")
    assert run(take_over(start_server("server-2"))) == 1
    assert partner.calls == ["GET /later/task-7"]
    assert (books.state()["state"], books.state()["charge"]) == ("succeeded", 10 * CENT)


@pytest.mark.req("R-29")
def test_run_nobody_can_ask_about_is_lost(
    start_server: Start, crash: Crash, caller: Caller, partner: Partner, books: Books, run: Run
) -> None:
    """Without a key or a handle the run is lost: voided, listed and counted; the partner is not called."""
    crash("plain-now")
    successor = start_server("server-2")
    assert run(take_over(successor)) == 1
    assert partner.calls == []
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)
    report = run(audit(successor.database))
    assert (report.is_clean, report.totals["runs_lost"]) == (True, 1)
    assert [row["id"] for row in report.lost] == ["run-1"]
    assert [ended.result for ended in successor.observations_of(RunEnded)] == ["lost"]


@pytest.mark.parametrize("spoiled", ["model", "card", "provider", "request"])
def test_run_that_cannot_be_priced_again_is_given_up(
    start_server: Start, crash: Crash, folder: Path, books: Books, partner: Partner, run: Run, spoiled: str
) -> None:
    """Without its model, card, provider or request a run is given up, though its partner could be asked."""
    crash("careful-now")
    file = folder / "careful-now.toml"
    match spoiled:
        case "model":
            file.unlink()
        case "card":
            file.write_text(file.read_text().replace('version = "v1"', 'version = "v2"'))
        case "provider":
            file.write_text(file.read_text().replace('provider = "careful"', 'provider = "plain"'))
        case _:
            books.sql("UPDATE runs SET request = :bytes", bytes=b"not json")
    assert run(take_over(start_server("server-2"))) == 1
    assert (books.state()["state"], partner.calls) == ("lost", [])


@pytest.mark.req("R-28")
def test_old_run_is_charged_by_its_own_card(
    start_server: Start, crash: Crash, folder: Path, books: Books, run: Run
) -> None:
    """A run is charged by the card it was admitted with."""
    crash("careful-now")
    file = folder / "careful-now.toml"
    newer = file.read_text().partition("[[legs.rate_cards]]")[2].replace("v1", "v2").replace("2020", "2021")
    file.write_text(file.read_text() + "\n[[legs.rate_cards]]" + newer.replace('price = "0.10"', 'price = "0.90"'))
    run(take_over(start_server("server-2")))
    assert (books.state()["charge"], books.state()["rate_version"]) == (10 * CENT, "v1")


def test_server_does_not_take_over_its_own_runs(server: Server, crash: Crash, books: Books, run: Run) -> None:
    """A server that works on a run does not mistake it for an orphan."""
    crash("careful-now")
    assert run(take_over(server)) == 0
    assert books.state()["attempt"] == 1


class _Peers:
    """Servers that share a database: what each believes of the others, as their clocks go on."""

    def __init__(self, servers: Sequence[Server], run: Run) -> None:
        self.servers = servers
        self.presences = [server.presence_of(alone=False) for server in servers]
        self._run = run

    def pass_seconds(self, seconds: int, *, announcing: Collection[int] = (0, 1)) -> None:
        """Let so many seconds pass, in which some of the servers announce themselves every five."""
        for _ in range(0, seconds, 5):
            for server in self.servers:
                server.now_ns += 5 * 10**9
            for number in announcing:
                self._run(self.presences[number].announce())

    def take_over(self, number: int) -> int:
        """How many runs a server takes over now."""
        queue = replace(self.servers[number].queue, presence=self.presences[number])
        taken: int = self._run(queue.take_over())
        return taken


@pytest.fixture
def peers(start_server: Start, run: Run) -> _Peers:
    """Return two servers that share a database, with clocks that agree."""
    servers = [start_server("server-1"), start_server("server-2")]
    servers[1].now_ns = servers[0].now_ns
    return _Peers(servers, run)


@pytest.mark.req("M-01")
@_ON_SQLITE
def test_runs_of_a_living_server_are_left_alone(peers: _Peers, crash: Crash) -> None:
    """Where servers share a database, one that was seen lately keeps its runs; one that fell silent loses them."""
    crash("careful-now")
    peers.pass_seconds(60)
    assert peers.take_over(1) == 0
    peers.pass_seconds(15, announcing=[1])
    assert peers.take_over(1) == 0
    peers.pass_seconds(10, announcing=[1])
    assert peers.take_over(1) == 1


@pytest.mark.req("M-01")
@_ON_SQLITE
def test_outage_of_the_database_disowns_nobody(peers: _Peers, crash: Crash) -> None:
    """After an outage everybody looks dead: the first server back waits until the others could renew their leases."""
    crash("careful-now")
    peers.pass_seconds(60)
    for server in peers.servers:
        server.database.refusals = 5
    peers.pass_seconds(30)
    peers.pass_seconds(5, announcing=[1])
    assert peers.take_over(1) == 0
    peers.pass_seconds(60)
    assert peers.take_over(1) == 0


@pytest.mark.req("M-01")
@_ON_SQLITE
def test_hanging_database_disowns_nobody(peers: _Peers, crash: Crash) -> None:
    """A server that could not announce itself for long looks at nobody else before it has done so for long."""
    crash("careful-now")
    peers.pass_seconds(60)
    peers.pass_seconds(40, announcing=())
    assert peers.take_over(1) == 0
    peers.pass_seconds(5, announcing=[1])
    assert peers.take_over(1) == 0
    peers.pass_seconds(25, announcing=[1])
    assert peers.take_over(1) == 1


@pytest.mark.req("M-01")
@_ON_SQLITE
def test_server_that_has_just_started_takes_over_nobody(peers: _Peers, crash: Crash) -> None:
    """A server that starts after an outage sees old leases only: it first gives the others time to renew theirs."""
    crash("careful-now")
    peers.pass_seconds(60, announcing=[0])
    peers.pass_seconds(30, announcing=())
    peers.pass_seconds(15, announcing=[1])
    assert peers.take_over(1) == 0
    peers.pass_seconds(10, announcing=[1])
    assert peers.take_over(1) == 1


@pytest.mark.req("M-01")
@_ON_POSTGRESQL
def test_clock_that_is_ahead_takes_over_nobody(peers: _Peers, crash: Crash, run: Run) -> None:
    """Leases are those of the database's clock, whatever the machine of a server believes the time to be."""
    crash("careful-now")
    peers.servers[1].now_ns += 86_400 * 10**9
    for _ in range(3):
        peers.servers[1].now_ns += 15 * 10**9
        for presence in peers.presences:
            run(presence.announce())
    assert peers.presences[1].may_take_over
    assert peers.take_over(1) == 0
    assert max(found.ahead for found in peers.servers[1].observations_of(ClockCompared)) > 86_000


@pytest.mark.req("T-07")
@_ON_SQLITE
def test_lease_of_a_clock_that_was_ahead_ends(peers: _Peers, crash: Crash) -> None:
    """A server died while the clock was ahead by days, which was set right: what it did is taken over all the same.

    The others first give each other time to renew their leases.
    """
    for server in peers.servers:
        server.now_ns += 3 * 86_400 * 10**9
    crash("careful-now")
    peers.pass_seconds(60)
    for server in peers.servers:
        server.now_ns -= 3 * 86_400 * 10**9
    peers.pass_seconds(15, announcing=[1])
    assert peers.take_over(1) == 0
    peers.pass_seconds(25, announcing=[1])
    assert peers.take_over(1) == 1


def test_takeover_survives_an_unavailable_database(start_server: Start, crash: Crash, run: Run) -> None:
    """Takeover and announcement do nothing without their database, and say so; later they do."""
    crash("careful-now")
    successor = start_server("server-2")
    successor.database.refusals = 2
    assert run(take_over(successor)) == 0
    run(successor.presence.announce())
    assert [trouble.doing for trouble in successor.observations_of(DatabaseTrouble)] == ["take over runs", "announce"]
    assert run(take_over(successor)) == 1


def test_taken_run_is_charged_within_its_hold(
    start_server: Start, crash: Crash, partner: Partner, books: Books, run: Run
) -> None:
    """Whatever the partner reports, the charge stays within the hold."""
    partner.answers["/now"] = {**DONE, "used": 1000}
    crash("careful-now")
    run(take_over(start_server("server-2")))
    assert books.state()["charge"] == 30 * CENT


def test_admission_whose_answer_was_lost_is_voided(
    server: Server, crash: Crash, partner: Partner, books: Books, run: Run
) -> None:
    """A run of our own that we know nothing of was never dispatched: it is voided once it is old enough."""
    crash("plain-now")
    assert run(server.queue.end_strays()) == 0
    server.now_ns += 61 * 10**9
    assert run(server.queue.end_strays()) == 1
    row = books.state()
    assert (row["state"], row["charge"], row["reason"], partner.calls) == ("failed", 0, "service_unavailable", [])


def test_run_under_way_is_no_stray(server: Server, caller: Caller, run: Run) -> None:
    """What this process works on is known to it by id, for as long as it works on it."""

    async def work() -> list[set[str]]:
        execution = server.executor.start(await server.admit(caller, "plain-now"))
        known = [server.executor.run_ids()]
        await execution.task
        return [*known, server.executor.run_ids()]

    assert run(work()) == [{"run-1"}, set()]
