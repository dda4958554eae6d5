"""Ids that callers chose for their jobs: one namespace for each workspace, whatever others choose (C-04)."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import pytest
from alembic import command
from alembic.config import Config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from conftest import Run
from databases import opened_database
from fairlead.domain.jobs.entries import Claimed, JobEntry, JobProgress, Moved, NewEvent, Submitted
from fairlead.domain.jobs.faults import DuplicateJob
from fairlead.domain.jobs.jobs import Job
from fairlead.domain.jobs.listing import JobPage, LabelFilter, ListQuery
from fairlead.domain.jobs.states import JobState
from fairlead.domain.work.entries import Superseded
from fairlead.storage.db import migrate
from fairlead.storage.db.database import Database
from fairlead.storage.db.opening import open_database
from fairlead.storage.jobs import jobs
from fairlead.storage.jobs.entries import WrittenJobs, write_job_entries
from fairlead.storage.jobs.ids import find_known_as
from storage.bookings import LAB, NOW, SERVER, Books
from storage.jobs.test_jobs import OTHER, cancel, claim, ending, states, submission, verdicts, write
from storage.plans import trace

pytestmark = pytest.mark.req("C-04", "C-13")

CHOSEN: Final = "0a1b2c3d-1111-4222-8333-444455556666"


@pytest.fixture
def books(books: Books) -> Books:
    """Return books with two workspaces, each with one parallel job."""
    books.open(jobs_limit=1)
    books.open(id_=OTHER, jobs_limit=1)
    return books


def find(books: Books, workspace_id: str, public_id: str) -> Job | None:
    """Return the job that callers of a workspace know by an id."""
    job: Job | None = books.do(lambda c: jobs.find_job(c, workspace_id, public_id, whole=False))
    return job


def test_id_chosen_by_another_workspace_is_free(books: Books) -> None:
    """Both have a job of that id, in one batch or in two, and each finds its own."""
    both = verdicts(books, submission("a", chosen_id=CHOSEN), submission("b", OTHER, chosen_id=CHOSEN))
    assert both == [Submitted(1, JobState.RELEASED)] * 2
    mine, theirs = find(books, LAB, CHOSEN), find(books, OTHER, CHOSEN)
    assert mine is not None
    assert theirs is not None
    assert [(job.id, job.public_id, job.workspace_id) for job in (mine, theirs)] == [
        ("a", CHOSEN, LAB), ("b", CHOSEN, OTHER),
    ]  # fmt: skip
    assert verdicts(books, submission("c", OTHER, chosen_id="a")) == [Submitted(2, JobState.PARKED)]


def test_id_is_used_once_in_a_workspace(books: Books) -> None:
    """A used id is refused in the same batch and later, also where it is a job's own id, and no row is written."""
    again = DuplicateJob(CHOSEN)
    first = verdicts(books, submission("a", chosen_id=CHOSEN), submission("b", chosen_id=CHOSEN), submission("c"))
    assert first == [Submitted(1, JobState.RELEASED), again, Submitted(2, JobState.PARKED)]
    assert verdicts(books, submission("d", chosen_id=CHOSEN)) == [again]
    assert verdicts(books, submission("e", chosen_id="c")) == [DuplicateJob("c")]
    assert states(books) == {"a": "released", "c": "parked"}


def test_own_id_of_a_job_with_a_chosen_one_is_unknown(books: Books) -> None:
    """Nobody was told of it, so that it finds nothing, and may be chosen as any other."""
    write(books, submission("a", chosen_id=CHOSEN))
    assert find(books, LAB, "a") is None
    assert books.do(lambda c: find_known_as(c, [(LAB, "a"), (OTHER, CHOSEN)])) == []
    assert verdicts(books, submission("b", chosen_id="a")) == [Submitted(2, JobState.PARKED)]
    known = [find(books, LAB, public_id) for public_id in (CHOSEN, "a", "b")]
    assert [job and job.id for job in known] == ["a", "b", None]


def _pages(connection: Connection, query: ListQuery) -> list[JobPage]:
    return [jobs.list_jobs(connection, workspace_id, query) for workspace_id in (LAB, OTHER)]


def test_jobs_of_one_chosen_id_are_kept_apart(books: Books) -> None:
    """Progress, cancelling, the end, labels and lists are the job's alone; verdicts tell it by its public id."""
    labels = {"project": "x"}
    for job_id, workspace_id in (("a", LAB), ("b", OTHER)):
        write(books, submission(job_id, workspace_id, chosen_id=CHOSEN, labels=labels, server_id=SERVER))
    event = NewEvent(1, "Started", b"{}", NOW)
    assert verdicts(books, JobProgress("a", LAB, 1, "{}", (event,), NOW)) == [None]
    assert verdicts(books, cancel("b", LAB)) == [Superseded()]
    assert verdicts(books, cancel("b", OTHER)) == [Moved(JobState.CANCELING, CHOSEN, SERVER)]
    assert verdicts(books, ending("a")) == [Moved(JobState.SUCCEEDED, CHOSEN)]
    assert (states(books), states(books, OTHER)) == ({"a": "succeeded"}, {"b": "canceling"})
    asked = [(LAB, "a"), (OTHER, "b"), (OTHER, "a")]
    assert books.do(lambda c: [len(jobs.events_of(c, *ids)) for ids in asked]) == [1, 0, 0]
    for query in (ListQuery(), ListQuery(labels=[LabelFilter("project", "x")])):
        pages = books.do(partial(_pages, query=query))
        assert [[(job.public_id, job.state) for job in page.jobs] for page in pages] == [
            [(CHOSEN, JobState.SUCCEEDED)], [(CHOSEN, JobState.CANCELING)],
        ]  # fmt: skip


def test_chosen_id_is_free_again_when_its_job_is_forgotten(books: Books) -> None:
    """Then it may be chosen again, for a job that is another; that of another workspace stays all the while."""
    for job_id, workspace_id in (("a", LAB), ("b", OTHER)):
        write(books, submission(job_id, workspace_id, chosen_id=CHOSEN, server_id=SERVER))
    write(books, ending("a"))
    assert verdicts(books, submission("c", chosen_id=CHOSEN)) == [DuplicateJob(CHOSEN)]
    assert books.do(lambda c: jobs.delete_expired_jobs(c, NOW + 10_000, 10)).count == 1
    assert find(books, LAB, CHOSEN) is None
    theirs = find(books, OTHER, CHOSEN)
    assert (theirs and theirs.id) == "b"
    assert verdicts(books, submission("c", chosen_id=CHOSEN)) == [Submitted(2, JobState.RELEASED)]
    assert verdicts(books, ending("a")) == [Superseded()]
    assert verdicts(books, claim("c")) == [Claimed(1, 0)]


def test_concurrent_submissions_use_an_id_once(books: Books, database: Database, run: Run) -> None:
    """The second waits for the first, and is refused; in another workspace nobody waits."""

    async def submit(job_id: str, workspace_id: str = LAB) -> WrittenJobs:
        entry = submission(job_id, workspace_id, chosen_id=CHOSEN)
        return await database.write(lambda c: write_job_entries(c, [entry]))

    async def at_once() -> list[WrittenJobs]:
        return list(await asyncio.gather(submit("a"), submit("b"), submit("c"), submit("d", OTHER)))

    done = [batch.verdicts[0] for batch in run(at_once())]
    assert done[:3].count(DuplicateJob(CHOSEN)) == 2
    assert done[3] == Submitted(1, JobState.RELEASED)
    assert len(states(books)) == 1


_IDS: Final = ("1", "2", "x", "y")
_choices: Final = st.lists(st.tuples(st.sampled_from((LAB, OTHER)), st.sampled_from((None, *_IDS))), max_size=8)


@given(batches=st.lists(_choices, max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_id_finds_at_most_one_job_of_a_workspace(
    batches: list[list[tuple[str, str | None]]], tmp_path_factory: pytest.TempPathFactory, run: Run
) -> None:
    """Whatever is chosen, also the own ids of others: an id finds the job that was told by it, and no other."""
    known: dict[tuple[str, str], str] = {}
    numbers = iter(range(1, 1_000))
    database = open_database(f"sqlite:///{tmp_path_factory.mktemp('ids') / 'x.db'}")
    own = Books(database, run)
    try:
        run(migrate.migrate(database))
        for workspace_id in (LAB, OTHER):
            own.open(id_=workspace_id, jobs_limit=-1)
        for choices in batches:
            entries = [submission(str(next(numbers)), where, chosen_id=chosen) for where, chosen in choices]
            done = own.do(partial(write_job_entries, entries=entries)).verdicts
            for entry, verdict in zip(entries, done, strict=True):
                name = entry.workspace_id, entry.chosen_id or entry.job_id
                assert isinstance(verdict, DuplicateJob) == (name in known and entry.chosen_id is not None)
                if isinstance(verdict, Submitted):
                    known[name] = entry.job_id
        asked = [(workspace_id, name) for workspace_id in (LAB, OTHER) for name in (*_IDS, *map(str, range(1, 40)))]
        assert {row[:2]: row[2] for row in own.do(lambda c: find_known_as(c, asked))} == known
        assert {name: job.id for name in asked if (job := find(own, *name)) is not None} == known
    finally:
        run(database.close())


_BACKLOG: Final = 100_000
_LOOKUPS: Final[Mapping[str, Callable[[Connection], Any]]] = {
    "chosen": lambda c: jobs.find_job(c, LAB, "c77", whole=False),
    "own": lambda c: jobs.find_job(c, LAB, "78", whole=False),
    "several": lambda c: find_known_as(c, [(LAB, "c77"), (OTHER, "c77"), (LAB, "78")]),
    "submission": lambda c: write_job_entries(c, [submission("new", chosen_id="new", backlog=_BACKLOG)]),
}


@pytest.mark.parametrize("is_analyzed", [True, False])
def test_lookup_by_public_ids_uses_indexes(books: Books, *, is_analyzed: bool) -> None:
    """However many jobs there are: each statement goes by the indexes of both ids, and reads nothing beforehand.

    Without statistics PostgreSQL takes a few thousand jobs for so few that any index will do.
    """
    ids = ((str(number), f"c{number}" if number % 2 else None) for number in range(10_000))
    write(books, *(submission(job_id, chosen_id=chosen, backlog=_BACKLOG) for job_id, chosen in ids))
    if is_analyzed:
        books.sql("ANALYZE")
    for name, lookup in _LOOKUPS.items():
        statements = trace(books, lookup)
        asked = [one for one in statements if one[0].startswith(("SELECT", "WITH")) and "chosen_id" in one[0]]
        assert len(asked) == 1, name
        ((sql, steps),) = asked
        read_whole = [word for word in ("Seq Scan on jobs", "SCAN jobs", "Hash Join", "BLOOM") if word in steps]
        assert not read_whole, (name, sql, steps)
        assert "uq_jobs_workspace_chosen" in steps, (name, sql, steps)
        assert "pk_jobs" in steps or "sqlite_autoindex_jobs_1" in steps, (name, sql, steps)


def test_submission_without_a_chosen_id_is_not_looked_up(books: Books) -> None:
    """Its own id is new, so that nothing is asked about any job before it is written."""
    asked = trace(books, lambda c: write_job_entries(c, [submission("a")]))
    assert [sql for sql, _ in asked if "FROM jobs" in sql] == []


def test_ten_thousand_public_ids_are_found_in_one_call(books: Books) -> None:
    """One cancelling call may name as many."""
    write(books, submission("a", chosen_id=CHOSEN), submission("b"))
    asked = [(LAB, f"nobodys-{number}") for number in range(9_998)]
    assert sorted(books.do(lambda c: find_known_as(c, [*asked, (LAB, CHOSEN), (LAB, "b")]))) == [
        (LAB, CHOSEN, "a"), (LAB, "b", "b"),
    ]  # fmt: skip


_OLD_JOB: Final = text("""
    INSERT INTO jobs (id, workspace_id, number, state, attempt, workflow, extra, wanted, nodes, created_at, updated_at)
    VALUES (:id, 'lab-id', 1, 'running', 1, :body, :body, '[]', 1, 1, 1)
""")
_OLD_WORKSPACE: Final = text("""
    INSERT INTO workspaces (id, name, billing, balance, held, in_flight, created_at, in_flight_limit, cap, gates,
                            jobs_limit, jobs_active)
    VALUES (:id, :id, 'prepaid', 0, 0, 0, 1, -1, 0, '{}', -1, :active)
""")


def test_id_chosen_before_the_migration_is_kept(empty_database_url: str) -> None:
    """Its job keeps it, live or ended; in its workspace it is in use, in others it may be chosen."""

    def fill(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", migrate.__file__.replace("migrate.py", "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "0009")
        connection.execute(_OLD_WORKSPACE, [{"id": LAB, "active": 1}, {"id": OTHER, "active": 0}])
        connection.execute(_OLD_JOB, {"id": CHOSEN, "body": jobs.deflate(b"{}")})

    async def go() -> tuple[list[Any], Job | None]:
        async with opened_database(empty_database_url) as database:
            await database.write(fill)
            assert await migrate.migrate(database) == "0009"
            entries: list[JobEntry] = [
                submission("a", chosen_id=CHOSEN), submission("b", OTHER, chosen_id=CHOSEN), ending(CHOSEN),
            ]  # fmt: skip
            done = await database.write(lambda c: write_job_entries(c, entries))
            return list(done.verdicts), await database.read(lambda c: jobs.find_job(c, LAB, CHOSEN, whole=False))

    done, job = asyncio.run(go())
    assert done == [
        DuplicateJob(CHOSEN), Submitted(1, JobState.RELEASED), Moved(JobState.SUCCEEDED, CHOSEN),
    ]  # fmt: skip
    assert job is not None
    assert (job.id, job.chosen_id, job.state) == (CHOSEN, None, JobState.SUCCEEDED)
