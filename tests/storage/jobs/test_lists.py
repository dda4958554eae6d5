"""Lists of jobs as they are read: pages, labels, keys of submissions (J-01, J-04, J-12)."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import pytest

from fairlead.domain.jobs.entries import JobCancel, Submission, Submitted
from fairlead.domain.jobs.faults import IdempotencyKeyUsed, JobQueueFull
from fairlead.domain.jobs.listing import LabelFilter, ListQuery
from fairlead.storage.jobs import ids as job_keys
from fairlead.storage.jobs import jobs
from fairlead.storage.jobs.entries import write_job_entries
from storage.bookings import LAB, NOW, Books

OTHER: Final = "office-id"
KEPT: Final = 1_000


def submission(
    job_id: str, labels: Mapping[str, str] | None = None, workspace_id: str = LAB, **more: Any
) -> Submission:
    """Return a small job."""
    document = jobs.deflate(b"{}")
    usual: dict[str, Any] = {"nodes": 1, "created_at": NOW, "backlog": 10_000, "labels": labels or {}}
    return Submission(job_id, workspace_id, document, document, '["1"]', **{**usual, **more})


def write_jobs(books: Books, *entries: Submission) -> list[Any]:
    """Write a batch; the verdicts."""
    return list(books.do(lambda c: write_job_entries(c, entries)).verdicts)


def pages(
    books: Books, limit: int, workspace_id: str = LAB, *, deployment_id: str | None = None, **labels: str
) -> Iterator[list[str]]:
    """Read a list page by page, as long as it goes on."""
    before = None
    filters = tuple(LabelFilter(key, value) for key, value in labels.items())
    while True:
        query = ListQuery(limit, before, filters, deployment_id)
        page = books.do(partial(jobs.list_jobs, workspace_id=workspace_id, query=query))
        assert len(page.jobs) <= limit
        yield [job.public_id for job in page.jobs]
        if page.next_before is None:
            return
        assert before is None or page.next_before < before
        before = page.next_before


def list_ids(
    books: Books, limit: int = 500, workspace_id: str = LAB, *, deployment_id: str | None = None, **labels: str
) -> list[str]:
    """Return the ids on all pages of a list."""
    turned = pages(books, limit, workspace_id, deployment_id=deployment_id, **labels)
    return [job_id for page in turned for job_id in page]


@pytest.fixture
def books(books: Books) -> Books:
    """Return books with two workspaces."""
    books.open(jobs_limit=1)
    books.open(id_=OTHER, jobs_limit=1)
    return books


@pytest.mark.req("J-01", "J-04")
def test_all_labels_must_match_within_the_workspace(books: Books) -> None:
    """All labels must match, key and value, within the workspace; the newest first."""
    both = {"a": "1", "b": "2"}
    write_jobs(books, submission("x", both), submission("y", {"a": "1", "b": "1"}), submission("z", both))
    write_jobs(books, submission("o", both, OTHER), submission("p", None, OTHER))
    assert list_ids(books, a="1", b="2") == ["z", "x"]
    assert list_ids(books, a="1") == ["z", "y", "x"]
    assert list_ids(books, a="2") == list_ids(books, c="1") == list_ids(books, a="1", b="3") == []
    assert list(pages(books, 1, a="1", b="2")) == [["z"], ["x"]]
    assert list_ids(books, workspace_id=OTHER, b="2") == ["o"]
    assert list_ids(books, workspace_id=OTHER) == ["p", "o"]
    assert books.do(lambda c: jobs.find_job(c, LAB, "x", whole=False)).labels == '{"a":"1","b":"2"}'


@pytest.mark.req("J-01")
def test_last_page_of_jobs_says_that_it_is_the_last(books: Books) -> None:
    """The last page says that it is the last."""
    write_jobs(books, *(submission(str(number), {"a": "1"}) for number in range(4)))
    assert list(pages(books, 2)) == list(pages(books, 2, a="1")) == [["3", "2"], ["1", "0"]]
    assert list(pages(books, 4)) == list(pages(books, 4, a="1")) == [["3", "2", "1", "0"]]


@pytest.mark.req("J-12")
def test_key_is_used_by_one_job(books: Books) -> None:
    """One job uses the key, in one batch or two; other workspaces have other digests, and a refused job uses none."""
    key: dict[str, Any] = {"idempotency_id": "digest", "idempotency_until": NOW + KEPT}
    first = write_jobs(books, submission("x", **key), submission("y", {"a": "1"}, **key))
    assert isinstance(first[0], Submitted)
    assert first[1] == IdempotencyKeyUsed()
    assert write_jobs(books, submission("y", **key)) == [IdempotencyKeyUsed()]
    assert list_ids(books) == ["x"]
    assert books.rows("SELECT * FROM labelled_jobs") == []
    other: dict[str, Any] = {"idempotency_id": "other", "idempotency_until": NOW + KEPT}
    assert write_jobs(books, submission("y", backlog=0, **other)) == [JobQueueFull(0)]
    assert isinstance(write_jobs(books, submission("y", **other))[0], Submitted)


def test_key_is_forgotten_when_its_time_is_up(books: Books) -> None:
    """A key is forgotten when its time is up, and not before."""
    write_jobs(books, submission("x", idempotency_id="digest", idempotency_until=NOW + KEPT))
    assert books.do(lambda c: job_keys.delete_expired_keys(c, NOW + KEPT - 1, 10)) == 0
    assert books.do(lambda c: job_keys.used_keys(c, ["digest", "free"])) == {"digest"}
    assert books.do(lambda c: job_keys.delete_expired_keys(c, NOW + KEPT, 10)) == 1
    assert books.do(lambda c: job_keys.used_keys(c, ["digest"])) == set()


def test_labels_are_forgotten_with_their_job(books: Books) -> None:
    """They go with their job, and those of others stay."""
    write_jobs(books, submission("x", {"a": "1", "b": "2"}), submission("y", {"a": "1"}))
    books.do(lambda c: write_job_entries(c, [JobCancel("x", LAB, NOW, NOW + KEPT)]))
    assert books.do(lambda c: jobs.delete_expired_jobs(c, NOW + KEPT, 10)).count == 1
    assert len(books.rows("SELECT id FROM labelled_jobs")) == 1
    assert list_ids(books, a="1") == ["y"]


def test_only_waiting_jobs_are_ahead(books: Books) -> None:
    """Only jobs that wait are ahead of one."""
    write_jobs(books, *(submission(name) for name in "abc"))
    assert books.do(lambda c: [jobs.QUEUE.count_ahead(c, LAB, number) for number in (1, 2, 3)]) == [0, 1, 2]
    books.do(lambda c: write_job_entries(c, [JobCancel("a", LAB, NOW, NOW + KEPT)]))
    assert books.do(lambda c: jobs.QUEUE.count_ahead(c, LAB, 3)) == 1
    assert books.do(lambda c: jobs.QUEUE.count_ahead(c, OTHER, 3)) == 0
