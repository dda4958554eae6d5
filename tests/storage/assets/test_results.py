"""Rows of assets, on both databases: found by id, forgotten when they expire, and what still names a blob."""

from typing import Any, Final

import pytest

from fairlead.storage.assets.results import Asset, delete_expired, find_asset, insert_assets, named_blobs
from storage.bookings import LAB, NOW, Books, admission

BLOB: Final = "ab" * 32


def asset(id_: str = "asset-1", **changes: Any) -> Asset:
    """Return an asset of the lab that is good for a second."""
    usual: dict[str, Any] = {
        "workspace_id": LAB, "run_id": "run-1", "blob": BLOB, "size": 5, "content_type": "image/png",
        "name": "a.png", "created_at": NOW, "expires_at": NOW + 1000,
    }  # fmt: skip
    return Asset(id_, **{**usual, **changes})


@pytest.fixture(autouse=True)
def _lab(books: Books) -> None:
    """Make the workspace."""
    books.open(balance=1000)


def test_asset_is_found_by_its_id_unchanged(books: Books) -> None:
    """An asset is found by its id, and nothing is found by another."""
    new = [asset("asset-1"), asset("asset-2", name="b \u2013 ü.png", size=2**40)]
    books.do(lambda c: insert_assets(c, new))
    books.do(lambda c: insert_assets(c, []))
    assert books.do(lambda c: [find_asset(c, one.id) for one in new]) == new
    assert books.do(lambda c: find_asset(c, "asset-3")) is None


def test_only_expired_assets_are_deleted(books: Books) -> None:
    """Only what has expired is deleted, the oldest first and so many at once."""
    books.do(lambda c: insert_assets(c, [asset(f"asset-{n}", expires_at=NOW + n) for n in (3, 1, 2, 9)]))
    assert books.do(lambda c: delete_expired(c, NOW, 10)) == 0
    assert books.do(lambda c: delete_expired(c, NOW + 3, 2)) == 2
    assert [row["id"] for row in books.rows("SELECT id FROM assets ORDER BY id")] == ["asset-3", "asset-9"]
    assert books.do(lambda c: delete_expired(c, NOW + 3, 2)) == 1
    assert books.do(lambda c: delete_expired(c, NOW + 3, 2)) == 0


def test_blob_of_a_live_asset_or_result_counts_as_named(books: Books) -> None:
    """A blob is named by a live asset and by the kept result of a run, not by an asset that has expired."""
    kept, expired, of_a_run, unknown = ("a" * 64, "b" * 64, "c" * 64, "d" * 64)
    books.do(lambda c: insert_assets(c, [asset("1", blob=kept), asset("2", blob=expired, expires_at=NOW)]))
    books.write(admission())
    books.sql("UPDATE runs SET result_blob = :blob, result_expires_at = 0 WHERE id = 'run-1'", blob=of_a_run)
    every = [kept, expired, of_a_run, unknown]
    assert books.do(lambda c: named_blobs(c, every, NOW)) == {kept, of_a_run}
    assert books.do(lambda c: named_blobs(c, [], NOW)) == set()
