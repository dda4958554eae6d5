"""Released work is claimed in turn over workspaces: on both databases, by several servers, however much one has."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import Run
from fairlead.domain.jobs.entries import Claimed, Submission
from fairlead.domain.ledger.books import UNLIMITED
from fairlead.domain.runs.entries import LiveRun, QueueTicket
from fairlead.domain.work.entries import Claim, Released
from fairlead.domain.work.pools import DEFAULT_POOL
from fairlead.storage.db.database import Database
from fairlead.storage.jobs import jobs
from fairlead.storage.jobs.entries import write_job_entries
from fairlead.storage.runs import queue
from fairlead.storage.runs.entries import write_entries
from fairlead.workers.work import ReleasedWork
from storage.bookings import NOW, Books, admission
from storage.plans import trace
from storage.queued_runs import BACKLOG, BASE_URL

pytestmark = pytest.mark.req("S-03")

_COUNTS: Final = {"lab": 100, "office": 20, "shop": 20}
_FIRST: Final = 32
_FOUND_AT_ONCE: Final = 50


@pytest.fixture
def books(database: Database, run: Run) -> Books:
    """Return the books of the test's database."""
    return Books(database, run)


class _Jobs:
    """Jobs of workspaces, as servers find and claim them."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def release(self, workspace_id: str, ids: Sequence[str], pool: str = DEFAULT_POOL) -> Sequence[Released]:
        """Submit jobs that are released at once; what the server that took them in is told."""
        entries = [
            Submission(
                id_, workspace_id, workflow=jobs.deflate(b'{"1":{}}'), extra=jobs.deflate(b"{}"), wanted='["1"]',
                nodes=1, created_at=NOW, backlog=BACKLOG, pool=pool,
            )
            for id_ in ids
        ]  # fmt: skip
        found: Sequence[Released] = self._books.do(lambda c: write_job_entries(c, entries)).released
        return found

    def find(self, behind: str, limit: int, pool: str = DEFAULT_POOL) -> Sequence[Released]:
        """Look for released ones."""
        found: Sequence[Released] = self._books.do(lambda c: jobs.QUEUE.find_released(c, pool, behind, limit))
        return found

    def claim(self, id_: str, workspace_id: str, server_id: str) -> bool:
        """Claim one for a server; whether it was still to be had."""
        entry = Claim(id_, workspace_id, server_id, NOW + 1)
        return isinstance(self._books.do(lambda c: write_job_entries(c, [entry])).verdicts[0], Claimed)


class _Runs:
    """Queued runs, likewise."""

    def __init__(self, books: Books) -> None:
        self._books = books

    def release(self, workspace_id: str, ids: Sequence[str], pool: str = DEFAULT_POOL) -> Sequence[Released]:
        """Queue runs that are released at once; what the server that took them in is told."""
        ticket = QueueTicket(BACKLOG, BASE_URL)
        entries = [admission(id_, 0, workspace_id=workspace_id, ticket=ticket, pool=pool) for id_ in ids]
        found: Sequence[Released] = self._books.do(lambda c: write_entries(c, entries)).released
        return found

    def find(self, behind: str, limit: int, pool: str = DEFAULT_POOL) -> Sequence[Released]:
        """Look for released ones."""
        found: Sequence[Released] = self._books.do(lambda c: queue.QUEUE.find_released(c, pool, behind, limit))
        return found

    def claim(self, id_: str, workspace_id: str, server_id: str) -> bool:
        """Claim one for a server; whether it was still to be had."""
        entry = Claim(id_, workspace_id, server_id, NOW + 1)
        return isinstance(self._books.do(lambda c: write_entries(c, [entry])).verdicts[0], LiveRun)


@pytest.fixture(params=[_Jobs, _Runs])
def kind(request: pytest.FixtureRequest, books: Books) -> Any:
    """Return jobs, then queued runs, of three workspaces without limits."""
    for name in _COUNTS:
        books.open(id_=f"{name}-id", balance=1_000, jobs_limit=UNLIMITED)
    return request.param(books)


def _release_all(kind: Any) -> dict[str, Sequence[Released]]:
    """Release every workspace's work, the largest first."""
    return {
        name: kind.release(f"{name}-id", [f"{name}-{number:03}" for number in range(count)])
        for name, count in _COUNTS.items()
    }


def _claim_next(kind: Any, work: ReleasedWork, server_id: str) -> str:
    """Have a server claim what is its next; the workspace of what it got."""
    while True:
        workspace_id = next(iter(work.workspaces))
        id_ = work.take(workspace_id)
        is_claimed = kind.claim(id_, workspace_id, server_id)
        work.forget(id_)
        if is_claimed:
            return workspace_id


def test_first_claims_are_shared_between_workspaces_by_who_looks(kind: Any) -> None:
    """Of 100, 20 and 20 runs released in this order, the first 32 claims are shared about equally."""
    _release_all(kind)
    work = ReleasedWork()
    work.refresh(kind.find("", _FOUND_AT_ONCE))
    claimed = Counter(_claim_next(kind, work, "server-1") for _ in range(_FIRST))
    assert sorted(claimed.values()) == [10, 11, 11]


def test_first_claims_are_shared_between_workspaces_by_who_is_told(kind: Any) -> None:
    """A server that was told of one workspace's crowd before the others' work serves them in turn all the same."""
    told = _release_all(kind)
    work = ReleasedWork()
    for released in told.values():
        work.tell(released)
    claimed = Counter(_claim_next(kind, work, "server-1") for _ in range(_FIRST))
    assert sorted(claimed.values()) == [10, 11, 11]


def test_several_servers_share_their_first_claims_between_workspaces(kind: Any) -> None:
    """Servers that know of different work, and compete for it, claim about as much of each workspace."""
    told = _release_all(kind)
    servers = {f"server-{name}": ReleasedWork() for name in _COUNTS}
    for name, released in told.items():
        servers[f"server-{name}"].tell(released)
    claimed: Counter[str] = Counter()
    while claimed.total() < _FIRST:
        for server_id, work in servers.items():
            work.refresh(kind.find(work.last_workspaces.get(DEFAULT_POOL, ""), _FOUND_AT_ONCE))
            claimed[_claim_next(kind, work, server_id)] += 1
    assert max(claimed.values()) - min(claimed.values()) <= len(servers)


def test_work_that_another_server_claimed_is_forgotten_at_the_next_look(kind: Any) -> None:
    """What was found and is released no more costs nobody a claim."""
    kind.release("lab-id", ["lab-1", "lab-2"])
    work = ReleasedWork()
    work.refresh(kind.find("", _FOUND_AT_ONCE))
    assert kind.claim("lab-1", "lab-id", "server-2")
    work.refresh(kind.find("", _FOUND_AT_ONCE))
    assert (len(work), *work.workspaces, work.take("lab-id")) == (1, "lab-id", "lab-2")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    counts=st.lists(st.integers(0, 8), min_size=3, max_size=3),
    limit=st.integers(1, 12),
    claims=st.lists(st.integers(1, 5), max_size=12),
    start=st.sampled_from(["", "lab-id", "office-id", "shop-id", "zoo-id"]),
)
def test_released_work_waits_no_longer_than_a_round(
    kind: Any, books: Books, counts: list[int], limit: int, claims: list[int], start: str
) -> None:
    """However much each has, and whatever a look finds at most: nobody is served twice while another it knows waits.

    A look that finds fewer than there are workspaces goes on with the others the next time, so within as many looks as
    there are workspaces each was served.
    """
    for table in ("job_events", "jobs", "ledger_entries", "runs"):
        books.sql(f"DELETE FROM {table}")  # noqa: S608 -- names of ours
    books.sql("UPDATE workspaces SET held = 0, in_flight = 0, waiting = 0, jobs_active = 0, balance = 0")
    left = {f"{name}-id": count for name, count in zip(_COUNTS, counts, strict=True)}
    for workspace_id, count in left.items():
        kind.release(workspace_id, [f"{workspace_id}-{number:03}" for number in range(count)])
    work, waited = ReleasedWork(), defaultdict[str, int](int)
    work.last_workspaces[DEFAULT_POOL] = start
    for rounds in claims:
        work.refresh(kind.find(work.last_workspaces.get(DEFAULT_POOL, ""), limit))
        served: Counter[str] = Counter()
        for _ in range(min(rounds, len(work))):
            served[_claim_next(kind, work, "server-1")] += 1
        left = {workspace_id: count - served[workspace_id] for workspace_id, count in left.items()}
        for workspace_id, count in left.items():
            waited[workspace_id] = waited[workspace_id] + 1 if count and not served[workspace_id] else 0
            assert waited[workspace_id] <= len(left)
        shares = [served[workspace_id] for workspace_id, count in left.items() if count]
        assert limit < len(left) or not shares or max(served.values()) - min(shares) <= 1
    books.sql("UPDATE workspaces SET in_flight = 0, waiting = 0, jobs_active = 0")
    for table in ("job_events", "jobs", "ledger_entries", "runs"):
        books.sql(f"DELETE FROM {table}")  # noqa: S608 -- names of ours


@pytest.mark.req("M-05")
def test_each_pool_is_looked_through_on_its_own(kind: Any) -> None:
    """Who works for a pool finds its work only, some of every workspace, whatever waits in others."""
    for name in _COUNTS:
        kind.release(f"{name}-id", [f"{name}-{number:03}" for number in range(60)])
    kind.release("lab-id", ["lab-x", "lab-y"], pool="gpu")
    told = kind.release("shop-id", ["shop-x"], pool="gpu")
    assert told == [Released("shop-x", "shop-id", "gpu")]
    found = kind.find("", _FOUND_AT_ONCE, pool="gpu")
    assert {(one.id, one.pool) for one in found} == {("lab-x", "gpu"), ("lab-y", "gpu"), ("shop-x", "gpu")}
    assert kind.find("", 2, pool="gpu") == [("lab-x", "lab-id", "gpu"), ("shop-x", "shop-id", "gpu")]
    assert all(one.pool == DEFAULT_POOL for one in kind.find("", 200))
    assert kind.find("", _FOUND_AT_ONCE, pool="nobodys") == []


@pytest.mark.parametrize("is_analyzed", [True, False])
def test_look_reads_no_more_of_a_crowd_than_it_returns(kind: Any, books: Books, *, is_analyzed: bool) -> None:
    """Each row is found by the index of what is released, in order; nothing is sorted, and no table is read whole."""
    find, table = (jobs.QUEUE.find_released, "jobs") if isinstance(kind, _Jobs) else (queue.QUEUE.find_released, "runs")
    for name in _COUNTS:
        kind.release(f"{name}-id", [f"{name}-{number:04}" for number in range(1_000)])
    waits, has_ended = ("parked", "succeeded") if table == "jobs" else ("parked", "completed")
    books.sql(f"UPDATE {table} SET state = '{waits}' WHERE id > 'lab-0020' AND id < 'lab-0900'")  # noqa: S608 -- ours
    books.sql(f"UPDATE {table} SET state = '{has_ended}' WHERE id > 'office-0020'")  # noqa: S608 -- same
    if is_analyzed:
        books.sql("ANALYZE")
    statements = trace(books, lambda c: find(c, DEFAULT_POOL, "lab-id", 60))
    assert statements
    for sql, steps in statements:
        assert f"ix_{table}_released_pool" in steps, (sql, steps)
        unwanted = (f"Seq Scan on {table}", f"SCAN {table}", "SCAN row", "SCAN other", "Hash", "Sort", "TEMP B-TREE")
        assert not any(word in steps for word in unwanted), (sql, steps)
