"""What is seen of the queues, the servers and the database without looking at every row, and without special rights."""

from collections.abc import Iterator
from functools import partial

import pytest

from conftest import Run
from databases import Postgres
from fairlead.domain.jobs.entries import Submission
from fairlead.domain.work.entries import Claim
from fairlead.storage.db.figures import DatabaseFigures, read_figures
from fairlead.storage.db.opening import open_database
from fairlead.storage.jobs import jobs
from fairlead.storage.jobs.entries import write_job_entries
from fairlead.storage.runs import queue as runs
from fairlead.storage.runs.entries import write_entries
from fairlead.storage.work.table import Backlog, Leases, announce_server, read_leases
from storage.bookings import LAB, NOW, SERVER, Books
from storage.plans import trace
from storage.queued_runs import queue

OTHER = "office-id"
SILENT_MS = 20_000


@pytest.fixture
def books(books: Books) -> Books:
    """Return books with two workspaces of different subscriptions, each with one slot for runs and one for jobs."""
    for id_, subscription in ((LAB, "free"), (OTHER, "pro")):
        books.open(id_, balance=10_000, in_flight_limit=1, jobs_limit=1, subscription=subscription)
    return books


def _submit(books: Books, job_id: str, workspace_id: str, at: int) -> None:
    job = Submission(
        job_id, workspace_id, workflow=jobs.deflate(b"{}"), extra=jobs.deflate(b"{}"), wanted="[]", nodes=1,
        created_at=at, backlog=100,
    )  # fmt: skip
    books.do(lambda c: write_job_entries(c, [job]))


def test_backlog_is_counted_by_subscription_with_its_oldest(books: Books) -> None:
    """Released and parked work of all workspaces of a class, runs and jobs alike; what was claimed waits no more."""
    for number, (workspace_id, at) in enumerate(((LAB, 5), (LAB, 3), (OTHER, 9))):
        queue(books, f"run-{number}", None, workspace_id=workspace_id, created_at=NOW + at)
        _submit(books, f"job-{number}", workspace_id, NOW + at)
    expected = [Backlog("free", 2, 1, NOW + 5), Backlog("pro", 1, 0, NOW + 9)]
    for table in (runs.QUEUE, jobs.QUEUE):
        assert sorted(books.do(table.backlog), key=lambda one: one.subscription) == expected
    books.do(lambda c: write_entries(c, [Claim("run-2", OTHER, SERVER, NOW + 10)]))
    books.do(lambda c: write_job_entries(c, [Claim("job-2", OTHER, SERVER, NOW + 10)]))
    for table in (runs.QUEUE, jobs.QUEUE):
        assert Backlog("pro", 0, 0, None) in books.do(table.backlog)


def test_backlog_is_read_by_the_first_of_each_workspace(books: Books) -> None:
    """However much waits, and however much has ended, no table of work is read from end to end."""
    for table in (runs.QUEUE, jobs.QUEUE):
        ((sql, steps),) = trace(books, table.backlog)
        assert not any(word in steps for word in ("Seq Scan on runs", "Seq Scan on jobs", "SCAN runs", "SCAN jobs")), (
            sql
        )
        assert not any(word in steps for word in ("Sort Key: runs", "Sort Key: jobs", "FOR ORDER BY")), steps


def test_leases_tell_the_living_from_those_whose_work_is_to_be_taken_over(books: Books) -> None:
    """A server that fell silent counts while it has work that has not ended, whatever kind of work that is."""
    for server_id, seen_at in (("quiet", 0), (SERVER, 0), ("old", NOW - SILENT_MS + 1), ("young", NOW - 1)):
        books.do(partial(announce_server, server_id=server_id, now=seen_at, forget_before=0))
    seen = partial(read_leases, tables=(runs.QUEUE, jobs.QUEUE), now=NOW, silent_ms=SILENT_MS)
    assert books.do(seen) == Leases(2, 0, SILENT_MS - 1)
    _submit(books, "job-1", LAB, NOW)
    books.do(lambda c: write_job_entries(c, [Claim("job-1", LAB, SERVER, NOW)]))
    assert books.do(seen) == Leases(2, 1, SILENT_MS - 1)


def test_figures_of_sqlite_are_those_of_its_files(sqlite_url: str, run: Run) -> None:
    """The log grows with what is written until its pages are copied into the database."""
    database = open_database(sqlite_url)
    before = run(database.read(read_figures))
    run(database.write(lambda c: c.exec_driver_sql("CREATE TABLE more AS SELECT randomblob(100000) AS x")))
    after = run(database.read(read_figures))
    run(database.close())
    assert after.wal > before.wal + 100_000
    assert (after.size, after.connections) == (before.size, None)


@pytest.fixture
def poor_url(postgres: Postgres) -> Iterator[str]:
    """Return the URL of a database that is opened by a role without any rights of a superuser's."""
    name = postgres.create()
    postgres.execute("CREATE ROLE poor LOGIN", f"ALTER DATABASE {name} OWNER TO poor")
    yield postgres.url(name).replace("postgres@", "poor@")
    postgres.drop(name)
    postgres.execute("DROP ROLE poor")


def test_figures_of_postgresql_need_no_superuser(poor_url: str, run: Run) -> None:
    """The owner of a database sees how large it is, how long its log, and how many connections there are."""
    database = open_database(poor_url)
    figures: DatabaseFigures = run(database.read(read_figures))
    run(database.close())
    assert figures.size > 1_000_000
    assert figures.wal is not None
    assert figures.wal >= 0
    assert 1 <= (figures.connections or 0) <= (figures.connections_most or 0)


def test_figures_do_without_what_a_role_may_not_read(postgres: Postgres, poor_url: str, run: Run) -> None:
    """Where a provider of databases keeps the log to itself, everything else is read all the same."""
    name = poor_url.rpartition("/")[2]
    postgres.execute("REVOKE EXECUTE ON FUNCTION pg_control_checkpoint() FROM PUBLIC", database=name)
    database = open_database(poor_url)
    figures: DatabaseFigures = run(database.read(read_figures))
    run(database.close())
    assert (figures.wal, figures.size > 0) == (None, True)
