"""Whether a server can take work: asked by many, found out once, and answered though nothing answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from fairlead.operations import shared_look
from fairlead.operations.readiness import Readiness, Shared, Status
from fairlead.storage.blobs.gate import StoreState, open_gate
from fairlead.storage.blobs.store import BlobsUnavailableError
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work


class Counted:
    """A database that counts its writes, and may refuse them or never answer."""

    def __init__(self, database: Database) -> None:
        """Stand before a real one."""
        self._database = database
        self.writes = 0
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, work: Work[Any], *, durable: bool = True) -> Any:
        """Write, once it answers."""
        self.writes += 1
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return await self._database.write(work, durable=durable)

    async def read(self, work: Work[Any]) -> Any:
        """Read."""
        return await self._database.read(work)

    async def close(self) -> None:
        """Leave the real one open."""


@pytest.fixture
def counted(database: Database) -> Counted:
    """Return the test's database, counted."""
    return Counted(database)


@pytest.fixture
def rows() -> list[object]:
    """Return what was written of the server."""
    return []


class Files:
    """A store for files that may not be written, may never answer, or may not be the right one."""

    def __init__(self) -> None:
        """Be well."""
        self.gate = open_gate()
        self.error: Exception | None = None
        self.answers = asyncio.Event()
        self.answers.set()

    async def check_writable(self) -> None:
        """Write, once it answers."""
        await self.answers.wait()
        self.gate.check()
        if self.error is not None:
            raise self.error


@pytest.fixture
def files() -> Files:
    """Return a store that is well."""
    return Files()


@pytest.fixture
def ready(counted: Counted, rows: list[object], files: Files, tmp_path: Path) -> Readiness:
    """Return what looks at a database and a store that other servers have as well, and at a data directory."""
    folder = tmp_path / "data"
    folder.mkdir()
    return Readiness(counted, rows.append, files, folder, Shared(database=True, files=True))


@pytest.fixture
def alone(counted: Counted, files: Files, tmp_path: Path) -> Readiness:
    """Return the same of a server that has its database and its store for itself."""
    return Readiness(counted, lambda _: None, files, tmp_path, Shared(database=False, files=False))


def test_many_who_ask_cost_one_write(ready: Readiness, counted: Counted, rows: list[object], run: Run) -> None:
    """Load balancers and monitors may ask as often as they like."""

    async def ask() -> list[tuple[Status, list[str]]]:
        return await asyncio.gather(*(ready.check() for _ in range(100)))

    assert run(ask()) == [(Status.READY, [])] * 100
    assert (counted.writes, len(rows)) == (1, 1)


@pytest.mark.req("T-06")
def test_database_that_can_only_be_read_is_no_help(
    ready: Readiness, counted: Counted, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk or another's lock: what is found stands for a second, then it is looked again."""
    counted.error = DatabaseUnavailableError("database is locked")
    assert run(ready.check()) == (Status.DEGRADED, ["the database cannot be written"])
    counted.error = None
    assert run(ready.check()) == (Status.DEGRADED, ["the database cannot be written"])
    monkeypatch.setattr(shared_look, "_KEPT_SECONDS", 0.0)
    for look in ready._looks.values():
        look._good_until = 0.0
    assert run(ready.check()) == (Status.READY, [])


def test_database_that_does_not_answer_is_asked_once(
    ready: Readiness, counted: Counted, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody is told so in time; nobody adds to what waits for it."""
    monkeypatch.setattr(shared_look, "_PATIENCE_SECONDS", 0.01)
    counted.gate.clear()

    async def ask() -> list[tuple[Status, list[str]]]:
        answers = [await ready.check() for _ in range(3)]
        counted.gate.set()
        monkeypatch.setattr(shared_look, "_PATIENCE_SECONDS", 30)
        return [*answers, await ready.check()]

    silent = (Status.DEGRADED, ["the database does not answer"])
    assert run(ask()) == [silent] * 3 + [(Status.READY, [])]
    assert counted.writes == 1


@pytest.mark.req("T-06")
def test_store_that_all_servers_share_leaves_each_of_them_ready(ready: Readiness, files: Files, run: Run) -> None:
    """Runs need no files; what does is answered by its API."""
    files.error = BlobsUnavailableError("connection refused")
    assert run(ready.check()) == (Status.DEGRADED, ["files cannot be written to their store"])
    assert run(ready.figures()) == {
        "database": False, "store": True, "schema": False, "unproven_store": False, "disk": False
    }  # fmt: skip


@pytest.mark.req("T-06")
def test_store_that_could_not_be_reached_yet_is_away_for_all(ready: Readiness, files: Files, run: Run) -> None:
    """A server that starts meanwhile takes calls like the others."""
    files.gate.learn(StoreState.UNKNOWN, "connection refused")
    assert run(ready.check()) == (Status.DEGRADED, ["the store for files could not be reached yet"])


@pytest.mark.req("T-06")
def test_store_that_is_another_one_is_a_problem_of_this_server(ready: Readiness, files: Files, run: Run) -> None:
    """The others have the right one."""
    files.gate.learn(StoreState.UNMARKED, "it has no marker")
    status, problems = run(ready.check())
    assert status is Status.UNREADY
    assert problems == ["the store for files is not known to be the installation's; see the log and `fairlead doctor`"]


@pytest.mark.req("T-06")
def test_disk_of_its_own_is_a_problem_of_this_server(ready: Readiness, files: Files, tmp_path: Path, run: Run) -> None:
    """Whatever else is wrong with what all share."""
    files.error = BlobsUnavailableError("connection refused")
    (tmp_path / "data").rmdir()
    status, problems = run(ready.check())
    assert status is Status.UNREADY
    assert problems == ["files cannot be written to their store", "the data directory cannot be written"]


@pytest.mark.req("T-06")
@pytest.mark.parametrize("away", ["database", "files"])
def test_server_alone_is_unready_without_what_it_has_for_itself(
    alone: Readiness, counted: Counted, files: Files, away: str, run: Run
) -> None:
    """Its SQLite file and its folder are on a disk of its own."""
    if away == "database":
        counted.error = DatabaseUnavailableError("database or disk is full")
    else:
        files.error = BlobsUnavailableError("no space left on device")
    status, problems = run(alone.check())
    assert (status, len(problems)) == (Status.UNREADY, 1)


def test_database_of_another_version_is_not_written(
    ready: Readiness, counted: Counted, rows: list[object], run: Run
) -> None:
    """A server of a newer version has changed it, or an older one was put back."""
    run(counted.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")))
    assert run(ready.check()) == (Status.UNREADY, ["the database has a schema that this version cannot use"])
    assert rows == []


def test_server_that_stops_says_so_without_looking(ready: Readiness, counted: Counted, run: Run) -> None:
    """Draining is no trouble of the database's."""
    ready.begin_draining()
    assert run(ready.check()) == (Status.DRAINING, [])
    assert counted.writes == 0


def test_look_that_hangs_ends_with_the_server(
    ready: Readiness, counted: Counted, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps nobody from stopping."""
    monkeypatch.setattr(shared_look, "_PATIENCE_SECONDS", 0.01)
    counted.gate.clear()

    async def ask() -> None:
        await ready.check()
        await ready.close()

    run(ask())
