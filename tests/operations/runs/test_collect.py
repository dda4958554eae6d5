"""Status and collection of queued runs without an API: time, missing blobs, an away database."""

import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from conftest import Run
from damage import blob_files, flip
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import Fault, FaultError, InternalError, ProviderError, RequestNotFound, ServiceUnavailable
from fairlead.domain.runs.outcomes import Completed, Failed
from fairlead.domain.runs.queue import QueueStatus
from fairlead.operations.runs.collect import RequestStatus
from fairlead.operations.runs.results import INLINE_MAX, Answer
from operations.queueing import claim, enqueue, make_run
from operations.servers import CENT, DONE, WEEK_MS, Partner, Server
from storage.bookings import Books
from storage.queued_runs import run_id

Ask: TypeAlias = Callable[[str], Coroutine[Any, Any, Any]]
MODEL = "acme/plain-now"
FIRST = run_id()
_EXPIRED = RequestNotFound(expired=True)


def refusal_of(run: Run, asked: Coroutine[Any, Any, Any]) -> Fault:
    """Say what a question is refused with."""
    with pytest.raises(FaultError) as raised:
        run(asked)
    return raised.value.fault


def _both(server: Server, caller: Caller, id_: str = FIRST) -> list[Coroutine[Any, Any, Any]]:
    return [server.collector.status(caller, MODEL, id_), server.collector.collect(caller, MODEL, id_)]


@pytest.mark.req("R-33", "R-34")
def test_run_is_told_as_it_stands(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """Waiting, under way and completed, to anyone who asks for the status or for the result."""
    run(enqueue(server, caller))
    waiting = RequestStatus(FIRST, MODEL, QueueStatus.IN_QUEUE, 1, 0)
    assert [run(asked) for asked in _both(server, caller)] == [waiting, waiting]
    told: list[Any] = []

    async def look() -> None:
        server.now_ns += 24_000_000_000
        told.extend([await asked for asked in _both(server, caller)])

    partner.before = look
    assert run(claim(server, caller))
    assert told == [RequestStatus(FIRST, MODEL, QueueStatus.IN_PROGRESS, 6)] * 2
    assert run(server.collector.status(caller, MODEL, FIRST)) == RequestStatus(FIRST, MODEL, QueueStatus.COMPLETED, 1)
    answer = run(server.collector.collect(caller, MODEL, FIRST))
    content, content_type = b'{"data": "x", "used": 1, "status": "done"}', "application/json"
    assert answer == Answer(Completed(content, content_type, 200), 10 * CENT)


@pytest.mark.req("R-34")
def test_failure_is_told_whole_and_without_a_charge(server: Server, caller: Caller, partner: Partner, run: Run) -> None:
    """What a partner failed with is kept whole, and nothing is told of a charge."""
    partner.statuses["/now"] = 501  # after which nothing is tried again
    id_ = run(make_run(server, caller))
    status, answer = (run(asked) for asked in _both(server, caller, id_))
    assert (status.status, status.error_type) == (QueueStatus.COMPLETED, "provider_error")
    assert isinstance(answer.outcome, Failed)
    assert isinstance(answer.outcome.fault, ProviderError)
    assert answer.charge is None


@pytest.mark.req("R-34")
@pytest.mark.parametrize("has_failed", [False, True])
def test_result_is_kept_for_a_week(
    server: Server, caller: Caller, partner: Partner, run: Run, *, has_failed: bool
) -> None:
    """The result is kept for exactly a week from the end of its run, and is gone afterwards, swept or not."""
    if has_failed:
        partner.statuses["/now"] = 501
    run(make_run(server, caller))
    server.now_ns += (WEEK_MS - 1) * 1_000_000
    assert [type(run(asked)) for asked in _both(server, caller)] == [RequestStatus, Answer]
    server.now_ns += 1_000_000
    assert [refusal_of(run, asked) for asked in _both(server, caller)] == [_EXPIRED, _EXPIRED]
    while run(server.replayer.forget()):
        pass
    assert [refusal_of(run, asked) for asked in _both(server, caller)] == [_EXPIRED, _EXPIRED]
    assert not run(server.canceller.cancel(caller, MODEL, FIRST))


@pytest.mark.req("R-34")
def test_large_result_is_kept_as_a_blob(
    server: Server, caller: Caller, partner: Partner, books: Books, tmp_path: Path, run: Run
) -> None:
    """What is larger than a row should be is a blob; without it the result is missing, and the status says so."""
    partner.answers["/now"] = {**DONE, "data": "x" * INLINE_MAX}
    run(make_run(server, caller))
    (row,) = books.rows(
        "SELECT result_content AS content, result_blob AS blob, result_size AS size FROM runs"
        " WHERE result_expires_at IS NOT NULL"
    )
    assert (row["content"], row["size"] > INLINE_MAX, len(row["blob"])) == (None, True, 64)
    answer = run(server.collector.collect(caller, MODEL, FIRST))
    assert len(answer.outcome.content) == row["size"]
    shutil.rmtree(tmp_path / "blobs")
    missing = RequestNotFound(expired=True, is_lost=True)
    assert refusal_of(run, server.collector.collect(caller, MODEL, FIRST)) == missing
    status = run(server.collector.status(caller, MODEL, FIRST))
    assert (status.status, status.error_type) == (QueueStatus.COMPLETED, "request_not_found")


@pytest.mark.req("S-08", "R-33", "R-34")
def test_damaged_result_is_an_error_to_collectors_and_in_the_status(
    server: Server, caller: Caller, partner: Partner, tmp_path: Path, run: Run
) -> None:
    """Bytes that are not those of the answer are never collected; the status has the bucket that collecting has."""
    partner.answers["/now"] = {**DONE, "data": "x" * INLINE_MAX}
    run(make_run(server, caller))
    assert run(server.collector.status(caller, MODEL, FIRST)).error_type is None
    (blob,) = blob_files(tmp_path / "blobs")
    flip(blob, 1000)
    assert isinstance(refusal_of(run, server.collector.collect(caller, MODEL, FIRST)), InternalError)
    status = run(server.collector.status(caller, MODEL, FIRST))
    assert (status.status, status.error_type) == (QueueStatus.COMPLETED, "internal_error")
    flip(blob, 1000)
    assert run(server.collector.status(caller, MODEL, FIRST)).error_type is None
    assert isinstance(run(server.collector.collect(caller, MODEL, FIRST)), Answer)


@pytest.mark.req("R-33")
def test_status_of_a_run_stands_while_its_store_is_away(
    server: Server, caller: Caller, partner: Partner, tmp_path: Path, run: Run
) -> None:
    """A result that cannot be read now is not lost: collecting it is tried again."""
    partner.answers["/now"] = {**DONE, "data": "x" * INLINE_MAX}
    run(make_run(server, caller))
    shutil.rmtree(tmp_path / "blobs")
    (tmp_path / "blobs").write_text("no folder")
    assert run(server.collector.status(caller, MODEL, FIRST)).error_type is None
    assert isinstance(refusal_of(run, server.collector.collect(caller, MODEL, FIRST)), ServiceUnavailable)


@pytest.mark.req("R-29", "R-34")
def test_large_result_is_kept_in_the_database_when_the_store_is_full(
    server: Server, caller: Caller, partner: Partner, books: Books, tmp_path: Path, run: Run
) -> None:
    """Where no blob can be written a large result is kept in the database: it was paid for."""
    partner.answers["/now"] = {**DONE, "data": "x" * INLINE_MAX}
    shutil.rmtree(tmp_path / "blobs")
    (tmp_path / "blobs").write_text("no folder")
    run(make_run(server, caller))
    (row,) = books.rows("SELECT result_blob AS blob, result_size AS size FROM runs WHERE result_expires_at IS NOT NULL")
    assert row["blob"] is None
    assert len(run(server.collector.collect(caller, MODEL, FIRST)).outcome.content) == row["size"]


def test_unavailable_database_is_503_for_status_and_result(server: Server, caller: Caller, run: Run) -> None:
    """Neither a run nor its absence is told while the database is away; what is read in two steps may meet it twice."""
    run(make_run(server, caller))
    for asked in (*_both(server, caller), server.canceller.cancel(caller, MODEL, FIRST)):
        server.database.refusals = 1
        assert isinstance(refusal_of(run, asked), ServiceUnavailable)
    assert isinstance(run(server.collector.collect(caller, MODEL, FIRST)), Answer)


@pytest.mark.req("R-33")
@pytest.mark.parametrize("id_", ["", "x", FIRST.upper(), FIRST + "\n", FIRST.replace("-", ""), run_id(2)])
def test_malformed_id_is_never_looked_up(server: Server, caller: Caller, run: Run, id_: str) -> None:
    """What cannot be an id never reaches the database, and is answered like what is none."""
    run(make_run(server, caller))
    server.database.refusals = 0 if id_ == run_id(2) else 1
    assert [refusal_of(run, asked) for asked in _both(server, caller, id_)] == [RequestNotFound()] * 2
    server.database.refusals = 0


@pytest.mark.req("R-33", "R-06")
def test_runs_of_a_retired_model_are_still_told(server: Server, caller: Caller, folder: Path, run: Run) -> None:
    """What was run while the model was there is told after it has gone."""
    run(make_run(server, caller))
    (folder / "plain-now.toml").unlink()
    server.catalog.reload()
    assert [type(run(asked)) for asked in _both(server, caller)] == [RequestStatus, Answer]


@pytest.mark.req("R-33")
def test_stranger_is_told_nothing_of_a_run(server: Server, new_caller: Callable[..., Caller], run: Run) -> None:
    """Neither another workspace nor another model's address leads to a run; a synchronous one has none at all."""
    caller, stranger = new_caller(), new_caller(name="office")
    run(make_run(server, caller))
    run(server.answer(caller, run_id=run_id(2)))
    collector = server.collector
    for asked in (
        collector.collect(stranger, MODEL, FIRST),
        collector.collect(caller, "acme/plain-later", FIRST),
        collector.collect(caller, MODEL, run_id(2)),
    ):
        assert refusal_of(run, asked) == RequestNotFound()
