"""`fairlead archive` and what reads archives, as commands on a database of either kind."""

import csv
import datetime
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from click.testing import CliRunner, Result

from conftest import Run
from fairlead.cli import commands
from fairlead.cli.mistakes import explanation
from fairlead.domain.days import first_id, start_of
from fairlead.operations.ledger.archives import BadArchiveDateError
from fairlead.storage.db.database import Database
from servers import COMMAND, environment, kill_at_last, wait_until
from storage.bookings import Books, admission, settlement

AT: Final = start_of(datetime.date(2020, 8, 10))
Ran: TypeAlias = Callable[..., Result]


@pytest.fixture(autouse=True)
def _books_are_proven(proven_books: None) -> None:
    """Prove the books after each test of this file."""


def fill(books: Books, count: int, at: int = AT) -> None:
    """Write runs of the lab that ended at a time."""
    ids = [f"{first_id(at)}-7000-8000-{number:012d}" for number in range(count)]
    books.write(*(admission(id_, created_at=at) for id_ in ids))
    books.write(*(settlement(id_, finished_at=at + 7, booked=None) for id_ in ids))


@pytest.fixture(autouse=True)
def books(database: Database, run: Run) -> Books:
    """Return books with three runs of 2020, and one of 2021."""
    books = Books(database, run)
    books.open(name="lab", balance=1_000_000)
    fill(books, 3)
    fill(books, 1, start_of(datetime.date(2021, 1, 5)))
    return books


@pytest.fixture
def ran(database_url: str, tmp_path: Path) -> Ran:
    """Return a function that runs a command on the books."""
    where = ["--database", database_url, "--data", str(tmp_path / "data")]
    return lambda *arguments: CliRunner().invoke(commands, [*arguments, *where])


def document(result: Result) -> Any:
    """Return what a command printed as JSON."""
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.req("M-06")
def test_archive_is_listed_told_and_proven(ran: Ran, books: Books, tmp_path: Path) -> None:
    """What was archived is listed; lists and exports say so, and cover it where they are given the folder."""
    whole = ran("ledger", "export", "--all").stdout
    done = ran("archive", "--before", "2020-09-01")
    assert done.exit_code == 0, done.output
    (path,) = (tmp_path / "data" / "archives").glob("*.gz")
    size = path.stat().st_size
    assert done.stdout == (
        f"Wrote {path.name}: 3 runs, 6 entries, {size} bytes.\nMoved 3 runs that ended before 2020-09-01.\n"
    )
    (listed,) = document(ran("ledger", "archives", "--json"))
    assert (listed["number"], listed["before"], listed["runs"], listed["file"]) == (1, "2020-09-01", 3, path.name)
    note = "Entries of runs that ended before 2020-09-01 are archived"
    shown = ran("ledger", "show", "lab", "--json")
    assert len(document(shown)) == 3
    assert note in shown.stderr
    assert note not in ran("ledger", "show", "lab", "--limit", "3").stderr, "there is room for no more"
    without = ran("ledger", "export", "--all")
    assert note in without.stderr
    assert len(list(csv.reader(io.StringIO(without.stdout)))) == 1 + 3
    assert note not in ran("ledger", "export", "--all", "--from", "2020-09-01").stderr
    covered = ran("ledger", "export", "--all", "--archives", str(path.parent))
    assert (covered.stdout, covered.stderr) == (whole, "")
    assert document(ran("archive", "--before", "2020-09-01", "--json"))["moved"] == 0
    report = document(ran("audit", "--archives", str(path.parent), "--json"))
    assert (report["clean"], report["archives"]["totals"]["archived_runs_read"]) == (True, 3)
    assert "The archives are right." in ran("audit", "--archives", str(path.parent)).stdout
    assert "--archives DIR proves them too" in ran("audit").stdout
    (act,) = books.rows("SELECT action, target FROM audit_entries")
    assert (act["action"], act["target"]) == ("ledger.archived", path.name)


@pytest.mark.req("M-06")
def test_damaged_archive_fails_the_audit(ran: Ran, tmp_path: Path) -> None:
    """Its status is 1, and it names the file."""
    folder = tmp_path / "cold"
    assert ran("archive", "--before", "2020-09-01", "--to", str(folder)).exit_code == 0
    (path,) = folder.glob("*.gz")
    path.write_bytes(path.read_bytes()[:-1])
    result = ran("audit", "--archives", str(folder))
    assert result.exit_code == 1
    assert f"{path} is not what was written" in result.stdout
    assert "The archives are WRONG." in result.stdout
    missing = ran("ledger", "export", "--all", "--archives", str(tmp_path))
    assert str(missing.exception).startswith(f"{tmp_path / path.name} cannot be read: ")


def test_refused_date_names_the_latest(ran: Ran, books: Books) -> None:
    """A caller who asks for too much is told what can be archived."""
    id_ = f"{first_id(AT + 86_400_000)}-7000-8000-000000000099"
    books.write(admission(id_, created_at=AT + 86_400_000))
    refused = ran("archive", "--before", "2020-09-01")
    assert isinstance(refused.exception, BadArchiveDateError)
    assert explanation(refused.exception) == (
        "2020-09-01 would take what is still needed: runs that have not ended (1); 2020-08-11 is the latest date"
    )
    told = document(ran("archive", "--keep-days", "30", "--json"))
    assert (told["before"], told["moved"]) == ("2020-08-11", 3)


def test_archive_needs_a_date(ran: Ran) -> None:
    """One of two ways to say it, and not both."""
    for arguments in ((), ("--before", "2020-09-01", "--keep-days", "3")):
        result = ran("archive", *arguments)
        assert result.exit_code == 2
        assert "give --before DATE or --keep-days DAYS" in result.output
    assert "must be a date" in str(ran("archive", "--before", "yesterday").exception)


@pytest.mark.req("M-06")
def test_killed_archive_goes_on_where_it_was(ran: Ran, books: Books, database_url: str, tmp_path: Path) -> None:
    """Killed while it deletes, it has lost and doubled nothing, and the same command does the rest."""
    fill(books, 400, AT + 86_400_000)
    whole = ran("ledger", "export", "--all").stdout
    words = ("archive", "--before", "2020-09-01", "--database", database_url, "--data", str(tmp_path / "data"))

    def count_runs() -> int:
        return int(books.rows("SELECT count(*) AS n FROM runs")[0]["n"])

    before, folder = count_runs(), str(tmp_path / "data" / "archives")
    process = subprocess.Popen([*COMMAND, *words], env=environment())
    with kill_at_last(process):
        wait_until(lambda: count_runs() < before, "rows to be deleted")
    process.wait()
    assert count_runs() > 2, "it was killed in time"
    assert document(ran("audit", "--json"))["clean"]
    assert ran("ledger", "export", "--all", "--archives", folder).stdout == whole
    assert "Finished fairlead-archive-000001" in ran("archive", "--before", "2020-09-01").stdout
    assert count_runs() == 2, "one of 2021, and the one of the newest entry"
    assert document(ran("audit", "--archives", folder, "--json"))["clean"]
    assert ran("ledger", "export", "--all", "--archives", folder).stdout == whole
