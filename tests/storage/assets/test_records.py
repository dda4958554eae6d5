"""Assets in the books: kept while jobs need them, expired in batches, and never a neighbour's (J-14)."""

from functools import partial
from itertools import count
from typing import Any, Final

import pytest

from fairlead.domain.jobs.entries import JobCancel, Submission
from fairlead.storage.assets.files import WorkflowFile, delete_expired, put_file
from fairlead.storage.assets.records import AddedFile, add_asset, add_asset_of, delete_asset, find_assets
from fairlead.storage.assets.results import named_blobs
from fairlead.storage.jobs import jobs
from fairlead.storage.jobs.entries import write_job_entries
from storage.bookings import LAB, NOW, Books

OTHER: Final = "other-lab"
ONE, TWO = "1" * 64, "2" * 64
IDS: Final = count()


def asset(blob: str = ONE, name: str = "a.png", **changes: Any) -> WorkflowFile:
    """Return an asset of the lab."""
    usual: dict[str, Any] = {
        "id": f"asset-{next(IDS)}", "workspace_id": LAB, "kind": "input", "size": 5,
        "content_type": "image/png", "created_at": NOW,
    }  # fmt: skip
    return WorkflowFile(blob=blob, name=name, **{**usual, **changes})


@pytest.fixture(autouse=True)
def _labs(books: Books) -> None:
    """Make two workspaces."""
    books.open()
    books.open(id_=OTHER)


def add(books: Books, new: WorkflowFile) -> WorkflowFile:
    """Add an asset that there was not."""
    kept: AddedFile = books.do(lambda c: add_asset(c, new))
    assert kept.is_new
    return kept.file


def needing(books: Books, *files: str) -> None:
    """Submit a job that names files."""
    document = jobs.deflate(b"{}")
    entry = Submission("job", LAB, document, document, "[]", nodes=1, created_at=NOW, backlog=10, files=files)
    books.do(lambda c: write_job_entries(c, [entry]))


def ends(books: Books) -> None:
    """Cancel the job."""
    books.do(lambda c: write_job_entries(c, [JobCancel("job", LAB, NOW + 5, NOW + 100)]))


def has_asset(books: Books, id_: str, workspace_id: str = LAB, now: int = NOW) -> bool:
    """Whether a workspace has an asset."""
    return id_ in books.do(lambda c: find_assets(c, workspace_id, [id_, "none"], now))


@pytest.mark.req("J-14")
def test_needed_asset_cannot_be_deleted(books: Books) -> None:
    """A job that has not ended keeps what it names, once or twice; when it has ended, nothing does."""
    one = add(books, asset())
    needing(books, one.id, one.id)
    delete = partial(delete_asset, workspace_id=LAB, asset_id=one.id, now=NOW)
    assert books.do(delete) is False
    assert has_asset(books, one.id)
    ends(books)
    assert books.do(delete) is True
    assert books.do(delete) is None


@pytest.mark.req("J-14")
def test_needed_asset_does_not_expire(books: Books) -> None:
    """What a live job names is kept past its time, with its bytes, and gives its name to nobody."""
    one, two = add(books, asset(expires_at=NOW + 10)), add(books, asset(TWO, "b.png", expires_at=NOW + 10))
    needing(books, one.id)
    assert books.do(lambda c: delete_expired(c, NOW + 10, 5)) == 1
    assert not has_asset(books, one.id, now=NOW + 10)
    assert books.rows("SELECT id FROM workflow_files") == [{"id": one.id}]
    assert add(books, asset(TWO, created_at=NOW + 20)).name == "a (1).png"
    assert books.do(lambda c: named_blobs(c, [one.blob], NOW + 20)) == {one.blob}
    ends(books)
    assert books.do(lambda c: delete_expired(c, NOW + 10, 5)) == 1
    assert not has_asset(books, two.id)


@pytest.mark.req("J-14")
def test_forgotten_job_needs_no_files(books: Books) -> None:
    """The files that a job names are released when the job is forgotten."""
    needing(books, add(books, asset()).id)
    ends(books)
    assert books.do(lambda c: jobs.delete_expired_jobs(c, NOW + 100, 5)).count == 1
    assert books.rows("SELECT * FROM job_files") == []


@pytest.mark.req("J-14")
def test_asset_of_another_workspace_is_unknown(books: Books) -> None:
    """Neither ids nor bytes of another workspace are known, nor can they be deleted."""
    one = add(books, asset(ONE))
    assert not has_asset(books, one.id, OTHER)
    assert books.do(lambda c: add_asset_of(c, asset(ONE, "", workspace_id=OTHER))) is None
    assert books.do(lambda c: delete_asset(c, OTHER, one.id, NOW)) is None
    assert has_asset(books, one.id)


@pytest.mark.req("J-14")
def test_asset_of_known_bytes_takes_what_is_known_of_them(books: Books) -> None:
    """It takes what is known of the bytes, and the name where it has none; expired bytes are not known."""
    one = add(books, asset(ONE, size=77, expires_at=NOW + 10))
    kept, is_new, is_known = books.do(lambda c: add_asset_of(c, asset(ONE, "", size=0)))
    assert (kept.id, kept.expires_at, is_new, is_known) == (one.id, None, False, True)
    kept, is_new, _ = books.do(lambda c: add_asset_of(c, asset(ONE, "b.png", size=0, tags='["t"]')))
    assert (kept.name, kept.size, kept.tags, is_new) == ("b.png", 77, '["t"]', True)
    add(books, asset(TWO, "c.png", expires_at=NOW + 10))
    assert books.do(lambda c: add_asset_of(c, asset(TWO, "d.png", created_at=NOW + 10))) is None


@pytest.mark.req("J-14")
def test_replaced_asset_is_not_found(books: Books) -> None:
    """A file that another one replaces is no longer an asset: its bytes are not those of the new one."""
    one = add(books, asset(ONE, path="x/a.png", tags='["t"]'))
    two = asset(TWO)
    books.do(lambda c: put_file(c, two))
    assert not has_asset(books, one.id)
    assert books.do(lambda c: find_assets(c, LAB, [two.id], NOW))[two.id] == two
