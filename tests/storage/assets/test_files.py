"""Rows of workflow files, on both databases: named as uploads are, numbered without gaps in time, and forgotten."""

import asyncio
from functools import partial
from itertools import count
from typing import Any, Final

import pytest
from msgspec.structs import replace

from conftest import Run
from fairlead.domain.assets.filenames import FileReference
from fairlead.storage.assets.files import (
    WorkflowFile,
    add_file,
    delete_expired,
    extend_expiry,
    find_content,
    find_file,
    find_file_of_id,
    find_referenced,
    list_names,
    next_number,
    put_file,
    take_output_name,
)
from fairlead.storage.assets.results import named_blobs
from fairlead.storage.db.database import Database
from storage.bookings import LAB, NOW, Books

ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)
OTHER: Final = "other-lab"
IDS: Final = count()


def file(blob: str = ONE, name: str = "photo.png", **changes: Any) -> WorkflowFile:
    """Return an input of the lab."""
    usual: dict[str, Any] = {
        "id": f"file-{next(IDS)}", "workspace_id": LAB, "kind": "input", "size": 5,
        "content_type": "image/png", "created_at": NOW,
    }  # fmt: skip
    return WorkflowFile(blob=blob, name=name, **{**usual, **changes})


@pytest.fixture(autouse=True)
def _labs(books: Books) -> None:
    """Make two workspaces."""
    books.open()
    books.open(id_=OTHER)


def add(books: Books, new: WorkflowFile) -> str:
    """Add a file and return its name."""
    name: str = books.do(lambda c: add_file(c, new)).name
    return name


@pytest.mark.req("C-02")
def test_other_bytes_under_a_used_name_get_a_number(books: Books) -> None:
    """Same name, same bytes: the same file. Other bytes: a number more each time, and the same again for the same."""
    assert [add(books, file(blob)) for blob in (ONE, ONE, TWO, THREE, TWO, ONE)] == [
        "photo.png", "photo.png", "photo (1).png", "photo (2).png", "photo (1).png", "photo.png",
    ]  # fmt: skip
    assert len(books.rows("SELECT id FROM workflow_files")) == 3


def test_number_that_somebody_chose_is_in_use(books: Books) -> None:
    """A name a caller chose is in use like any other, and another name of the same bytes is not a name of these."""
    assert add(books, file(THREE, "photo (1).png")) == "photo (1).png"
    assert add(books, file(TWO, "photo (copy).png")) == "photo (copy).png"
    assert add(books, file(ONE)) == "photo.png"
    assert add(books, file(TWO)) == "photo (2).png"


def test_each_kind_and_workspace_has_its_own_names(books: Books) -> None:
    """A name is of one workspace and one kind."""
    for new in (file(ONE), file(TWO, kind="temp"), file(THREE, workspace_id=OTHER)):
        assert add(books, new) == "photo.png"
    assert books.do(lambda c: find_file(c, LAB, "temp", "photo.png", NOW)).blob == TWO
    assert books.do(lambda c: find_file(c, LAB, "output", "photo.png", NOW)) is None
    assert books.do(lambda c: find_content(c, LAB, THREE, NOW)) is None
    assert books.do(lambda c: list_names(c, OTHER, "input", NOW, 10)) == ["photo.png"]


@pytest.mark.req("C-02")
def test_overwritten_file_is_not_found(books: Books) -> None:
    """Overwriting leaves one file of the name, whose links lead to the new bytes; old links lead nowhere."""
    old, new = file(ONE), file(TWO, size=7)
    for one in (old, new):
        books.do(partial(put_file, new=one))
    assert books.do(lambda c: find_file(c, LAB, "input", "photo.png", NOW)) == new
    assert books.do(lambda c: find_file_of_id(c, old.id)) is None
    assert books.do(lambda c: find_file_of_id(c, new.id)) == new


def test_file_is_found_by_name_before_content(books: Books) -> None:
    """A live file of this workspace is found by name first, then by content."""
    books.do(lambda c: put_file(c, file(ONE, "a.png")))
    books.do(lambda c: put_file(c, file(TWO, "b.png", kind="output", expires_at=NOW + 1)))
    books.do(lambda c: put_file(c, file(THREE, f"{ONE}.png")))

    def find_reference(name: str, kind: str | None = None, content: str | None = None, at: int = NOW) -> str | None:
        reference = FileReference(name, kind, content)
        meant = books.do(lambda c: find_referenced(c, LAB, reference, "input", at))
        return None if meant is None else str(meant.blob)

    assert (find_reference("a.png"), find_reference("b.png"), find_reference("b.png", "output")) == (ONE, None, TWO)
    assert (find_reference(f"{ONE}.png", None, ONE), find_reference(f"blake3:{ONE}", None, ONE)) == (THREE, ONE)
    assert (find_reference("x", None, TWO), find_reference("x", None, TWO, NOW + 1)) == (TWO, None)


def test_expired_file_frees_its_name(books: Books) -> None:
    """A file that has expired is not there: its name is free, and its bytes are nobody's."""
    books.do(lambda c: put_file(c, file(ONE, kind="temp", expires_at=NOW)))
    assert books.do(lambda c: find_file(c, LAB, "temp", "photo.png", NOW)) is None
    assert books.do(lambda c: list_names(c, LAB, "temp", NOW, 10)) == []
    assert add(books, file(TWO, kind="temp", expires_at=NOW + 5)) == "photo.png"
    assert add(books, file(TWO, kind="temp", expires_at=NOW + 9)) == "photo.png"
    assert books.do(lambda c: find_file(c, LAB, "temp", "photo.png", NOW + 8)).blob == TWO


def test_concurrent_uploads_get_different_names(database: Database, run: Run) -> None:
    """Uploads of one name at the same moment are as many names as they are different, and numbers are given once."""

    async def upload(number: int) -> str:
        blob = f"{number % 4:x}" * 64
        return (await database.write(lambda c: add_file(c, file(blob)))).name

    async def number() -> int:
        return await database.write(lambda c: next_number(c, LAB, "output", "picture"))

    async def all_at_once() -> None:
        names = await asyncio.gather(*(upload(number) for number in range(12)))
        assert len(set(names)) == 4
        assert all(names[number] == names[number + 4] for number in range(8))
        assert sorted(await asyncio.gather(*(number() for _ in range(20)))) == list(range(1, 21))

    run(all_at_once())


@pytest.mark.req("C-06")
def test_outputs_are_numbered_by_kind_and_beginning(books: Books) -> None:
    """Numbers of outputs go on, each kind and beginning by itself, and pass over names that are in use."""

    def take(beginning: str = "picture", kind: str = "output") -> str:
        name: str = books.do(lambda c: take_output_name(c, LAB, kind, beginning, "png", NOW))
        return name

    books.do(lambda c: put_file(c, file(ONE, "picture_00002_.png", kind="output")))
    assert [take(), take(), take("other"), take(kind="temp")] == [
        "picture_00001_.png", "picture_00003_.png", "other_00001_.png", "picture_00001_.png",
    ]  # fmt: skip


def test_only_expired_files_are_deleted(books: Books) -> None:
    """Only what has expired is deleted, the oldest first and so many at once; inputs stay."""
    for n in (3, 1, 2, 9):
        books.do(partial(put_file, new=file(ONE, f"{n}.png", kind="output", expires_at=NOW + n)))
    books.do(lambda c: put_file(c, file(TWO)))
    assert books.do(lambda c: delete_expired(c, NOW, 10)) == 0
    assert books.do(lambda c: delete_expired(c, NOW + 3, 2)) == 2
    assert books.do(lambda c: list_names(c, LAB, "output", NOW, 10)) == ["3.png", "9.png"]
    assert books.do(lambda c: delete_expired(c, NOW + 100, 10)) == 2
    assert [row["name"] for row in books.rows("SELECT name FROM workflow_files")] == ["photo.png"]


def test_file_that_is_shown_again_lives_as_long_as_the_later_job(books: Books) -> None:
    """Files of a later job's outputs live as long as it; none is shortened, and none of another workspace changes."""
    for n, lab in ((5, LAB), (50, LAB), (5, OTHER)):
        new = file(ONE, f"{n}.png", kind="output", expires_at=NOW + n, workspace_id=lab)
        books.do(partial(put_file, new=new))
    books.do(lambda c: put_file(c, file(TWO)))
    names = [("output", "5.png"), ("output", "50.png"), ("input", "photo.png"), ("temp", "5.png"), ("output", "none")]
    books.do(lambda c: extend_expiry(c, LAB, names, NOW + 20))
    books.do(lambda c: extend_expiry(c, LAB, [], NOW + 20))
    rows = books.rows("SELECT workspace_id, name, expires_at FROM workflow_files ORDER BY workspace_id, name")
    assert [tuple(row.values()) for row in rows] == [
        (LAB, "5.png", NOW + 20), (LAB, "50.png", NOW + 50), (LAB, "photo.png", None), (OTHER, "5.png", NOW + 5),
    ]  # fmt: skip


def test_blob_of_a_live_file_counts_as_named(books: Books) -> None:
    """A blob is named by a file that stays or has not expired."""
    books.do(lambda c: put_file(c, file(ONE)))
    books.do(lambda c: put_file(c, file(TWO, "b.png", kind="temp", expires_at=NOW)))
    books.do(lambda c: put_file(c, file(THREE, "c.png", kind="temp", expires_at=NOW + 1)))
    assert books.do(lambda c: named_blobs(c, [ONE, TWO, THREE], NOW)) == {ONE, THREE}


def test_numbers_of_previews_are_forgotten_with_the_newest_of_them(books: Books) -> None:
    """A beginning is numbered from 1 again once its newest preview has expired; numbers of outputs are never reused."""

    def make(kind: str, expires_at: int, beginning: str = "a_b") -> str:
        name: str = books.do(lambda c: take_output_name(c, LAB, kind, beginning, "png", NOW))
        books.do(lambda c: put_file(c, file(ONE, name, kind=kind, expires_at=expires_at)))
        return name

    def forget(now: int) -> list[tuple[str, str, int]]:
        books.do(lambda c: delete_expired(c, now, 10))
        rows = books.rows("SELECT kind, beginning, last FROM file_numbers ORDER BY kind, beginning")
        return [(row["kind"], row["beginning"], row["last"]) for row in rows]

    assert [make("temp", NOW + 1), make("temp", NOW + 5)] == ["a_b_00001_.png", "a_b_00002_.png"]
    make("temp", NOW + 9, "other")
    make("output", NOW + 1)
    assert forget(NOW + 2) == [("output", "a_b", 1), ("temp", "a_b", 2), ("temp", "other", 1)]
    assert forget(NOW + 5) == [("output", "a_b", 1), ("temp", "other", 1)]
    assert make("temp", NOW + 9) == "a_b_00001_.png"


def test_pattern_in_a_name_is_taken_literally(books: Books) -> None:
    """Percent signs and underscores in a name are just that when names like it are looked for."""
    kept = [add(books, file(ONE, name)) for name in ("a%.png", "abc (1).png")]
    assert kept == ["a%.png", "abc (1).png"]
    assert add(books, file(TWO, "a%.png")) == "a% (1).png"
    assert add(books, replace(file(ONE, "abc.png"))) == "abc.png"
