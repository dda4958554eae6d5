"""Lists of jobs as they are read: pages, labels, keys of submissions (J-01, J-04, J-12)."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, text

from conftest import Run
from fairlead.domain.jobs.entries import JobCancel, Submission, Submitted
from fairlead.domain.jobs.faults import IdempotencyKeyUsed, JobQueueFull
from fairlead.domain.jobs.listing import LabelFilter, ListQuery
from fairlead.storage import job_keys, job_labels, jobs
from fairlead.storage.database import open_database
from fairlead.storage.job_entries import write_job_entries
from storage.bookings import LAB, NOW, Books

OTHER: Final = "office-id"
KEPT: Final = 1_000


def submission(
    job_id: str, labels: Mapping[str, str] | None = None, workspace_id: str = LAB, **more: Any
) -> Submission:
    """Return a small job."""
    document = jobs.deflated(b"{}")
    usual: dict[str, Any] = {"nodes": 1, "created_at": NOW, "backlog": 10_000, "labels": labels or {}}
    return Submission(job_id, workspace_id, document, document, '["1"]', **{**usual, **more})


def submitted(books: Books, *entries: Submission) -> list[Any]:
    """Write a batch; the verdicts."""
    return list(books.do(lambda c: write_job_entries(c, entries)).verdicts)


def pages(books: Books, limit: int, workspace_id: str = LAB, **labels: str) -> Iterator[list[str]]:
    """Read a list page by page, as long as it goes on."""
    before = None
    filters = tuple(LabelFilter(key, value) for key, value in labels.items())
    while True:
        query = ListQuery(limit, before, filters)
        page = books.do(partial(jobs.list_jobs, workspace_id=workspace_id, query=query))
        assert len(page.jobs) <= limit
        yield [job.id for job in page.jobs]
        if page.next_before is None:
            return
        assert before is None or page.next_before < before
        before = page.next_before


def listed(books: Books, limit: int = 500, workspace_id: str = LAB, **labels: str) -> list[str]:
    """Return the ids on all pages of a list."""
    return [job_id for page in pages(books, limit, workspace_id, **labels) for job_id in page]


@pytest.fixture
def books(books: Books) -> Books:
    """Return books with two workspaces."""
    books.open(jobs_limit=1)
    books.open(id_=OTHER, jobs_limit=1)
    return books


@pytest.mark.req("J-01", "J-04")
def test_a_label_of_another_job_or_workspace_finds_it(books: Books) -> None:
    """All labels must match, key and value, within the workspace; the newest first."""
    both = {"a": "1", "b": "2"}
    submitted(books, submission("x", both), submission("y", {"a": "1", "b": "1"}), submission("z", both))
    submitted(books, submission("o", both, OTHER), submission("p", None, OTHER))
    assert listed(books, a="1", b="2") == ["z", "x"]
    assert listed(books, a="1") == ["z", "y", "x"]
    assert listed(books, a="2") == listed(books, c="1") == listed(books, a="1", b="3") == []
    assert list(pages(books, 1, a="1", b="2")) == [["z"], ["x"]]
    assert listed(books, workspace_id=OTHER, b="2") == ["o"]
    assert listed(books, workspace_id=OTHER) == ["p", "o"]
    assert books.do(lambda c: jobs.find_job(c, LAB, "x", whole=False)).labels == '{"a":"1","b":"2"}'


@pytest.mark.req("J-01")
def test_a_list_ends_with_an_empty_page(books: Books) -> None:
    """The last page says that it is the last."""
    submitted(books, *(submission(str(number), {"a": "1"}) for number in range(4)))
    assert list(pages(books, 2)) == list(pages(books, 2, a="1")) == [["3", "2"], ["1", "0"]]
    assert list(pages(books, 4)) == list(pages(books, 4, a="1")) == [["3", "2", "1", "0"]]


@pytest.mark.req("J-04")
def test_a_search_that_is_too_long_loses_what_it_has_not_looked_at(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels that are on every second job, but never on the same but once: pages are empty, and lead there."""
    monkeypatch.setattr(job_labels, "STRIDES_MAX", 1)
    needle, rows = 7, job_labels.STRIDE + 500
    labels = [{"odd" if number % 2 else "even": "1"} for number in range(2 * rows)]
    labels[needle] = {"odd": "1", "even": "1"}
    submitted(books, *(submission(str(number), its) for number, its in enumerate(labels)))
    found = list(pages(books, 10, odd="1", even="1"))
    assert found == [[], [str(needle)]]
    monkeypatch.setattr(job_labels, "STRIDES_MAX", 5)
    assert list(pages(books, 10, odd="1", even="1")) == [[str(needle)]]


@pytest.mark.req("J-04")
def test_a_filter_reads_every_row(books: Books) -> None:
    """Labels are looked up in the index, with nothing to be sorted and no table to be read through."""
    values = dict.fromkeys(("w", "k", "v", "k0", "v0", "k1", "v1"), "a") | {"at_least": 1, "below": 5, "room": 3}

    def plan(connection: Connection) -> str:
        statement = job_labels._MATCHING[2].params(values)
        sql = statement.compile(connection, compile_kwargs={"literal_binds": True})
        explain = "EXPLAIN QUERY PLAN" if connection.dialect.name == "sqlite" else "EXPLAIN"
        return "\n".join(str(row) for row in connection.execute(text(f"{explain} {sql}")))

    steps = books.do(plan)
    assert steps.count("pk_job_labels") + steps.count("sqlite_autoindex_job_labels") == 3, steps
    assert not any(word in steps for word in ("SCAN", "Seq Scan", "Sort", "TEMP B-TREE", "Join")), steps


@pytest.mark.req("J-12")
def test_a_key_is_used_twice(books: Books) -> None:
    """In one batch or in two, by one job; another workspace's digest is another, and a refused job uses none."""
    key: dict[str, Any] = {"idempotency_id": "digest", "idempotency_until": NOW + KEPT}
    first = submitted(books, submission("x", **key), submission("y", {"a": "1"}, **key))
    assert isinstance(first[0], Submitted)
    assert first[1] == IdempotencyKeyUsed()
    assert submitted(books, submission("y", **key)) == [IdempotencyKeyUsed()]
    assert listed(books) == ["x"]
    assert books.rows("SELECT * FROM job_labels") == []
    other: dict[str, Any] = {"idempotency_id": "other", "idempotency_until": NOW + KEPT}
    assert submitted(books, submission("y", backlog=0, **other)) == [JobQueueFull(0)]
    assert isinstance(submitted(books, submission("y", **other))[0], Submitted)


def test_a_key_is_forgotten_before_its_time(books: Books) -> None:
    """A key is forgotten when its time is up, and not before."""
    submitted(books, submission("x", idempotency_id="digest", idempotency_until=NOW + KEPT))
    assert books.do(lambda c: job_keys.delete_expired_keys(c, NOW + KEPT - 1, 10)) == 0
    assert books.do(lambda c: job_keys.used_keys(c, ["digest", "free"])) == {"digest"}
    assert books.do(lambda c: job_keys.delete_expired_keys(c, NOW + KEPT, 10)) == 1
    assert books.do(lambda c: job_keys.used_keys(c, ["digest"])) == set()


def test_labels_of_a_forgotten_job_stay(books: Books) -> None:
    """They go with their job, and those of others stay."""
    submitted(books, submission("x", {"a": "1", "b": "2"}), submission("y", {"a": "1"}))
    books.do(lambda c: write_job_entries(c, [JobCancel("x", LAB, NOW, NOW + KEPT)]))
    assert books.do(lambda c: jobs.delete_expired_jobs(c, NOW + KEPT, 10)) == 1
    assert books.rows("SELECT key, number FROM job_labels") == [{"key": "a", "number": 2}]
    assert listed(books, a="1") == ["y"]


def test_a_job_is_behind_those_that_run(books: Books) -> None:
    """Only jobs that wait are ahead of one."""
    submitted(books, *(submission(name) for name in "abc"))
    assert books.do(lambda c: [jobs.jobs_ahead(c, LAB, number) for number in (1, 2, 3)]) == [0, 1, 2]
    books.do(lambda c: write_job_entries(c, [JobCancel("a", LAB, NOW, NOW + KEPT)]))
    assert books.do(lambda c: jobs.jobs_ahead(c, LAB, 3)) == 1
    assert books.do(lambda c: jobs.jobs_ahead(c, OTHER, 3)) == 0


@pytest.fixture
def sqlite_books(sqlite_url: str, run: Run) -> Iterator[Books]:
    """Return the books of a SQLite database with the lab in it."""
    database = open_database(sqlite_url)
    books = Books(database, run)
    books.open(jobs_limit=1)
    yield books
    run(database.close())


_LABELS: Final = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)


@pytest.mark.req("J-01", "J-03", "J-04")
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    present=st.lists(_LABELS, max_size=12),
    added=st.lists(st.lists(_LABELS, max_size=3), max_size=8),
    wanted=_LABELS,
    limit=st.integers(1, 5),
)
def test_a_job_is_listed_twice_or_not_at_all_while_others_are_added(
    sqlite_books: Books,
    present: list[dict[str, str]],
    added: list[list[dict[str, str]]],
    wanted: dict[str, str],
    limit: int,
) -> None:
    """The pages of a list have each job that was there at its beginning once, the newest first, and none besides."""
    for table in ("job_labels", "jobs"):
        sqlite_books.sql(f"DELETE FROM {table}")  # noqa: S608 -- two names of ours
    sqlite_books.sql("UPDATE workspaces SET jobs_active = 0, jobs_parked = 0, last_job = 0")
    there = {f"there-{number}": labels for number, labels in enumerate(present)}
    submitted(sqlite_books, *(submission(job_id, labels) for job_id, labels in there.items()))
    found: list[str] = []
    later = iter(enumerate(added))
    for page in pages(sqlite_books, limit, **wanted):
        found += page
        number, more = next(later, (0, []))
        submitted(sqlite_books, *(submission(f"later-{number}-{place}", labels) for place, labels in enumerate(more)))
    expected = [job_id for job_id, labels in there.items() if wanted.items() <= labels.items()]
    assert found == expected[::-1]
