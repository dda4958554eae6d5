"""Copying tables: every row arrives as it was, in either kind of database, and a copy may be begun again."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from conftest import Run
from databases import Postgres, opened_database
from fairlead.storage.db.database import Database
from fairlead.storage.db.schema import metadata, storage_usage
from fairlead.storage.db.snapshots import Snapshot, open_snapshot
from fairlead.storage.db.table_copy import (
    TableCopier,
    TableTotals,
    TotalsCounter,
    filled_table,
    number_on,
)
from fairlead.storage.db.tables import (
    editor_documents,
    labelled_jobs,
    ledger_entries,
    rate_windows,
    workflow_files,
    workspaces,
)

_TINY = 3
"""Rows of a page here, so that every table has several."""


@pytest.fixture(params=["sqlite", "postgresql"])
def other_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a second database that is migrated and empty, of each kind."""
    if request.param == "sqlite":
        path = tmp_path / "other.db"
        shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.lend()
    yield server.url(name)
    server.take_back(name)


def _fill(connection: Connection) -> None:
    """Write rows whose keys are texts, numbers and several columns, and whose values are all there are."""
    names = ["a", "B", "b-1", "b_1", "ä", "zz", "A"]
    paid_in = [2**53 + n for n in range(10)]
    connection.execute(
        workspaces.insert(),
        [
            {"id": name, "name": f"lab {name}", "billing": "prepaid", "cap": 0,
             "balance": sum(paid_in) if name == "a" else 0, "held": 0,
             "in_flight": 0, "in_flight_limit": -1, "gates": '{"new": "on"}', "created_at": 1,
             "sso_required": name == "a"}
            for name in names
        ],
    )  # fmt: skip
    connection.execute(
        ledger_entries.insert(),
        [{"workspace_id": "a", "kind": "credit", "balance_change": amount, "held_change": 0, "reason": "paid in ✓",
          "created_at": 1} for amount in paid_in],
    )  # fmt: skip
    connection.execute(
        rate_windows.insert(),
        [{"meter_id": name, "span": span, "started_at": at, "requests": 1}
         for name in ("x", "Y") for span in ("day", "minute") for at in (0, 60, 7)],
    )  # fmt: skip
    connection.execute(
        editor_documents.insert(),
        [{"workspace_id": "a", "name": str(n), "content": bytes(range(256)) * n, "changed_at": 1} for n in range(4)],
    )
    connection.execute(labelled_jobs.insert(), [{"id": f"{n:045x}", "numbers": b"\x00\xff"} for n in range(4)])
    connection.execute(
        workflow_files.insert(),
        [{"id": str(n), "workspace_id": "B", "kind": "input", "name": str(n), "blob": "0" * 64, "size": 5,
          "content_type": "image/png", "created_at": 1} for n in range(5)],
    )  # fmt: skip
    connection.execute(storage_usage.update().where(storage_usage.c.workspace_id == "B").values(bytes_limit=77))


async def _copy(source: Snapshot, target: Database) -> dict[str, TableTotals]:
    """Copy every table page by page, each row through its line, and each page twice."""
    copied = {}
    for copier in TableCopier.of_all():
        after, counter = None, TotalsCounter()
        while page := await source.read(partial(copier.read_page, after=after, limit=_TINY)):
            lines = [copier.encode(row) for row in page]
            counter.add(lines)
            write = partial(copier.write_rows, rows=[copier.decode(line) for line in lines])
            await target.write(write)
            await target.write(write)
            after = copier.key_of(page[-1])
        copied[copier.name] = counter.totals
    await target.write(number_on)
    return copied


async def _totals(source: Snapshot) -> dict[str, TableTotals]:
    found = {}
    for copier in TableCopier.of_all():
        counter = TotalsCounter()
        rows = await source.read(partial(copier.read_page, limit=1000))
        counter.add(copier.encode(row) for row in reversed(rows))
        found[copier.name] = counter.totals
    return found


def test_copy_has_the_rows_of_its_source(database: Database, database_url: str, other_url: str, run: Run) -> None:
    """From either kind into either kind, written twice as after an interruption, each table has the same totals."""

    async def copy() -> None:
        await database.write(_fill)
        async with opened_database(other_url) as other:
            assert await other.read(filled_table) is None
            async with open_snapshot(database_url) as snapshot:
                copied = await _copy(snapshot, other)
            assert copied == await _totals(database) == await _totals(other)
            assert copied["workspaces"].rows == 7
            assert await other.read(filled_table) is not None

            def goes_on(connection: Connection) -> tuple[Any, Any]:
                entry = {"workspace_id": "a", "kind": "credit", "balance_change": 1, "held_change": 0,
                         "reason": "later", "created_at": 2}  # fmt: skip
                connection.execute(ledger_entries.insert(), entry)
                highest = connection.execute(select(func.max(ledger_entries.c.id))).scalar()
                usage = connection.execute(select(storage_usage).where(storage_usage.c.workspace_id == "B")).one()
                return highest, usage

            highest, usage = await other.write(goes_on)
            before = await database.read(lambda c: c.execute(select(func.max(ledger_entries.c.id))).scalar_one())
            assert highest == before + 1
            assert tuple(usage) == ("B", 25, 5, 77, None)

    run(copy())


def test_snapshot_does_not_see_what_is_written_later(database: Database, database_url: str, run: Run) -> None:
    """All steps of a snapshot read the same database, whatever is written between them; so does the next snapshot."""
    count = select(func.count()).select_from(workspaces)

    async def look() -> list[Any]:
        async with open_snapshot(database_url) as snapshot:
            seen = [await snapshot.read(lambda c: c.execute(count).scalar())]
            await database.write(_fill)
            seen.append(await snapshot.read(lambda c: c.execute(count).scalar()))
        async with open_snapshot(database_url) as snapshot:
            seen.append(await snapshot.read(lambda c: c.execute(count).scalar()))
        return seen

    assert run(look()) == [0, 0, 7]


def test_error_of_a_reader_of_a_snapshot_stays_its_own(database_url: str, run: Run) -> None:
    """A full disk of a copy is not taken for an outage of the database."""

    async def fail() -> None:
        async with open_snapshot(database_url):
            raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        run(fail())


def test_totals_tell_changed_doubled_and_lost_rows() -> None:
    """Rows may come in any order; each other difference changes the totals."""

    def totals(*lines: bytes) -> TableTotals:
        counter = TotalsCounter()
        counter.add(lines)
        return counter.totals

    assert totals(b"1", b"2") == totals(b"2", b"1")
    assert len({totals(b"1", b"2"), totals(b"1"), totals(b"1", b"2", b"2"), totals(b"1", b"3"), totals()}) == 5


def test_every_table_comes_after_those_it_refers_to() -> None:
    """Rows can be written table by table without a reference to what is not there yet; counts come last."""
    order = [copier.name for copier in TableCopier.of_all()]
    assert sorted(order) == sorted(metadata.tables)
    for table in metadata.tables.values():
        for reference in table.foreign_keys:
            assert order.index(reference.column.table.name) < order.index(table.name)
    assert order[-1] == "storage_usage"


def test_line_of_another_table_is_refused() -> None:
    """A line with too few values is not a row; names that a table does not have are not columns."""
    copier = TableCopier(workspaces)
    with pytest.raises(ValueError, match="workspaces has"):
        copier.decode(b"[1, 2]\n")
    with pytest.raises(ValueError, match="has no colour"):
        TableCopier(workspaces, ["id", "colour"])
