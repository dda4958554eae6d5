"""`fairlead migrate-data`: an installation moves from one database to another, and nothing of it is lost or changed."""

import asyncio
import datetime
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import text

from conftest import Run
from databases import Postgres, opened_database
from fairlead.cli import commands
from fairlead.cli.mistakes import explanation
from fairlead.clock import Clock
from fairlead.domain.days import first_id, start_of
from fairlead.operations.data_copy import CopyRefusedError, migrate_data
from fairlead.server.installation import DataDirectoryError
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.db.migrate import COMPATIBLE_FROM, COPYING
from fairlead.storage.db.opening import open_database
from servers import Server, serving, wait_until
from storage.bookings import Books, admission, settlement

_AT: Final = start_of(datetime.date(2020, 8, 10))
_RUNS: Final = 2000


@pytest.fixture
def target(postgres: Postgres) -> Iterator[str]:
    """Return the URL of an empty PostgreSQL database."""
    name = postgres.create_bare()
    yield postgres.url(name)
    postgres.drop(name)


def move(source: str, target: str, *options: str) -> Result:
    """Move data as the command does."""
    return CliRunner().invoke(commands, ["migrate-data", source, target, *options])


def rows(run: Run, url: str, query: str) -> list[Any]:
    """Return what a query finds in a database."""

    async def ask() -> list[Any]:
        async with opened_database(url) as database:
            return await database.read(lambda c: [tuple(row) for row in c.execute(text(query))])

    found: list[Any] = run(ask())
    return found


@pytest.mark.req("M-06")
def test_server_goes_on_with_data_that_was_moved(target: str, tmp_path: Path, run: Run) -> None:
    """What a server has made on SQLite, one on PostgreSQL has: keys, balances, results; and back on SQLite again."""
    data = tmp_path / "data"
    source = f"sqlite:///{data / 'fairlead.db'}"
    body = {"prompt": "a boat"}
    with serving(data) as server:
        queued = server.client.post("/v2/models/local/procedural-text-1/requests", json=body)
        assert queued.status_code == 201, queued.text
        path = f"/v2/models/local/procedural-text-1/requests/{queued.json()['request_id']}"
        result = wait_until(lambda: collect(server, path), "the result")
        once = {"Idempotency-Key": "moved", "Content-Type": "application/json"}
        paid = server.client.post("/v2/models/local/procedural-text-1", json=body, headers=once)
        assert paid.status_code == 200, paid.text
        balance = server.workspace()
        refused = move(source, target)
        assert isinstance(refused.exception, DataDirectoryError), "a server uses it"
    summary = json.loads(move(source, target, "--json").stdout)
    assert next(one for one in summary["tables"] if one["name"] == "runs")["rows"] == 2
    assert rows(run, target, "SELECT count(*) FROM runs") == [(2,)]
    with serving(data, database=target) as server:
        assert collect(server, path) == result
        again = server.client.post("/v2/models/local/procedural-text-1", json=body, headers=once)
        assert (again.status_code, again.content) == (200, paid.content)
        assert server.workspace() == balance
        assert server.client.post("/v2/models/local/procedural-text-1", json=body).status_code == 200, (
            "rows are numbered on"
        )
    back = f"sqlite:///{tmp_path / 'back.db'}"
    early = move(target, back)
    assert isinstance(early.exception, CopyRefusedError), "the server may only have fallen silent"
    quick = {"FAIRLEAD_SILENT_SERVER_SECONDS": "2"}
    wait_until(lambda: CliRunner(env=quick).invoke(commands, ["migrate-data", target, back]).exit_code == 0, "silence")
    assert rows(run, back, "SELECT count(*) FROM runs") == [(3,)]
    assert json.loads(CliRunner().invoke(commands, ["audit", "--database", back, "--json"]).stdout)["clean"]


def collect(server: Server, path: str) -> Any:
    """Return the result of a queued run, once it is there."""
    found = server.client.get(path)
    return found.json() if found.status_code == 200 else None


@pytest.fixture(scope="module")
def filled(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SQLite file with runs that have ended, to be copied."""
    path = tmp_path_factory.mktemp("filled") / "fairlead.db"
    shutil.copy(sqlite_template, path)
    with asyncio.Runner() as runner:
        database = open_database(f"sqlite:///{path}")
        books = Books(database, runner.run)
        books.open(name="lab", balance=1_000_000)
        ids = [f"{first_id(_AT)}-7000-8000-{number:012d}" for number in range(_RUNS)]
        books.write(*(admission(id_, created_at=_AT, hold=1) for id_ in ids))
        books.write(*(settlement(id_, finished_at=_AT + 7, charge=1, booked=None) for id_ in ids))
        runner.run(database.close())
    return path


@pytest.fixture
def source(filled: Path, tmp_path: Path) -> str:
    """Return a SQLite database with runs that have ended."""
    return f"sqlite:///{shutil.copy(filled, tmp_path / 'source.db')}"


class _LostDatabase:
    """A target whose connection is lost for good once it has rows of runs."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.read = database.read

    async def write(self, work: Any, *, durable: bool = True) -> Any:
        """Write, and tell that it was lost where rows of runs were written."""
        result = await self._database.write(work, durable=durable)
        if await self._database.read(lambda c: c.execute(text("SELECT 1 FROM runs LIMIT 1")).first()):
            raise DatabaseUnavailableError("the connection was lost")
        return result


@pytest.mark.req("M-06")
def test_copy_that_broke_off_goes_on(source: str, target: str, run: Run) -> None:
    """Broken off in between, the command does the rest; until then no server and no command accepts the target."""

    async def break_off() -> None:
        async with opened_database(source) as old, opened_database(target) as new:
            lost = cast("Database", _LostDatabase(new))
            with pytest.raises(DatabaseUnavailableError):
                await migrate_data(old, lost, Clock(), 0, lambda _name, _rows: None)

    run(break_off())
    assert 0 < rows(run, target, "SELECT count(*) FROM runs")[0][0] < _RUNS
    assert rows(run, target, "SELECT version_num FROM alembic_version") == [(COPYING,)]
    for words in (("audit",), ("migrate",)):
        refused = CliRunner().invoke(commands, [*words, "--database", target])
        assert isinstance(refused.exception, Exception)
        assert "`fairlead migrate-data` does the rest" in str(explanation(refused.exception))
    done = move(source, target)
    assert done.exit_code == 0, done.output
    assert f"copied runs: {_RUNS} rows" in done.stdout
    assert rows(run, target, "SELECT version_num FROM alembic_version") == [(COMPATIBLE_FROM,)]
    assert "rows and books are the same on both sides" in done.stdout
    assert json.loads(CliRunner().invoke(commands, ["audit", "--database", target, "--json"]).stdout)["clean"]
    assert rows(run, target, "SELECT count(*) FROM ledger_entries") == [(1 + 2 * _RUNS,)]


@pytest.mark.req("M-06")
def test_target_that_is_somebody_elses_is_refused(source: str, target: str, run: Run, tmp_path: Path) -> None:
    """One with rows, one with another copy, one of an older schema; and a source that is none."""
    full = f"sqlite:///{tmp_path / 'full.db'}"
    assert move(source, full).exit_code == 0
    assert "it is not empty: the table" in refusal(move(source, full))
    execute(
        run,
        full,
        "UPDATE alembic_version SET version_num = 'copying'",
        "CREATE TABLE data_copy (name TEXT, last TEXT, rows INTEGER)",
        "INSERT INTO data_copy VALUES ('', 'x', 0)",
    )
    assert "an unfinished copy of another source" in refusal(move(source, full))
    execute(
        run,
        full,
        "UPDATE alembic_version SET version_num = '0001'",
        "UPDATE schema_revision SET version_num = '0001'",
    )
    assert "it is at revision 0001" in refusal(move(source, full))
    assert "the source is at revision 0001" in refusal(move(full, target))
    assert "there is no database at" in move(f"sqlite:///{tmp_path / 'none.db'}", target).output
    assert move("mysql://x", target).exit_code == 2


@pytest.mark.req("M-06")
def test_books_that_are_wrong_are_not_moved(source: str, target: str, run: Run) -> None:
    """A proof of the target would prove nothing."""
    execute(run, source, "UPDATE workspaces SET balance = balance + 1")
    assert "do not add up" in refusal(move(source, target))


def refusal(result: Result) -> str:
    """Return the line that a refused command prints."""
    assert isinstance(result.exception, CopyRefusedError), result.output
    return str(explanation(result.exception))


def execute(run: Run, url: str, *statements: str) -> None:
    """Run statements in a database."""

    async def work() -> None:
        async with opened_database(url) as database:
            for statement in statements:
                await database.write(lambda c, s=statement: c.execute(text(s)).close())  # type: ignore[misc]

    run(work())
