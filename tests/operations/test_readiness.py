"""Whether a server can take work: asked by many, found out once, and answered though nothing answers."""

import asyncio
from typing import Any

import pytest

from conftest import Run
from fairlead.operations import shared_look
from fairlead.operations.readiness import Readiness, Status
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


@pytest.fixture
def ready(counted: Counted, rows: list[object]) -> Readiness:
    """Return what looks at the database, and at a data directory that can be written."""
    return Readiness(counted, rows.append, _do_nothing)


async def _do_nothing() -> None:
    pass


async def _full() -> None:
    raise BlobsUnavailableError("no space left on device")


def test_many_who_ask_cost_one_write(ready: Readiness, counted: Counted, rows: list[object], run: Run) -> None:
    """Load balancers and monitors may ask as often as they like."""

    async def ask() -> list[tuple[Status, list[str]]]:
        return await asyncio.gather(*(ready.check() for _ in range(100)))

    assert run(ask()) == [(Status.READY, [])] * 100
    assert (counted.writes, len(rows)) == (1, 1)


def test_database_that_can_only_be_read_is_no_help(
    ready: Readiness, counted: Counted, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk or another's lock: what is found stands for a second, then it is looked again."""
    counted.error = DatabaseUnavailableError("database is locked")
    assert run(ready.check()) == (Status.DEGRADED, ["the database cannot be written"])
    counted.error = None
    assert run(ready.check()) == (Status.DEGRADED, ["the database cannot be written"])
    monkeypatch.setattr(shared_look, "_KEPT_SECONDS", 0.0)
    ready._look._good_until = 0.0
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

    silent = (Status.DEGRADED, ["the database or the store for files does not answer"])
    assert run(ask()) == [silent] * 3 + [(Status.READY, [])]
    assert counted.writes == 1


def test_data_directory_that_cannot_be_written_is_a_problem(counted: Counted, run: Run) -> None:
    """Files of jobs and results would have no place."""
    full = Readiness(counted, lambda _: None, _full)
    assert run(full.check()) == (Status.DEGRADED, ["files cannot be written to their store"])


def test_database_of_another_version_is_not_written(
    ready: Readiness, counted: Counted, rows: list[object], run: Run
) -> None:
    """A server of a newer version has changed it, or an older one was put back."""
    run(counted.write(lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")))
    assert run(ready.check()) == (Status.DEGRADED, ["the database has a schema that this version cannot use"])
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
