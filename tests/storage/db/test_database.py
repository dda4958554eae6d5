"""What a transaction promises, and what becomes of one when the database is locked, full, replaced or gone."""

import asyncio
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.util import await_only

from conftest import Run
from databases import Postgres
from fairlead.storage.db import migrate, postgresql
from fairlead.storage.db import sqlite as sqlite_module
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.db.opening import WaitingDatabase, file_of, open_database
from fairlead.storage.db.postgresql import UndoneError
from fairlead.storage.db.sqlite import Committer, SqliteDatabase

T = TypeVar("T")
Attempt = Callable[[], None]


def announce(connection: Connection, server: str = "one") -> None:
    """Write a row."""
    connection.execute(text("INSERT INTO servers (id, seen_at) VALUES (:id, 1)"), {"id": server})


def servers(connection: Connection) -> int:
    """Count the rows."""
    return int(connection.execute(text("SELECT count(*) FROM servers")).scalar_one())


@pytest.fixture
def sqlite_file(sqlite_url: str) -> Path:
    """Return the file of a migrated SQLite database."""
    return Path(sqlite_url.removeprefix("sqlite:///"))


@pytest.fixture
def sqlite(sqlite_file: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteDatabase]:
    """Return an open SQLite database that has written once, and waits for no lock."""
    monkeypatch.setattr(sqlite_module, "_BUSY_SECONDS", 0.05)
    opened = SqliteDatabase(sqlite_file)
    run(opened.write(lambda c: announce(c, "first")))
    yield opened
    run(opened.close())


@pytest.fixture
def refused(sqlite: SqliteDatabase, run: Run) -> Attempt:
    """Return a function that checks that a write is refused as unavailable."""

    def check() -> None:
        with pytest.raises(DatabaseUnavailableError):
            run(sqlite.write(announce))

    return check


def rows_in(file: Path) -> list[str]:
    """Read a SQLite file as somebody else would."""
    with closing(sqlite3.connect(file)) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM servers ORDER BY id")]


def test_work_that_raises_leaves_nothing_behind(database: Database, run: Run) -> None:
    """A transaction whose work raises never was."""

    def fail(connection: Connection) -> None:
        announce(connection)
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        run(database.write(fail))
    assert run(database.read(servers)) == 0
    run(database.write(announce))
    assert run(database.read(servers)) == 1


def test_write_that_need_not_be_durable_is_seen_at_once_and_kept(database: Database, run: Run) -> None:
    """It is whole or not at all, like any other, and the durable one after it follows it."""

    def announce_and_fail(connection: Connection) -> None:
        announce(connection, "two")
        raise RuntimeError

    async def write() -> list[int]:
        await database.write(announce, durable=False)
        seen = [await database.read(servers)]
        with pytest.raises(RuntimeError):
            await database.write(announce_and_fail, durable=False)
        await database.write(lambda connection: announce(connection, "three"))
        return [*seen, await database.read(servers)]

    assert run(write()) == [1, 2]


def test_write_that_need_not_be_durable_does_not_wait_for_the_disk(
    sqlite: SqliteDatabase, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """Only the commits of durable writes go to the thread that waits for the disk, and they are synced in full."""
    commits: list[str] = []

    def commit(committer: Committer, work: Callable[[], None]) -> asyncio.Future[None]:
        commits.append("durable")
        return original(committer, work)

    original = Committer.run
    monkeypatch.setattr(Committer, "run", commit)

    def work(connection: Connection) -> int:
        announce(connection, str(servers(connection)))
        return int(connection.execute(text("PRAGMA synchronous")).scalar_one())

    async def write() -> list[int]:
        return [await sqlite.write(work, durable=durable) for durable in (True, False, False, True)]

    assert run(write()) == [2, 1, 1, 2]
    assert commits == ["durable", "durable"]


def test_cancelled_write_that_has_begun_is_finished_first(sqlite: SqliteDatabase, sqlite_file: Path, run: Run) -> None:
    """Its caller goes on when it is kept, however often it is cancelled; one that waits for its turn writes nothing."""

    async def check() -> None:
        loop = asyncio.get_running_loop()
        begun, waiting = (loop.create_task(sqlite.write(partial(announce, server=name))) for name in "ab")
        await asyncio.sleep(0)
        for _ in range(3):
            begun.cancel()
            waiting.cancel()
            await asyncio.sleep(0)
        await asyncio.wait({begun, waiting})
        assert begun.cancelled()
        assert waiting.cancelled()
        assert rows_in(sqlite_file) == ["a", "first"]
        await sqlite.write(lambda c: announce(c, "next"))

    run(check())
    assert rows_in(sqlite_file) == ["a", "first", "next"]


def test_reader_sees_one_snapshot(database: Database, database_url: str, run: Run) -> None:
    """Everything one read asks is answered from one snapshot, whatever others commit meanwhile."""
    other = open_database(database_url)

    async def read_around_a_write() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        if file_of(database_url) is None:
            return await _read_around(database, other)

        def work(connection: Connection) -> tuple[int, int]:
            before = servers(connection)
            asyncio.run_coroutine_threadsafe(other.write(announce), loop).result(5)
            return before, servers(connection)

        return await database.read(work)

    assert run(read_around_a_write()) == (0, 0)
    run(other.close())
    assert run(database.read(servers)) == 1


def test_unsupported_database_is_refused() -> None:
    """Only the two kinds we speak to are opened."""
    for url in ("mysql://localhost/x", "sqlite://"):
        with pytest.raises(ValueError, match="not supported"):
            open_database(url)


def test_only_sqlite_has_a_file() -> None:
    """Only SQLite has a file."""
    assert file_of("sqlite:////data/fairlead.db") == Path("/data/fairlead.db")
    assert file_of("postgresql://localhost/x") is None


def test_database_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    """A new database and the files SQLite puts beside it are their owner's alone."""
    file = tmp_path / "fairlead.db"

    async def work() -> set[int]:
        database = SqliteDatabase(file)
        await database.write(migrate.upgrade)
        modes = {stat.S_IMODE(os.stat(path).st_mode) for path in os.scandir(tmp_path)}  # noqa: PTH116 -- in async
        await database.close()
        return modes

    assert asyncio.run(work()) == {0o600}


def test_server_recovers_from_a_locked_file(
    sqlite: SqliteDatabase, sqlite_file: Path, refused: Attempt, run: Run
) -> None:
    """While another holds the lock writes are refused and reads go on; afterwards all is well."""
    with closing(sqlite3.connect(sqlite_file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused()
        assert run(sqlite.read(servers)) == 1
        other.execute("ROLLBACK")
    run(sqlite.write(announce))
    assert rows_in(sqlite_file) == ["first", "one"]


def test_server_recovers_from_a_full_disk(sqlite: SqliteDatabase, sqlite_file: Path, run: Run) -> None:
    """A write without room leaves nothing, and the next that fits is written."""

    def fill(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
        for number in range(2000):
            announce(connection, f"server-{number:030}")

    with pytest.raises(DatabaseUnavailableError, match="full"):
        run(sqlite.write(fill))
    run(sqlite.write(announce))
    assert rows_in(sqlite_file) == ["first", "one"]


def test_deleted_file_is_never_written_to(
    sqlite: SqliteDatabase, sqlite_file: Path, refused: Attempt, run: Run, tmp_path: Path
) -> None:
    """Without its file the database is unavailable, makes no new one, and recovers when it is back."""
    away = tmp_path / "away"
    sqlite_file.rename(away)
    for _ in range(3):
        refused()
        with pytest.raises(DatabaseUnavailableError):
            run(sqlite.read(servers))
    assert not sqlite_file.exists()
    away.rename(sqlite_file)
    run(sqlite.write(announce))
    assert rows_in(sqlite_file) == ["first", "one"]


@pytest.mark.parametrize("opened_by", ["writer", "reader"])
def test_file_that_goes_while_it_is_opened_is_not_made_again(
    sqlite_file: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened_by: str
) -> None:
    """SQLite makes an empty file where it opens one that is not there, and that would pass for the database."""
    opened = SqliteDatabase(sqlite_file)
    run(opened.read(servers))
    while opened._idle_readers:
        opened._idle_readers.pop()[0].close()
    opened._engine.dispose()
    look, away = SqliteDatabase._refuse_if_gone, tmp_path / "away"

    def look_and_lose(self: SqliteDatabase) -> None:
        look(self)
        sqlite_file.rename(away)

    with monkeypatch.context() as patched:
        patched.setattr(SqliteDatabase, "_refuse_if_gone", look_and_lose)
        with pytest.raises(DatabaseUnavailableError):
            run(opened.write(announce) if opened_by == "writer" else opened.read(servers))
    assert not sqlite_file.exists()
    away.rename(sqlite_file)
    run(opened.write(announce))
    assert rows_in(sqlite_file) == ["one"]
    run(opened.close())


@pytest.mark.parametrize("first_to_see", ["writer", "reader"])
def test_replaced_file_is_noticed(
    sqlite: SqliteDatabase, sqlite_file: Path, run: Run, tmp_path: Path, first_to_see: str
) -> None:
    """Anyone who sees the new file first is refused; nobody writes into the old one, and then the new one is used."""
    run(sqlite.read(servers))
    dead = tmp_path / "dead"
    for suffix in ("", "-wal", "-shm"):
        Path(f"{sqlite_file}{suffix}").rename(f"{dead}{suffix}")
    shutil.copy(dead, sqlite_file)
    with pytest.raises(DatabaseUnavailableError):
        run(sqlite.write(announce) if first_to_see == "writer" else sqlite.read(servers))
    run(sqlite.write(lambda c: announce(c, "new")))
    assert "new" in rows_in(sqlite_file)
    assert "new" not in rows_in(dead)


def test_damaged_file_is_an_unavailable_database(tmp_path: Path, run: Run) -> None:
    """A folder where the file should be is an unavailable database, not a bug."""
    (tmp_path / "folder.db").mkdir()
    opened = SqliteDatabase(tmp_path / "folder.db")
    with pytest.raises(DatabaseUnavailableError):
        run(opened.write(announce))
    run(opened.close())


def test_server_recovers_when_postgresql_is_back(postgresql_url: str, postgres: Postgres, run: Run) -> None:
    """A stopped PostgreSQL is unavailable; once it is back, so are we, however many connections broke."""
    opened = open_database(postgresql_url)
    run(opened.write(announce))
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(DatabaseUnavailableError):
                run(opened.write(announce))
        with pytest.raises(DatabaseUnavailableError):
            run(opened.read(servers))
    finally:
        postgres.start()
    run(opened.write(lambda c: announce(c, "two")))
    assert run(opened.read(servers)) == 2
    run(opened.close())


def test_broken_connection_is_an_unavailable_database(postgresql_url: str, postgres: Postgres, run: Run) -> None:
    """A connection cut during a transaction leaves nothing behind, and the next works."""
    opened = open_database(postgresql_url)

    def cut(connection: Connection) -> None:
        announce(connection)
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    with pytest.raises(DatabaseUnavailableError):
        run(opened.write(cut))
    assert run(opened.read(servers)) == 0
    run(opened.close())
    assert postgres.port


def test_transaction_that_broke_before_its_commit_is_repeated(
    postgresql_url: str, postgres: Postgres, run: Run
) -> None:
    """What was certainly not written is written, once, when its server takes connections again."""
    opened = open_database(postgresql_url)
    cuts = iter((True, False))

    def cut_once(connection: Connection) -> None:
        announce(connection)
        if next(cuts):
            connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    run(WaitingDatabase(opened, 60).write(cut_once))
    assert run(opened.read(servers)) == 1
    run(opened.close())
    assert postgres.port


def test_restart_of_postgresql_is_waited_for(postgresql_url: str, postgres: Postgres, run: Run) -> None:
    """Work that begins while PostgreSQL is away is done once it is back; without time to wait it fails at once."""
    opened = open_database(postgresql_url)
    run(opened.write(announce))
    postgres.stop()
    with pytest.raises(DatabaseUnavailableError):
        run(WaitingDatabase(opened, 0).read(servers))

    async def restarted_meanwhile() -> tuple[int, None]:
        waiting = WaitingDatabase(opened, 60)
        reading, writing = waiting.read(servers), waiting.write(lambda c: announce(c, "two"))
        asked = asyncio.gather(reading, writing)
        await asyncio.sleep(0.1)
        assert not asked.done()
        await asyncio.to_thread(postgres.start)
        return await asked

    run(restarted_meanwhile())
    assert run(opened.read(servers)) == 2
    run(opened.close())


def test_transaction_that_may_have_been_written_is_not_repeated(run: Run) -> None:
    """A connection that broke under its COMMIT decides nothing, so the caller has to know."""
    asked: list[Work[object]] = []

    class Undecided:
        async def write(self, work: Work[T], *, durable: bool = True) -> T:
            asked.append(work)
            raise DatabaseUnavailableError(f"hung up while it committed, durable: {durable}")

        async def read(self, work: Work[T]) -> T:
            raise NotImplementedError

        async def close(self) -> None:
            pass

    with pytest.raises(DatabaseUnavailableError):
        run(WaitingDatabase(Undecided(), 60).write(announce))
    assert len(asked) == 1


@pytest.mark.req("T-07")
def test_transaction_that_fails_late_is_repeated(run: Run) -> None:
    """A server that was frozen for longer than it waits finds its transaction ended, and the database well."""
    asked: list[Work[object]] = []

    class Late:
        async def write(self, work: Work[Any], *, durable: bool = True) -> Any:
            asked.append(work)
            if len(asked) > 1:
                return durable
            await asyncio.sleep(0.4)
            error = DatabaseUnavailableError("ended as its client was silent")
            error.is_repeatable = True
            raise error

        async def read(self, work: Work[T]) -> T:
            raise NotImplementedError

        async def close(self) -> None:
            pass

    assert run(WaitingDatabase(Late(), 0.3).write(announce))
    assert len(asked) == 2


def test_transaction_of_a_frozen_client_is_ended_by_postgresql(
    postgresql_url: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows it has locked are free again, so that others can take over its work."""
    monkeypatch.setattr(postgresql, "_ABANDONED_MS", "200")
    frozen, other = open_database(postgresql_url), open_database(postgresql_url)
    run(other.write(announce))

    def lock_and_freeze(connection: Connection) -> None:
        connection.execute(text("SELECT id FROM servers FOR UPDATE"))
        await_only(asyncio.sleep(2))

    def lock(connection: Connection) -> int:
        return len(connection.execute(text("SELECT id FROM servers FOR UPDATE")).all())

    async def both() -> int:
        freezing = asyncio.ensure_future(frozen.write(lock_and_freeze))
        await asyncio.sleep(0.1)
        locked = await other.write(lock)
        with pytest.raises(DatabaseUnavailableError):
            await freezing
        return locked

    assert run(both()) == 1
    run(frozen.close())
    run(other.close())


@pytest.mark.parametrize("again", [True, False])
def test_transaction_that_was_ended_while_its_process_was_frozen_is_repeated(
    postgresql_url: str, run: Run, monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    """Whether it had more to ask when it went on, or only to commit: nothing of it was written the first time."""
    monkeypatch.setattr(postgresql, "_ABANDONED_MS", "200")
    opened = open_database(postgresql_url)
    freezes = iter((True, False))

    def freeze_once(connection: Connection) -> None:
        announce(connection)
        if next(freezes):
            time.sleep(1)  # the event loop stands still, as that of a stopped process does
        if again:
            announce(connection, "two")

    run(WaitingDatabase(opened, 60).write(freeze_once))
    assert run(opened.read(servers)) == 1 + again
    run(opened.close())


def test_transaction_that_is_ended_for_a_deadlock_is_repeated(postgresql_url: str, run: Run) -> None:
    """Two that lock the same rows, each in the other's order, are both done in the end."""
    opened = open_database(postgresql_url)
    run(opened.write(announce))
    run(opened.write(lambda c: announce(c, "two")))

    def lock(connection: Connection, *ids: str) -> None:
        for id_ in ids:
            connection.execute(text("UPDATE servers SET seen_at = seen_at + 1 WHERE id = :id"), {"id": id_})
            await_only(asyncio.sleep(0.2))

    async def both() -> None:
        waiting = WaitingDatabase(opened, 60)
        await asyncio.gather(
            waiting.write(lambda c: lock(c, "one", "two")),
            waiting.write(lambda c: lock(c, "two", "one")),
        )

    run(both())
    assert run(opened.read(lambda c: c.execute(text("SELECT sum(seen_at) FROM servers")).scalar_one())) == 6
    run(opened.close())


def test_cancelled_work_stays_cancelled(postgresql_url: str, run: Run) -> None:
    """Whatever a transaction is doing when it is cancelled, that is what its caller is told, and the next one works."""

    def work(connection: Connection) -> None:
        for _ in range(20):
            connection.execute(text("SELECT pg_sleep(0.0005)"))

    async def cancel(opened: Database) -> list[bool]:
        tasks = [asyncio.create_task((opened.read if n % 2 else opened.write)(work)) for n in range(60)]
        for task in tasks:
            await asyncio.sleep(0.001)
            task.cancel()
        await asyncio.wait(tasks)
        return [task.cancelled() or task.exception() is None for task in tasks]

    opened = open_database(postgresql_url)
    assert all(run(cancel(opened)))
    run(opened.write(announce))
    assert run(opened.read(servers)) == 1
    run(opened.close())


def test_refused_connection_is_an_unavailable_database(postgresql_url: str, postgres: Postgres, run: Run) -> None:
    """A refusal by PostgreSQL itself, before any statement, is unavailability too."""
    name = postgresql_url.rpartition("/")[2]
    opened = open_database(postgresql_url)
    postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    try:
        with pytest.raises(DatabaseUnavailableError, match="not currently accepting"):
            run(opened.write(announce))
    finally:
        postgres.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    run(opened.write(announce))
    run(opened.close())


def test_wrong_statement_is_not_called_unavailable(postgresql_url: str, run: Run) -> None:
    """A mistake of ours does not pass by itself, and is not worth a retry."""
    opened = open_database(postgresql_url)
    with pytest.raises(Exception, match="does not exist") as caught:
        run(opened.write(lambda c: c.execute(text("SELECT * FROM nowhere"))))
    assert not isinstance(caught.value, DatabaseUnavailableError)
    run(opened.close())


def test_isolation_is_ours_whatever_postgresql_has_by_default(
    postgresql_url: str, postgres: Postgres, run: Run
) -> None:
    """A write sees what others have committed meanwhile, as its locks rely on, and a read sees one moment."""
    name = postgresql_url.rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    opened = open_database(postgresql_url)

    def isolation(connection: Connection) -> str:
        return str(connection.execute(text("SHOW transaction_isolation")).scalar_one())

    found = [run(opened.write(isolation)), run(opened.write(isolation, durable=False)), run(opened.read(isolation))]
    run(opened.close())
    postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_isolation")
    assert found == ["read committed", "read committed", "repeatable read"]


def test_transaction_that_postgresql_undid_is_not_called_written(postgresql_url: str, run: Run) -> None:
    """Work that passes over a failed statement is told so: PostgreSQL answers its COMMIT without an error."""

    def passing_over(connection: Connection) -> None:
        announce(connection)
        with suppress(IntegrityError):
            announce(connection)

    opened = open_database(postgresql_url)
    with pytest.raises(UndoneError):
        run(opened.write(passing_over))
    assert run(opened.read(servers)) == 0
    run(opened.close())


def test_database_error_holds_no_values(database: Database, run: Run) -> None:
    """The text of a database error goes to logs: it holds no values."""
    run(database.write(announce))
    with pytest.raises(Exception, match=r"(?i)unique") as caught:
        run(
            database.write(
                lambda c: c.execute(text("INSERT INTO servers (id, seen_at) VALUES ('one', :at)"), {"at": 4711})
            )
        )
    assert "4711" not in str(caught.value)


async def _read_around(reader: Database, writer: Database) -> tuple[int, int]:
    """Read twice in one transaction on PostgreSQL, with a write between: work runs in a greenlet there."""

    def work(connection: Connection) -> tuple[int, int]:
        before = servers(connection)
        await_only(writer.write(announce))
        return before, servers(connection)

    return await reader.read(work)
