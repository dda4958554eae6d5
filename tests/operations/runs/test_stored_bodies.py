"""Large bodies of live runs: blobs of their runs alone, which are gone when the runs are (S-02)."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from conftest import Run
from damage import blob_file, blob_files, flip
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, InsufficientCredits, ServiceUnavailable
from fairlead.domain.runs.replays import read_fault
from fairlead.domain.runs.states import RunState
from fairlead.observing.blobs import AssetsSwept, BlobTrouble
from fairlead.operations.assets.results import GRACE_MS, AssetSweeper
from fairlead.storage.blobs.store import FAN_OUT, BlobsUnavailableError
from operations.queueing import claim, enqueue
from operations.servers import CENT, DOLLAR, Partner, Server
from storage.bookings import Books
from storage.queued_runs import run_id

Start = Callable[[str], Server]

FIRST: Final = run_id()
TEXT: Final = "é\n" * 50_000
BODY: Final = {"n": 3, "text": TEXT}
SENT: Final = b'{"model":"plain-now",' + json.dumps(BODY).encode()[1:]


async def wait_until_deleted(server: Server) -> None:
    """Wait until the server has deleted what it wanted to."""
    await server.executor.drain(5)
    await server.stored.close()


@pytest.mark.req("S-02")
def test_large_body_waits_as_a_blob_and_is_deleted_with_its_run(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, tmp_path: Path
) -> None:
    """The database has the blob's name until the run ends; the partner gets every byte."""
    run(enqueue(server, caller, body=BODY))
    row = books.state(FIRST)
    (file,) = blob_files(tmp_path / "blobs")
    assert (row["request"], row["request_blob"], row["request_size"]) == (None, file.name, file.stat().st_size)
    assert file.read_bytes() == FIRST.encode() + json.dumps(BODY).encode()
    assert run(claim(server, caller))
    run(wait_until_deleted(server))
    assert partner.bodies == [SENT]
    row = books.state(FIRST)
    assert (row["state"], row["charge"]) == ("succeeded", 10 * CENT)
    assert (row["request_blob"], row["request_size"], blob_files(tmp_path / "blobs")) == (None, None, [])


@pytest.mark.req("S-02")
def test_same_body_of_two_runs_is_two_blobs(
    server: Server, caller: Caller, partner: Partner, run: Run, tmp_path: Path
) -> None:
    """The end of one run takes nothing from another with the same body."""
    for number in (1, 2):
        run(enqueue(server, caller, body=BODY, number=number))
    assert len(blob_files(tmp_path / "blobs")) == 2
    run(server.canceller.cancel(caller, "acme/plain-now", FIRST))
    run(wait_until_deleted(server))
    assert len(blob_files(tmp_path / "blobs")) == 1
    assert run(claim(server, caller, 2))
    assert partner.bodies == [SENT]


@pytest.mark.req("S-02")
def test_synchronous_run_leaves_no_body_behind(
    server: Server, caller: Caller, partner: Partner, run: Run, tmp_path: Path
) -> None:
    """Its body is a blob while the partner works, and none afterwards."""
    seen: list[int] = []

    async def look() -> None:
        seen.append(len(blob_files(tmp_path / "blobs")))

    partner.before = look
    run(server.answer(caller, body=BODY))
    run(wait_until_deleted(server))
    assert (seen, partner.bodies, blob_files(tmp_path / "blobs")) == ([1], [SENT], [])


@pytest.mark.req("S-02", "R-29")
def test_refused_admission_leaves_no_body_behind(
    server: Server, new_caller: Callable[..., Caller], run: Run, tmp_path: Path
) -> None:
    """A run that cannot be paid for is refused after its body was stored; the blob is deleted at once."""
    poor = new_caller(balance=1 * CENT)
    with pytest.raises(FaultError) as refused:
        run(enqueue(server, poor, body=BODY))
    run(wait_until_deleted(server))
    assert isinstance(refused.value.fault, InsufficientCredits)
    assert blob_files(tmp_path / "blobs") == []


@pytest.mark.req("S-02", "R-29")
def test_run_is_refused_while_the_store_is_away(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503, and nothing is held; a small body needs no store."""

    async def away(*_: Any) -> None:
        raise BlobsUnavailableError("away")

    monkeypatch.setattr(server.blobs, "place", away)
    with pytest.raises(FaultError) as refused:
        run(enqueue(server, caller, body=BODY))
    assert isinstance(refused.value.fault, ServiceUnavailable)
    assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)
    assert [one.doing for one in server.observations_of(BlobTrouble)] == ["store a request body"]
    run(enqueue(server, caller, number=2))
    assert run(claim(server, caller, 2))
    assert len(partner.bodies) == 1


@pytest.mark.req("S-02", "R-29")
def test_takeover_sends_a_large_body_again(
    start_server: Start, server: Server, caller: Caller, partner: Partner, books: Books, run: Run, tmp_path: Path
) -> None:
    """Another server that shares the store reads it there, and deletes it in the end."""
    run(server.admit(caller, "careful-now", BODY, FIRST))
    successor = start_server("server-2")

    async def take_over() -> int:
        taken = await successor.queue.take_over()
        await wait_until_deleted(successor)
        return taken

    assert run(take_over()) == 1
    assert (partner.keys, books.state(FIRST)["state"], books.state(FIRST)["attempt"]) == ([FIRST], "succeeded", 2)
    assert partner.bodies == [SENT.replace(b"plain", b"careful")]
    assert blob_files(tmp_path / "blobs") == []


@pytest.mark.req("S-02", "S-08", "R-29")
@pytest.mark.parametrize("lost", ["missing", "damaged", "another run's"])
def test_run_whose_body_is_lost_ends_without_a_charge(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, tmp_path: Path, lost: str
) -> None:
    """Nothing is sent, nothing stays held, and its collector is told what is lost."""
    run(enqueue(server, caller, body=BODY))
    file = blob_file(tmp_path / "blobs", str(books.state(FIRST)["request_blob"]))
    match lost:
        case "missing":
            file.unlink()
        case "damaged":
            flip(file, 1000)
        case _:
            run(enqueue(server, caller, body=BODY, number=2))
            books.sql("UPDATE runs SET request_blob = :name", name=books.state(run_id(2))["request_blob"])
    assert not run(claim(server, caller))
    assert (partner.calls, books.state(FIRST)["state"]) == ([], "failed")
    (row,) = books.rows("SELECT result_fault AS fault FROM runs WHERE id = :id", id=FIRST)
    fault = read_fault(bytes(row["fault"]))
    assert isinstance(fault, ServiceUnavailable)
    assert "stored request body is lost" in fault.detail
    if lost != "another run's":
        assert books.figures(caller.workspace_id) == (DOLLAR, 0, 0)


@pytest.mark.req("S-02")
def test_body_that_cannot_be_read_now_is_waited_for(
    server: Server, caller: Caller, partner: Partner, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is away for a moment costs no run."""
    read, failures = server.blobs.read, [BlobsUnavailableError("away"), BlobsUnavailableError("away")]

    async def sometimes(*how: Any) -> Any:
        if failures:
            raise failures.pop()
        return await read(*how)

    monkeypatch.setattr(server.blobs, "read", sometimes)
    msgspec.structs.force_setattr(server.resumer, "patience", (0.01, 0.01))
    run(enqueue(server, caller, body=BODY))
    assert run(claim(server, caller))
    assert partner.bodies == [SENT]


@pytest.mark.req("S-02")
def test_sweep_leaves_the_bodies_of_live_runs_alone(
    server: Server, caller: Caller, books: Books, run: Run, tmp_path: Path
) -> None:
    """However old a body is, it stays while its run waits; what a crash left of one that has ended is removed."""
    for number in (1, 2):
        run(enqueue(server, caller, body=BODY, number=number))
    kept = str(books.state(FIRST)["request_blob"])
    books.sql("UPDATE runs SET finished_at = 1 WHERE id = :id", id=run_id(2))  # as a server of the version before
    later = Clock(lambda: server.now_ns + 2 * GRACE_MS * 1_000_000)
    sweeper = AssetSweeper(server.database, server.blobs, later, server.seen.append)

    async def sweep() -> None:
        for _ in FAN_OUT:
            await sweeper.sweep()

    run(sweep())
    assert [file.name for file in blob_files(tmp_path / "blobs")] == [kept]
    assert _count_removed(server.observations_of(AssetsSwept)) == 1
    books.sql("UPDATE runs SET finished_at = NULL")


def _count_removed(swept: Sequence[AssetsSwept]) -> int:
    return sum(one.blobs for one in swept)


@pytest.mark.req("S-02")
def test_body_of_the_version_before_is_run(
    server: Server, caller: Caller, partner: Partner, books: Books, run: Run, tmp_path: Path
) -> None:
    """Large bodies that are in the database itself are read there."""
    run(enqueue(server, caller, body=BODY))
    books.sql("UPDATE runs SET request = :bytes, request_blob = NULL", bytes=json.dumps(BODY).encode())
    (file,) = blob_files(tmp_path / "blobs")
    file.unlink()
    assert run(claim(server, caller))
    assert (partner.bodies, books.state(FIRST)["state"]) == ([SENT], RunState.SUCCEEDED)
