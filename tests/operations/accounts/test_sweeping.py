"""Records end after as many days as the settings say, a batch at a time, and for ever is the default."""

from typing import Final

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import SERVER
from fairlead.domain.days import DAY_MS
from fairlead.operations.accounts.sweeping import KeptDays, RecordSweeper
from fairlead.storage.accounts import workspaces
from fairlead.storage.accounts.audit_log import Act, record_act
from fairlead.storage.db.database import Database
from storage.bookings import LAB, NOW, Books, admission, failure, new_key

_CLOCK: Final = Clock(lambda: (NOW + 30 * DAY_MS) * 1_000_000)
_DAYS: Final = KeptDays(audit_log=10, revoked_keys=10, inputs=10)
_FILE: Final = """
    INSERT INTO workflow_files (id, workspace_id, kind, name, blob, size, content_type, created_at)
    VALUES (:id, 'lab-id', :kind, :id, 'b', 7, 'image/png', :at)
"""


@pytest.fixture(autouse=True)
def books(database: Database, run: Run) -> Books:
    """Return books with old and new records of each kind."""
    books = Books(database, run)
    books.open(balance=1000)
    for name, at in (("old", NOW), ("new", NOW + 25 * DAY_MS)):
        for key in (f"{name}-free", f"{name}-held"):
            books.do(lambda c, k=key: workspaces.create_key(c, new_key(k)))  # type: ignore[misc]
            books.sql("UPDATE api_keys SET revoked_at = :at WHERE id = :id", at=at, id=key)
        books.do(lambda c, a=at, n=name: record_act(c, SERVER, Act(f"thing.{n}"), a))  # type: ignore[misc]
        for kind in ("input", "output"):
            books.sql(_FILE, id=f"{name}-{kind}", kind=kind, at=at)
    books.sql("UPDATE api_keys SET revoked_at = NULL WHERE id = 'old-held'")
    books.write(admission(key_id="old-held"))
    books.sql("UPDATE api_keys SET revoked_at = :at WHERE id = 'old-held'", at=NOW)
    return books


def sweeper(database: Database, kept: KeptDays) -> RecordSweeper:
    """Return a sweeper that must meet no trouble."""
    return RecordSweeper(database, _CLOCK, lambda event: pytest.fail(str(event)), kept)


def names(books: Books, table: str, column: str = "id") -> list[str]:
    """Return what is left in a table."""
    return sorted(row["name"] for row in books.rows(f"SELECT {column} AS name FROM {table}"))  # noqa: S608 -- ours


@pytest.mark.req("M-06")
def test_old_records_are_forgotten(books: Books, database: Database, run: Run) -> None:
    """What is older goes, what is newer, held for or no input stays, and what is stored is counted on."""
    swept = sweeper(database, _DAYS)
    assert run(swept.forget()) == 3
    assert run(swept.forget()) == 0
    assert names(books, "audit_entries", "action") == ["thing.new"]
    assert names(books, "api_keys") == ["new-free", "new-held", "old-held"]
    assert names(books, "workflow_files") == ["new-input", "new-output", "old-output"]
    assert books.rows("SELECT bytes, files FROM storage_usage") == [{"bytes": 21, "files": 3}]
    books.write(failure(booked=None))
    assert run(swept.forget()) == 0, "it was looked through less than an hour ago"
    assert run(sweeper(database, _DAYS).forget()) == 1
    assert names(books, "api_keys") == ["new-free", "new-held"]


def test_records_stay_by_default(books: Books, database: Database, run: Run) -> None:
    """Nobody's records go because of an upgrade."""
    assert run(sweeper(database, KeptDays()).forget()) == 0
    assert len(names(books, "api_keys")) == 4
    assert len(names(books, "workflow_files")) == 4


def test_key_with_a_budget_is_kept(books: Books, database: Database, run: Run) -> None:
    """Its budget names it until it is deleted."""
    books.sql(
        """
        INSERT INTO rate_limits (id, workspace_id, scope, subject, per_minute, created_at)
        VALUES ('limit', :w, 'key', 'old-free', 5, 1)
        """,
        w=LAB,
    )
    run(sweeper(database, KeptDays(revoked_keys=10)).forget())
    assert "old-free" in names(books, "api_keys")
