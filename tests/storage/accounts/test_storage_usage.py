"""What a workspace keeps is counted in the transaction that changes it, and no two pass its limit together (S-09)."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from conftest import Run
from fairlead.domain.accounts.storage_limits import StorageLimits, StorageUsage
from fairlead.storage.accounts import editor_documents
from fairlead.storage.accounts.editor_documents import Shelf
from fairlead.storage.accounts.storage_usage import StorageFullError, set_limits, usage_of
from fairlead.storage.assets import results as assets
from fairlead.storage.assets.files import WorkflowFile, delete_expired, keep_file
from fairlead.storage.assets.records import add_asset_of, delete_asset
from fairlead.storage.assets.results import Asset, insert_assets
from fairlead.storage.db.database import Database
from fairlead.storage.ledger import ledger
from storage.bookings import LAB, NOW, Books

pytestmark = pytest.mark.req("S-09")

OTHER: Final = "office-id"


def _file(number: int, size: int = 10, workspace_id: str = LAB, **changes: Any) -> WorkflowFile:
    usual = {"kind": "input", "name": f"{number}.png", "blob": f"{number:064}", "content_type": "image/png"}
    return WorkflowFile(
        id=f"file-{number}", workspace_id=workspace_id, size=size, created_at=NOW, **{**usual, **changes}
    )


def _asset(number: int, size: int, workspace_id: str = LAB) -> Asset:
    return Asset(f"asset-{number}", workspace_id, "run", f"{number:064}", size, "image/png", "a.png", NOW, NOW + 10)


def _usage(books: Books, workspace_id: str = LAB) -> tuple[int, int]:
    found: StorageUsage = books.do(lambda c: usage_of(c, workspace_id))
    return found.bytes, found.files


@pytest.fixture
def books(books: Books) -> Books:
    """Return books with two workspaces."""
    books.open()
    books.open(id_=OTHER)
    return books


def _keep(books: Books, file: WorkflowFile, limits: StorageLimits, *, overwrite: bool = False) -> WorkflowFile:
    kept: WorkflowFile = books.do(lambda c: keep_file(c, file, limits, overwrite=overwrite))
    return kept


def test_everything_that_is_kept_is_counted_and_everything_deleted_is_not(books: Books) -> None:
    """Files, assets of the same bytes, copies of results and documents count, each for its own workspace."""
    limits, shelf = StorageLimits(), Shelf(LAB, "userdata/", 10)
    _keep(books, _file(1, 10), limits)
    _keep(books, _file(2, 7, OTHER), limits)
    _keep(books, replace(_file(3, 5), name="1.png", blob=f"{1:064}"), limits)  # known already
    books.do(lambda c: add_asset_of(c, replace(_file(4, 0), blob=f"{1:064}", name="same.png")))
    books.do(lambda c: insert_assets(c, [_asset(1, 100), _asset(2, 50)]))
    books.do(lambda c: editor_documents.put_document(c, shelf, "a.json", b"12345", NOW))
    assert (_usage(books), _usage(books, OTHER)) == ((10 + 10 + 150 + 5, 5), (7, 1))
    _keep(books, replace(_file(5, 30), name="1.png"), limits, overwrite=True)
    books.do(lambda c: editor_documents.put_document(c, shelf, "a.json", b"1", NOW))
    assert _usage(books) == (30 + 10 + 150 + 1, 5)
    books.do(lambda c: delete_asset(c, LAB, "file-4", NOW))
    books.do(lambda c: assets.delete_expired(c, NOW + 10, 10))
    books.do(lambda c: editor_documents.delete_document(c, shelf, "a.json"))
    assert (_usage(books), _usage(books, OTHER)) == ((30, 1), (7, 1))
    assert books.do(ledger.disagreements) == []


def test_audit_finds_counts_that_are_wrong(books: Books) -> None:
    """What is counted otherwise than it is kept is told."""
    _keep(books, _file(1, 10), StorageLimits())
    books.sql("UPDATE storage_usage SET files = 2")
    (wrong,) = books.do(ledger.disagreements)
    assert (wrong["id"], wrong["files"]) == (LAB, 2)
    books.sql("UPDATE storage_usage SET files = 1")


@pytest.mark.parametrize(
    ("limits", "what"), [(StorageLimits(bytes=25), ("bytes", 25)), (StorageLimits(files=2), ("files", 2))]
)
def test_file_beyond_a_limit_is_refused_and_nothing_of_it_is_kept(
    books: Books, limits: StorageLimits, what: tuple[str, int]
) -> None:
    """The limit also holds for a replacement; bytes already there need no room, and other workspaces have their own."""
    for number in (1, 2):
        _keep(books, _file(number), limits)
    for file, overwrite in ((_file(3), False), (_file(4), True)):
        with pytest.raises(StorageFullError) as caught:
            _keep(books, file, limits, overwrite=overwrite)
        assert (caught.value.what, caught.value.limit) == what
    assert _keep(books, replace(_file(5), name="1.png", blob=f"{1:064}"), limits).id == "file-1"
    _keep(books, _file(6, 10, OTHER), limits)
    shelf = Shelf(LAB, "settings/", 10, limits)
    with pytest.raises(StorageFullError):
        books.do(lambda c: editor_documents.put_document(c, shelf, "a", b"123456", NOW))
    assert (_usage(books), _usage(books, OTHER)) == ((20, 2), (10, 1))


def test_workspace_has_limits_of_its_own(books: Books) -> None:
    """They hold in place of those of the settings, until they are taken back."""
    books.do(lambda c: set_limits(c, LAB, {"bytes_limit": 5}))
    with pytest.raises(StorageFullError):
        _keep(books, _file(1, 10), StorageLimits(bytes=100))
    books.do(lambda c: set_limits(c, LAB, {"bytes_limit": 0}))
    _keep(books, _file(1, 1_000), StorageLimits(bytes=100))
    books.do(lambda c: set_limits(c, LAB, {"bytes_limit": None, "files_limit": 7}))
    usage = books.do(lambda c: usage_of(c, LAB))
    assert (usage, usage.find_exceeded(StorageLimits(bytes=100))) == (StorageUsage(1_000, 1, None, 7), ("bytes", 100))


def test_uploads_at_once_do_not_pass_the_limit_together(books: Books, database: Database, run: Run) -> None:
    """Of twenty files that arrive at once as many are kept as there is room for."""
    limits = StorageLimits(bytes=65)

    async def keep(number: int) -> bool:
        try:
            await database.write(lambda c: keep_file(c, _file(number), limits, overwrite=number % 2 == 0))
        except StorageFullError:
            return False
        return True

    async def keep_all() -> Sequence[bool]:
        return await asyncio.gather(*(keep(number) for number in range(20)))

    assert sum(run(keep_all())) == 6
    assert _usage(books) == (60, 6)


_STEPS: Final = st.lists(
    st.tuples(st.sampled_from(("put", "add", "delete", "expire")), st.integers(0, 4), st.integers(0, 40)), max_size=25
)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_STEPS)
def test_counts_are_always_those_of_the_rows_and_within_the_limit(
    books: Books, steps: list[tuple[str, int, int]]
) -> None:
    """Whatever is kept, replaced, deleted or expires, in whatever order."""
    books.sql("DELETE FROM workflow_files")
    limits = StorageLimits(bytes=100, files=4)
    for at, (doing, number, size) in enumerate(steps):
        file = _file(number, size, blob=f"{size:064}", expires_at=NOW + 10 if size % 2 else None)
        file = replace(file, id=f"file-{at}")
        try:
            match doing:
                case "put" | "add":
                    _keep(books, file, limits, overwrite=doing == "put")
                case "delete":
                    books.do(partial(delete_asset, workspace_id=LAB, asset_id=f"file-{at - 1}", now=NOW))
                case _:
                    books.do(lambda c: delete_expired(c, NOW + 10, 2))
        except StorageFullError:
            pass
        kept, files = _usage(books)
        assert kept <= 100
        assert files <= 4
        assert books.do(ledger.disagreements) == []
