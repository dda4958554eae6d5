"""Released work by pool, and who works for it, without reading more rows than are shown (M-05)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import pytest
from sqlalchemy import Connection, update

from fairlead.domain.jobs.entries import Submission
from fairlead.domain.runs.entries import QueueTicket
from fairlead.domain.work.entries import Claim
from fairlead.domain.work.pools import WorkedPools
from fairlead.storage.db.tables import servers
from fairlead.storage.jobs import jobs
from fairlead.storage.jobs.entries import write_job_entries
from fairlead.storage.runs import queue as runs
from fairlead.storage.runs.entries import write_entries
from fairlead.storage.work.table import PoolBacklog, announce_server, read_pools
from storage.bookings import LAB, NOW, SERVER, Books, admission
from storage.plans import trace
from storage.queued_runs import BACKLOG, BASE_URL

pytestmark = pytest.mark.req("M-05")

_TABLES: Final = {"runs": runs.QUEUE, "jobs": jobs.QUEUE}
_MANY: Final = 130
"""More pools than are looked at beside those with a name."""
_SINCE: Final = NOW - 20_000
Release = Callable[..., None]


@pytest.fixture
def books(books: Books) -> Books:
    """Return books with a workspace that has slots for everything."""
    books.open(balance=10_000, in_flight_limit=_MANY, jobs_limit=_MANY)
    return books


def _release_runs(books: Books, pools: Sequence[str]) -> None:
    ticket = QueueTicket(BACKLOG, BASE_URL)
    entries = [admission(f"run-{number:03}", 0, ticket=ticket, pool=pool) for number, pool in enumerate(pools)]
    books.do(lambda c: write_entries(c, entries))


def _release_jobs(books: Books, pools: Sequence[str]) -> None:
    document = jobs.deflate(b"{}")
    entries = [
        Submission(f"job-{number:03}", LAB, document, document, "[]", 1, NOW, BACKLOG, pool=pool)
        for number, pool in enumerate(pools)
    ]
    books.do(lambda c: write_job_entries(c, entries))


def _read_pools(books: Books, kind: str, *named: str) -> Sequence[PoolBacklog]:
    seen: Sequence[PoolBacklog] = books.do(lambda c: read_pools(c, _TABLES, _SINCE, named))[kind]
    return seen


def _announce(books: Books, server_id: str, pools: WorkedPools, at: int = NOW) -> None:
    books.do(partial(announce_server, server_id=server_id, now=at, forget_before=0, pools=pools))


@pytest.mark.parametrize(("kind", "release"), [("runs", _release_runs), ("jobs", _release_jobs)])
def test_released_work_is_counted_by_pool(books: Books, kind: str, release: Release) -> None:
    """Pools that rules name, the default and those with work are there, each with what waits for a server."""
    release(books, ["gpu", "typo", "gpu", "default", "gpu"])
    write = write_entries if kind == "runs" else write_job_entries
    books.do(lambda c: write(c, [Claim(f"{kind[:-1]}-000", LAB, SERVER, NOW + 1)]))
    assert _read_pools(books, kind, "gpu", "idle") == [
        PoolBacklog("default", 1, is_named=True, is_worked_for=False),
        PoolBacklog("gpu", 2, is_named=True, is_worked_for=False),
        PoolBacklog("idle", 0, is_named=True, is_worked_for=False),
        PoolBacklog("typo", 1, is_named=False, is_worked_for=False),
    ]
    assert [one.waiting for one in _read_pools(books, "jobs" if kind == "runs" else "runs")] == [0]


def test_parked_work_waits_for_no_pool(books: Books) -> None:
    """What waits for a slot of its workspace could not be executed by any server."""
    _release_jobs(books, ["gpu"] * (_MANY + 5))
    assert _read_pools(books, "jobs")[-1] == PoolBacklog("gpu", _MANY, is_named=False, is_worked_for=False)


def test_only_servers_that_live_and_have_places_work_for_a_pool(books: Books) -> None:
    """One that is silent, or that has no places for a kind of work, does not; its pools are named while it lives."""
    _announce(books, "living", WorkedPools(runs=("gpu", "default"), jobs=()))
    _announce(books, "silent", WorkedPools(("slow",), ("slow",)), at=_SINCE)
    assert [(one.pool, one.is_worked_for) for one in _read_pools(books, "runs")] == [("default", True), ("gpu", True)]
    assert [(one.pool, one.is_worked_for) for one in _read_pools(books, "jobs")] == [("default", False), ("gpu", False)]


def test_server_of_a_version_without_pools_works_for_the_default(books: Books) -> None:
    """During an upgrade its work is not reported as that of nobody."""
    _announce(books, "old", WorkedPools())
    books.do(lambda c: c.execute(update(servers).values(pools=None)))
    assert _read_pools(books, "jobs") == [PoolBacklog("default", 0, is_named=True, is_worked_for=True)]


@pytest.mark.parametrize(("kind", "release"), [("runs", _release_runs), ("jobs", _release_jobs)])
def test_pools_of_deployments_hide_no_pool_with_a_name(books: Books, kind: str, release: Release) -> None:
    """Of any number of pools that no operator has named some are looked at, and all that operators have."""
    release(books, [*(f"a-{number:03}" for number in range(_MANY - 1)), "zoo"])
    seen = _read_pools(books, kind, "zoo")
    assert seen[-1] == PoolBacklog("zoo", 1, is_named=True, is_worked_for=False)
    assert 100 <= sum(one.waiting for one in seen if not one.is_named) < _MANY - 1


def test_released_work_is_counted_by_an_index(books: Books) -> None:
    """However much has ended or is parked, no table of work is read from end to end."""
    for statement, steps in trace(books, _look):
        assert not any(word in steps for word in ("Seq Scan on runs", "Seq Scan on jobs")), statement
        if "SCAN other" in steps or "SEARCH other" in steps:
            assert "_released_pool" in steps, statement


def _look(connection: Connection) -> object:
    return read_pools(connection, _TABLES, _SINCE, ("gpu",))
