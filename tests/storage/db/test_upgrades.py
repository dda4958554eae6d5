"""Servers of one version work on the schema of the next: revisions only add, and what is newer is used or refused."""

import asyncio
import re
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import asyncpg  # type: ignore[import-untyped]
import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from click.testing import CliRunner
from sqlalchemy import Connection, event, inspect, text

from databases import Postgres, opened_database
from fairlead.cli import commands, main
from fairlead.storage.db import migrate as migrations
from fairlead.storage.db.migrate import (
    COMPATIBILITY_TABLE,
    COMPATIBLE_FROM,
    HEAD,
    REVISION_TABLE,
    LiveServersError,
    NewerDatabaseError,
    migrate,
    schema_state,
    stranded_servers,
)
from fairlead.storage.work.table import announce_server
from servers import ServerFailedError, serving

_FIRST: Final = "0024"
"""The revision of the oldest version that works on what came since."""
_CONTRACTED: Final[frozenset[tuple[str, str]]] = frozenset()
"""What a release takes away whose COMPATIBLE_FROM says so: a revision, and the beginning of its statement."""
_TAKES_AWAY: Final = re.compile(
    r"\bDROP (TABLE|COLUMN|INDEX|CONSTRAINT|TRIGGER|FUNCTION|VIEW)\b|\bRENAME (TO|COLUMN)\b|\bALTER COLUMN\b"
    r"|\bTRUNCATE\b|^DELETE FROM\b",
    re.IGNORECASE,
)
_COLUMN: Final = re.compile(r"\bADD COLUMN\b(?P<column>.*)", re.IGNORECASE | re.DOTALL)
_RESTRICTS: Final = re.compile(
    r"^ALTER TABLE (?P<a>\w+) ADD CONSTRAINT\b|^CREATE UNIQUE INDEX \w+ ON (?P<b>\w+)", re.IGNORECASE
)
_CREATES: Final = re.compile(r"^CREATE TABLE (\w+)", re.IGNORECASE)
_WAITING: Final = """
    SELECT count(*) FROM pg_locks JOIN pg_database ON pg_locks.database = pg_database.oid
    WHERE NOT granted AND datname = current_database()
"""
_COPY: Final = "_alembic_tmp_"
"""Alembic changes a table of SQLite, which one server alone uses, by way of a copy; PostgreSQL is asked to do the same
without one."""


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", migrations.__file__.replace("migrate.py", "migrations"))
    return ScriptDirectory.from_config(config)


_LATER: Final = [script.revision for script in reversed(list(_scripts().walk_revisions())) if script.revision > _FIRST]


def _upgrade_to(connection: Connection, revision: str) -> None:
    """Bring a database to a revision, as a version that had no other table for it than Alembic's left it."""
    config = Config()
    config.set_main_option("script_location", migrations.__file__.replace("migrate.py", "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _as_left_by_0024(connection: Connection) -> None:
    _upgrade_to(connection, _FIRST)
    connection.execute(text(f"ALTER TABLE {REVISION_TABLE} RENAME TO {COMPATIBILITY_TABLE}"))


def _execute(connection: Connection, revision: str) -> list[str]:
    """Run one revision, and return its statements."""
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        statements.append(" ".join(sql.split()))

    event.listen(connection, "before_cursor_execute", note)
    _upgrade_to(connection, revision)
    event.remove(connection, "before_cursor_execute", note)
    return [sql for sql in statements if REVISION_TABLE not in sql]


def _breaks_servers_before(statements: list[str]) -> Iterator[str]:
    """The statements after which a server of the version before could fail."""
    created = {found[1] for sql in statements if (found := _CREATES.match(sql))}
    copied = {table.removeprefix(_COPY) for table in created if table.startswith(_COPY)}
    for sql in statements:
        if _COPY in sql or any(sql == f"DROP TABLE {table}" for table in copied):
            continue
        column, restricted = _COLUMN.search(sql), _RESTRICTS.match(sql)
        is_required = column is not None and "NOT NULL" in column["column"] and "DEFAULT" not in column["column"]
        is_restricted = restricted is not None and (restricted["a"] or restricted["b"]) not in created
        if _TAKES_AWAY.search(sql) or is_required or is_restricted:
            yield sql


@pytest.mark.parametrize(
    ("statement", "breaks"),
    [
        ("DROP TABLE runs", True),
        ("ALTER TABLE runs DROP COLUMN state", True),
        ("ALTER TABLE runs RENAME COLUMN a TO b", True),
        ("ALTER TABLE runs ALTER COLUMN a SET NOT NULL", True),
        ("ALTER TABLE runs ADD COLUMN a VARCHAR(3) NOT NULL", True),
        ("ALTER TABLE runs ADD CONSTRAINT c CHECK (a > 0)", True),
        ("CREATE UNIQUE INDEX i ON runs (a)", True),
        ("ALTER TABLE runs ADD COLUMN a VARCHAR(3) DEFAULT 'x' NOT NULL", False),
        ("ALTER TABLE runs ADD COLUMN a BIGINT", False),
        ("CREATE TABLE renamed (a INTEGER NOT NULL)", False),
        ("CREATE INDEX i ON runs (a)", False),
        ("UPDATE runs SET a = 1", False),
    ],
)
def test_statement_that_breaks_servers_of_the_version_before_is_known(statement: str, *, breaks: bool) -> None:
    """What takes away, renames, or demands what they do not write is not for an upgrade without a stop."""
    assert bool(list(_breaks_servers_before([statement]))) == breaks


def test_index_of_a_table_of_the_same_revision_restricts_nobody() -> None:
    """No server of the version before writes to it."""
    assert not list(_breaks_servers_before(["CREATE TABLE t (a INTEGER)", "CREATE UNIQUE INDEX i ON t (a)"]))


@pytest.mark.req("M-03")
def test_revisions_since_0024_only_add(empty_database_url: str) -> None:
    """On both databases no statement of theirs breaks a server of the version before, but where a release says so."""

    async def read_state() -> dict[str, list[str]]:
        async with opened_database(empty_database_url) as database:
            await database.write(partial(_upgrade_to, revision=_FIRST))
            executed = {revision: await database.write(partial(_execute, revision=revision)) for revision in _LATER}
            return {revision: list(_breaks_servers_before(statements)) for revision, statements in executed.items()}

    breaking = {(revision, sql) for revision, statements in asyncio.run(read_state()).items() for sql in statements}
    assert {one for one in breaking if not any(one[0] == a and one[1].startswith(b) for a, b in _CONTRACTED)} == set()


def test_versions_since_0024_work_until_one_says_otherwise() -> None:
    """The oldest revision that HEAD works for moves only to what was taken away."""
    assert max([_FIRST, *(revision for revision, _ in _CONTRACTED)]) == COMPATIBLE_FROM


def test_database_of_0024_is_brought_to_head_and_stays_usable_for_it(empty_database_url: str) -> None:
    """A server of 0024 finds its own revision where it looks for it, and this version the one it has made."""

    async def go() -> tuple[str | None, str, Any]:
        async with opened_database(empty_database_url) as database:
            await database.write(_as_left_by_0024)
            before = await migrate(database)
            seen = await database.read(
                lambda c: c.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
            )
            return before, str(seen), await database.read(schema_state)

    before, seen, state = asyncio.run(go())
    assert (before, seen) == (_FIRST, COMPATIBLE_FROM)
    assert (state.revision, state.is_usable) == (HEAD, True)


@pytest.mark.req("M-03")
@pytest.mark.parametrize(("held", "wanted"), [("jobs", "runs"), ("runs", "jobs")])
def test_upgrade_gives_way_to_a_server_that_holds_one_table_and_needs_another(
    postgres: Postgres, held: str, wanted: str
) -> None:
    """Neither is ended as the victim of a deadlock: the server's transaction is committed, then the upgrade is made."""

    async def go(url: str) -> str | None:
        async with opened_database(url) as database:
            await database.write(_as_left_by_0024)
            server = await asyncpg.connect(url)
            try:
                async with server.transaction():
                    await server.execute(f"LOCK TABLE {held} IN ROW EXCLUSIVE MODE")
                    upgrading = asyncio.create_task(migrate(database))
                    while not await server.fetchval(_WAITING):  # noqa: ASYNC110 -- PostgreSQL tells nobody of it
                        await asyncio.sleep(0.005)
                    await server.execute(f"LOCK TABLE {wanted} IN ROW EXCLUSIVE MODE")
            finally:
                await server.close()
            return await upgrading

    name = postgres.create_bare()
    assert asyncio.run(go(postgres.url(name))) == _FIRST
    postgres.drop(name)


def _at(url: str, table: str, revision: str) -> None:
    statement = text(f"UPDATE {table} SET version_num = '{revision}'")  # noqa: S608 -- names of ours

    async def write() -> None:
        async with opened_database(url) as database:
            await database.write(lambda c: c.execute(statement).close())

    asyncio.run(write())


def test_database_that_a_later_version_has_added_to_is_used_as_it_is(database_url: str, tmp_path: Path) -> None:
    """After a rollback commands and servers work, and change nothing of the schema."""
    _at(database_url, REVISION_TABLE, "9999")
    options = ["--data", str(tmp_path / "data"), "--database", database_url]
    done = CliRunner().invoke(commands, ["migrate", *options])
    assert "A later version has brought the database to 9999" in done.output
    assert CliRunner().invoke(commands, ["workspaces", "list", *options]).exit_code == 0
    with serving(tmp_path / "data", database=database_url, arguments=("--no-local-partner",)) as server:
        assert server.client.get("/readyz").status_code == 200
        assert server.client.get("/v2/models").status_code == 200


def test_database_that_a_later_version_has_taken_from_is_refused(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command says so in one line, with what to do, and so does a server; nothing is written."""
    _at(database_url, REVISION_TABLE, "9999")
    _at(database_url, COMPATIBILITY_TABLE, "9990")
    expected = "a later version of Fairlead has brought the database to 9999, which versions before 9990 cannot use"
    for words in (["migrate"], ["workspaces", "list"], ["audit"]):
        monkeypatch.setattr(
            "sys.argv", ["fairlead", *words, "--data", str(tmp_path / "data"), "--database", database_url]
        )
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
        assert (said := capsys.readouterr().err).count("\n") == 1
        assert expected in said
    with pytest.raises(ServerFailedError) as failed, serving(tmp_path / "data", database=database_url):
        pass
    assert expected in str(failed.value)
    assert "Traceback" not in str(failed.value)

    async def state() -> tuple[Any, list[str]]:
        async with opened_database(database_url) as database:
            with pytest.raises(NewerDatabaseError):
                await migrate(database)
            return await database.read(schema_state), await database.read(lambda c: inspect(c).get_table_names())

    seen, tables = asyncio.run(state())
    assert (seen.revision, seen.compatible_from) == ("9999", "9990")
    assert "runs" in tables


def _with_servers(connection: Connection, revision: str, *seconds_ago: float) -> None:
    """Make the tables of a revision before there were two tables for it, with servers that were seen so long ago."""
    _upgrade_to(connection, revision)
    if revision <= _FIRST:
        connection.execute(text(f"ALTER TABLE {REVISION_TABLE} RENAME TO {COMPATIBILITY_TABLE}"))
    now = time.time_ns() // 1_000_000
    for number, seconds in enumerate(seconds_ago):
        values = {"id": f"server-{number}", "at": now - int(seconds * 1000)}
        connection.execute(text("INSERT INTO servers (id, seen_at) VALUES (:id, :at)"), values)


async def _upgraded(url: str, silent_ms: int | None, revision: str, *seconds_ago: float) -> str | None:
    async with opened_database(url) as database:
        await database.write(lambda c: _with_servers(c, revision, *seconds_ago))
        try:
            await migrate(database, silent_ms)
        finally:
            state = await database.read(schema_state)
        return state.revision


@pytest.mark.req("T-08")
def test_database_is_not_upgraded_under_servers_that_could_not_go_on(empty_database_url: str) -> None:
    """A server of 0023 works with no later revision: the upgrade says so, and changes nothing."""
    with pytest.raises(LiveServersError, match=f"1 of the servers .* before {COMPATIBLE_FROM}.*Nothing was changed"):
        asyncio.run(_upgraded(empty_database_url, 500, "0023", -60, 900))

    async def revision() -> Any:
        async with opened_database(empty_database_url) as database:
            return (await database.read(schema_state)).revision

    assert asyncio.run(revision()) == "0023"


@pytest.mark.req("T-08")
@pytest.mark.parametrize(
    ("silent_ms", "revision", "seconds_ago"),
    [
        pytest.param(500, "0023", 0, id="a server that has just been stopped"),
        pytest.param(60_000, "0023", 61, id="one that fell silent"),
        pytest.param(None, "0023", 0, id="nobody asks"),
        pytest.param(60_000, "0024", 0, id="one that goes on"),
        pytest.param(60_000, "0033", 0, id="one that does not say so"),
    ],
)
def test_database_is_upgraded_where_every_server_goes_on(
    empty_database_url: str, silent_ms: int | None, revision: str, seconds_ago: float
) -> None:
    """What is silent is waited for, and what has only been added to breaks nobody."""
    assert asyncio.run(_upgraded(empty_database_url, silent_ms, revision, seconds_ago)) == HEAD


@pytest.mark.req("T-08")
def test_server_says_for_which_tables_it_was_made(database_url: str) -> None:
    """On a database that may be of an old version, one that says so is known to go on, and another is not."""

    async def stranded() -> tuple[int, int]:
        async with opened_database(database_url) as database:
            now = time.time_ns() // 1_000_000
            await database.write(partial(announce_server, server_id="server-1", now=now, forget_before=0))
            of_this = await database.read(partial(stranded_servers, silent_ms=60_000))
            await database.write(lambda c: c.execute(text("UPDATE servers SET revision = NULL")).close())
            return of_this, await database.read(partial(stranded_servers, silent_ms=60_000))

    for table in (REVISION_TABLE, COMPATIBILITY_TABLE):
        _at(database_url, table, "0023")
    assert asyncio.run(stranded()) == (0, 1)


@pytest.mark.req("T-08")
def test_command_says_what_force_does(
    postgres: Postgres, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it one line says what to do; with it how many servers fail from then on."""
    name = postgres.create_bare()

    async def fill() -> None:
        async with opened_database(postgres.url(name)) as database:
            await database.write(lambda c: _with_servers(c, "0023", -60))

    asyncio.run(fill())
    monkeypatch.setenv("FAIRLEAD_SILENT_SERVER_SECONDS", "2")
    words = ["fairlead", "migrate", "--data", str(tmp_path / "data"), "--database", postgres.url(name)]
    monkeypatch.setattr("sys.argv", words)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert (said.count("\n"), "fairlead migrate --force" in said) == (1, True)
    done = CliRunner().invoke(commands, [*words[1:], "--force"])
    assert "Servers that fail every call until they are replaced: 1." in done.output
    postgres.drop(name)
