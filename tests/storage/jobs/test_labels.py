"""Jobs as they are found by their labels: whatever those are, while jobs are added and forgotten (J-04)."""

import asyncio
import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import pytest
from alembic import command
from alembic.config import Config
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text
from sqlalchemy.exc import DatabaseError

from conftest import Run
from databases import opened_database
from fairlead.domain.deployments import Placement
from fairlead.domain.jobs.entries import JobCancel
from fairlead.domain.jobs.listing import NUMBER_MAX, LabelFilter, ListQuery
from fairlead.storage.db import migrate
from fairlead.storage.db.database import Database
from fairlead.storage.db.number_blocks import BLOCK
from fairlead.storage.jobs import jobs
from fairlead.storage.jobs import labels as job_labels
from fairlead.storage.jobs.entries import write_job_entries
from fairlead.storage.jobs.labels import LabelIndex, add_to_index, find_labelled, index_job, remove_from_index
from storage.bookings import LAB, NOW, Books
from storage.jobs.test_lists import list_ids, pages, submission, write_jobs
from storage.plans import trace

SITE: Final = "blue-00000001"
_READY: Final = """
    INSERT INTO deployments (id, workspace_id, name, state, last_release, created_at, updated_at)
    VALUES (:id, :workspace, 'blue', 'ready', 1, 1, 1)
"""


@pytest.fixture
def books(books: Books) -> Books:
    """Return books with the lab and a deployment of it."""
    books.open(jobs_limit=1)
    books.sql(_READY, id=SITE, workspace=LAB)
    return books


def end_jobs(books: Books, *ids: str) -> None:
    """Have jobs end, those that there are, to be forgotten at once."""
    books.do(lambda c: write_job_entries(c, [JobCancel(id_, LAB, NOW, NOW) for id_ in ids]))


def write_labels(books: Books, labelled: Mapping[int, Mapping[str, str]]) -> None:
    """Write labels of jobs, by their numbers, without the jobs."""
    index: LabelIndex = {}
    for number, labels in labelled.items():
        index_job(index, LAB, number, labels, None)
    books.do(lambda c: add_to_index(c, index))


def find_numbers(
    books: Books, before: int | None = None, limit: int = 1_000, **labels: str
) -> tuple[list[int], int | None]:
    """Return numbers of jobs with labels, and before which number there may be more."""
    query = ListQuery(limit, before, [LabelFilter(*pair) for pair in labels.items()])
    numbers, more = books.do(lambda c: find_labelled(c, LAB, query, limit))
    return list(numbers), more


@pytest.mark.req("J-04")
def test_rare_label_is_found_in_few_strides(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search passes over what one label has not, in both directions, and needs no more strides than that."""
    monkeypatch.setattr(job_labels, "STRIDES", (2, 2, 2))
    common = {number: {"often": "1"} for number in range(5, 100 * BLOCK, BLOCK)}
    both = {"often": "1", "rarely": "1"}
    rare = {5: both, 40 * BLOCK + 5: both, 40 * BLOCK + 6: {"rarely": "1"}, 99 * BLOCK + 6: {"rarely": "1"}}
    write_labels(books, common | rare)
    assert find_numbers(books, rarely="1", often="1") == ([40 * BLOCK + 5, 5], None)
    assert find_numbers(books, often="1", rarely="1", limit=1) == ([40 * BLOCK + 5], 40 * BLOCK + 5)
    assert find_numbers(books, often="1", rarely="1", before=40 * BLOCK + 5) == ([5], None)
    assert find_numbers(books, often="1", rarely="1", before=5) == ([], None)


@pytest.mark.req("J-04")
def test_long_search_goes_on_from_its_cursor(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels that are in every block, but on the same job only in one: pages are empty, and lead there."""
    monkeypatch.setattr(job_labels, "STRIDES", (2, 3))
    apart = {number * BLOCK + place: {key: "1"} for number in range(12) for place, key in ((1, "odd"), (2, "even"))}
    write_labels(books, apart | {4 * BLOCK + 3: {"odd": "1", "even": "1"}})
    assert find_numbers(books, odd="1", even="1") == ([], 7 * BLOCK)
    assert find_numbers(books, odd="1", even="1", before=7 * BLOCK) == ([4 * BLOCK + 3], 2 * BLOCK)
    assert find_numbers(books, odd="1", even="1", before=2 * BLOCK) == ([], None)


def test_any_number_is_a_valid_position(books: Books) -> None:
    """Any number is a position: nothing is before the first, and everything before the last that there can be."""
    write_labels(books, {number: {"a": "1"} for number in (1, BLOCK - 1, BLOCK, NUMBER_MAX - 1)})
    for before in (0, 1, -1, -NUMBER_MAX):
        assert find_numbers(books, before, a="1") == ([], None)
    assert find_numbers(books, NUMBER_MAX, a="1") == ([NUMBER_MAX - 1, BLOCK, BLOCK - 1, 1], None)
    assert find_numbers(books, BLOCK, a="1") == ([BLOCK - 1, 1], None)
    assert find_numbers(books, NUMBER_MAX, a="2") == find_numbers(books, NUMBER_MAX, b="1", a="1") == ([], None)


def test_label_without_jobs_leaves_no_row(books: Books) -> None:
    """The last job of a block takes its row along; taking it away again changes nothing."""
    write_labels(books, {1: {"a": "1"}, 2: {"a": "1", "b": "2"}, BLOCK: {"b": "2"}})
    index: LabelIndex = {}
    index_job(index, LAB, 2, {"a": "1", "b": "2"}, None)
    for _ in range(2):
        books.do(lambda c: remove_from_index(c, index))
        assert (find_numbers(books, a="1"), find_numbers(books, b="2")) == (([1], None), ([BLOCK], None))
        assert len(books.rows("SELECT id FROM labelled_jobs")) == 2


def test_failed_search_is_told_as_a_database_error(books: Books, database: Database, run: Run) -> None:
    """It has the name that readers know on either database, by which they tell a database that is away."""
    query = ListQuery(10, None, [LabelFilter("a", "1")])
    books.sql("ALTER TABLE labelled_jobs RENAME TO elsewhere")
    with pytest.raises(DatabaseError, match="labelled_jobs"):
        run(database.read(lambda c: jobs.list_jobs(c, LAB, query)))
    books.sql("ALTER TABLE elsewhere RENAME TO labelled_jobs")
    assert list_ids(books, a="1") == []


@pytest.mark.req("J-04", "J-10")
def test_list_of_a_deployment_has_its_labelled_jobs_alone(books: Books) -> None:
    """Only those sent there, by any labels; its id is not a label that a caller could ask for."""
    both, placement = {"a": "1", "b": "2"}, Placement(SITE, 1, None)
    write_jobs(books, submission("x", both, placement=placement), submission("y", both), submission("z", both))
    write_jobs(books, submission("v", {"a": "1"}, placement=placement), submission("w", None, placement=placement))
    assert list_ids(books, a="1") == ["v", "z", "y", "x"]
    assert list_ids(books, deployment_id=SITE, a="1") == ["v", "x"]
    assert list_ids(books, deployment_id=SITE, a="1", b="2") == ["x"]
    assert list_ids(books, deployment_id="other", a="1") == []
    assert list_ids(books, deployment_id=SITE) == ["w", "v", "x"]


_LABELS: Final = [LabelFilter(key, "1") for key in "abc"]


@pytest.mark.req("J-01", "J-04")
@pytest.mark.parametrize("labels", range(4))
@pytest.mark.parametrize("deployment_id", [None, SITE])
def test_every_list_of_jobs_uses_an_index(books: Books, labels: int, deployment_id: str | None) -> None:
    """Whatever is asked for, each statement goes down an index; nothing is sorted but the jobs of a page."""
    labels_of = [{**dict.fromkeys("abc", "1"), "own": str(number)} for number in range(1_000)]
    placements = [Placement(SITE, 1, None) if number % 50 == 0 else None for number in range(1_000)]
    several = zip(map(str, range(1_000)), labels_of, placements, strict=True)
    write_jobs(books, *(submission(name, its, placement=where) for name, its, where in several))
    books.sql("ANALYZE")
    wanted = ListQuery(2, 900, _LABELS[:labels], deployment_id)
    statements = trace(books, lambda c: jobs.list_jobs(c, LAB, wanted))
    assert statements
    for sql, steps in statements:
        assert not any(word in steps for word in ("Seq Scan", "SCAN jobs", "SCAN labelled_jobs", "Hash")), (sql, steps)
        assert not any(word in steps for word in ("Sort", "TEMP B-TREE")), (sql, steps)
        assert "Index" in steps or "SEARCH" in steps, (sql, steps)
    used = "".join(steps for _, steps in statements)
    assert ("ix_jobs_deployment" in used) == (deployment_id is not None and labels == 0), used


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", migrate.__file__.replace("migrate.py", "migrations"))
    config.attributes["connection"] = connection
    return config


_OLD_LABEL: Final = text("INSERT INTO job_labels (workspace_id, key, value, number) VALUES (:w, :k, :v, :n)")
_OLD_JOB: Final = text("""
    INSERT INTO jobs (id, workspace_id, number, state, attempt, workflow, extra, wanted, nodes, labels, created_at,
                      updated_at, deployment_id)
    VALUES (:id, :w, :n, 'succeeded', 1, :body, :body, '[]', 1, :labels, 1, 1, :site)
""")
_OLD_WORKSPACE: Final = text("""
    INSERT INTO workspaces (id, name, billing, balance, held, in_flight, created_at, in_flight_limit, cap, gates)
    VALUES ('lab-id', 'lab', 'prepaid', 0, 0, 0, 1, -1, 0, '{}')
""")


def test_labels_of_the_previous_version_are_migrated(empty_database_url: str) -> None:
    """The rows of labels become the very same sets that are kept of jobs now, however many there are."""
    labelled = {number: {"a": "1"} for number in (1, 2, BLOCK - 1, BLOCK, 3 * BLOCK)}
    labelled |= {number: {"a": "1", "ä b": f"{number % 2}=ö"} for number in range(9_000, 14_500)}
    placed = dict.fromkeys((2, 9_001), SITE)

    def fill(connection: Connection) -> None:
        command.upgrade(_config(connection), "0008")
        connection.execute(_OLD_WORKSPACE)
        pairs = [(n, key, value) for n, its in labelled.items() for key, value in its.items()]
        connection.execute(_OLD_LABEL, [{"w": LAB, "k": key, "v": value, "n": n} for n, key, value in pairs])
        of_jobs = [(n, "{}", SITE) for n in placed] + [(3, None, SITE), (9_002, "{}", None)]
        connection.execute(
            _OLD_JOB,
            [{"id": str(n), "w": LAB, "n": n, "body": b"", "labels": its, "site": site} for n, its, site in of_jobs],
        )

    async def go() -> tuple[Sequence[Any], Sequence[Any]]:
        async with opened_database(empty_database_url) as database:
            await database.write(fill)
            assert await migrate.migrate(database) == "0008"
            kept = await database.read(lambda c: c.execute(text("SELECT id, numbers FROM labelled_jobs")).all())
            index: LabelIndex = {}
            for number, its in labelled.items():
                index_job(index, LAB, number, its, placed.get(number))
            await database.write(lambda c: remove_from_index(c, index))
            assert await database.read(lambda c: c.execute(text("SELECT id FROM labelled_jobs")).all()) == []
            await database.write(lambda c: add_to_index(c, index))
            again = await database.read(lambda c: c.execute(text("SELECT id, numbers FROM labelled_jobs")).all())
            return kept, again

    kept, again = asyncio.run(go())
    assert sorted(map(tuple, kept)) == sorted(map(tuple, again))


def test_concurrent_changes_lose_no_labels(books: Books, database: Database, run: Run) -> None:
    """Both change the same rows: neither overwrites what the other has written, and none waits forever."""
    labels = dict.fromkeys("abcd", "1")
    write_jobs(books, *(submission(f"old-{number}", labels) for number in range(40)))
    end_jobs(books, *(f"old-{number}" for number in range(40)))
    new = iter(range(40))

    async def submit() -> None:
        for number in itertools.islice(new, 10):
            entry = submission(f"new-{number}", labels)
            await database.write(partial(write_job_entries, entries=[entry]))

    async def forget() -> None:
        for _ in range(12):
            await database.write(lambda c: jobs.delete_expired_jobs(c, NOW, 3))

    async def all_at_once() -> None:
        await asyncio.gather(submit(), forget(), submit(), forget(), submit(), submit())

    run(all_at_once())
    expected = list_ids(books)
    assert len(expected) == 40
    assert list_ids(books, a="1") == list_ids(books, b="1", c="1", d="1") == expected


_KEYS: Final = st.sampled_from("abcd")
_VALUES: Final = st.sampled_from("12")
_ITS: Final = st.dictionaries(_KEYS, _VALUES, max_size=4)
_JOBS: Final = st.tuples(_ITS, st.booleans())


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have blocks of few numbers, and short searches, so that few jobs make many of both."""
    monkeypatch.setattr(job_labels, "BLOCK", 4)
    monkeypatch.setattr(job_labels, "STRIDES", (1, 2))


@pytest.mark.req("J-01", "J-03", "J-04", "J-10")
@pytest.mark.usefixtures("small_blocks")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    present=st.lists(_JOBS, min_size=0, max_size=30),
    added=st.lists(st.lists(_JOBS, max_size=3), max_size=6),
    forgotten=st.frozensets(st.integers(1, 30), max_size=5),
    wanted=st.dictionaries(_KEYS, _VALUES, max_size=3),
    of_deployment=st.booleans(),
    limit=st.integers(1, 5),
)
def test_pages_hold_each_job_once_while_others_are_added(
    books: Books,
    present: list[tuple[dict[str, str], bool]],
    added: list[list[tuple[dict[str, str], bool]]],
    forgotten: frozenset[int],
    wanted: dict[str, str],
    of_deployment: bool,  # noqa: FBT001 -- hypothesis passes it by name
    limit: int,
) -> None:
    """The pages of a list have each job that was there at its beginning once, newest first, and no other."""
    for table in ("labelled_jobs", "jobs"):
        books.sql(f"DELETE FROM {table}")  # noqa: S608 -- two names of ours
    books.sql("UPDATE workspaces SET jobs_active = 0, jobs_parked = 0, last_job = 0")

    def submit(beginning: str, several: Sequence[tuple[dict[str, str], bool]]) -> None:
        placements = (Placement(SITE, 1, None) if placed else None for _, placed in several)
        names = (f"{beginning}-{number}" for number in itertools.count(1))
        entries = zip(names, several, placements, strict=False)
        write_jobs(books, *(submission(name, its, placement=where) for name, (its, _), where in entries))

    submit("there", present)
    end_jobs(books, *(f"there-{number}" for number in forgotten))
    books.do(lambda c: jobs.delete_expired_jobs(c, NOW, 100))
    seen: list[str] = []
    later = iter(enumerate(added))
    deployment_id = SITE if of_deployment else None
    for page in pages(books, limit, deployment_id=deployment_id, **wanted):
        seen += page
        turn, more = next(later, (math.inf, []))
        submit(f"later-{turn}", more)
    expected = [
        f"there-{number}"
        for number, (its, placed) in enumerate(present, 1)
        if number not in forgotten and wanted.items() <= its.items() and (placed or not of_deployment)
    ]
    assert seen == expected[::-1]
