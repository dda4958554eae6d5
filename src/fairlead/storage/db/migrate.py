"""Bringing a database to the schema this version needs.

Alembic is imported only when there is something to do: it costs a third of the start-up time of a server.
"""

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from sqlalchemy import Connection, func, inspect, select, text

from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.db.schema import make_document_triggers, make_triggers, metadata
from fairlead.storage.db.statements import DATABASE_TIME, is_sqlite

HEAD: Final = "0043"
"""The revision of the tables in `tables.py` and `schema.py`; a test fails when the folder of revisions disagrees."""
COMPATIBLE_FROM: Final = "0024"
"""The oldest revision whose servers work with the tables of HEAD: what came since has only added to them.

It changes when a release removes something, which is allowed when no server of earlier releases is left.
"""
COPYING: Final = "copying"
"""Stands for that revision in a database that `fairlead migrate-data` has filled in part (`copies.py`): no version."""
_LOCK: Final = 0x666C6B  # "flk": names the lock among those of other programs on the same server
_LOCK_MS: Final = (*[200] * 20, 1_500, 3_000, 5_000)
"""How long each attempt to migrate PostgreSQL waits for a table, while running servers wait behind it.

PostgreSQL looks for a deadlock when a transaction has waited for a second, and then ends that one. The first attempts
have given up by then, so it is never a server's transaction that is ended. The last ones wait longer, because a vacuum
gives a table up only after that second.
"""
_PAUSE_SECONDS: Final = 0.3
"""The pause between two attempts, in which waiting servers go on."""
_LOOK_SECONDS: Final = 0.5
"""The pause between two looks at servers that were stopped, or should be."""

REVISION_TABLE: Final = "schema_revision"
"""The table with the revision of a database; Alembic writes it."""
COMPATIBILITY_TABLE: Final = "alembic_version"
"""Says from which revision on servers work with a database. It was Alembic's: versions up to 0024 find there the only
revision that they work with."""


class NewerDatabaseError(Exception):
    """A later version has taken away from the database what this version needs; the text says what to do."""


class LiveServersError(Exception):
    """Servers are running that could not use the tables of HEAD (T-08); the text says how many and what to do."""

    def __init__(self, servers: int) -> None:
        super().__init__(
            f"{servers} of the servers that use the database are of versions before {COMPATIBLE_FROM}, which cannot"
            f" work with it at {HEAD}: stop them and try again. `fairlead migrate --force` does not wait for that, and"
            " then all their calls fail until they are replaced. Nothing was changed"
        )


class SchemaState(msgspec.Struct, frozen=True):
    """Which revision a database is at, and the oldest whose servers work with it; None for an empty database."""

    revision: str | None
    compatible_from: str | None

    @property
    def is_usable(self) -> bool:
        """Whether this version works with the database as it is: it is at HEAD, or a later revision has only added."""
        return self.revision is not None and self.revision >= HEAD and not self.is_too_new

    @property
    def is_too_new(self) -> bool:
        """Whether a later version has taken away what this one needs."""
        return self.compatible_from is not None and self.compatible_from > HEAD

    def refusal(self) -> str:
        """The message for an operator about a database that cannot be used."""
        if self.compatible_from == COPYING:
            return "the database has a part of another's data; the same `fairlead migrate-data` does the rest"
        if self.is_too_new:
            return (
                f"a later version of Fairlead has brought the database to {self.revision}, which versions before"
                f" {self.compatible_from} cannot use; this one is at {HEAD}: start that later version again, or restore"
                " the backup from before the upgrade"
            )
        return f"the database is at {self.revision or 'nothing'}, not {HEAD}; run `fairlead migrate`"


def schema_state(connection: Connection) -> SchemaState:
    """Read which revision a database is at."""
    tables = inspect(connection)
    compatible_from, revision = (
        connection.execute(text(f"SELECT version_num FROM {table}")).scalar() if tables.has_table(table) else None  # noqa: S608 -- names of ours
        for table in (COMPATIBILITY_TABLE, REVISION_TABLE)
    )
    return SchemaState(revision or compatible_from, compatible_from or revision)  # up to 0024 there was one table


def upgrade(connection: Connection, lock_ms: int = _LOCK_MS[0], silent_ms: int | None = None) -> str | None:
    """Bring a database to HEAD and return the revision it was at. Doing it again changes nothing.

    One that a later version has only added to stays as it is; NewerDatabaseError for any other that is newer.
    LiveServersError for servers that were seen within `silent_ms` and could not go on; None asks for none.
    """
    state = schema_state(connection)
    if not state.is_usable and connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))  # of two servers that start the second waits
        state = schema_state(connection)
    if state.is_too_new:
        raise NewerDatabaseError(state.refusal())
    if state.revision is None:
        _make(connection)
    elif not state.is_usable:
        if silent_ms is not None and (servers := stranded_servers(connection, silent_ms)):
            raise LiveServersError(servers)
        run_revisions(connection, lock_ms)
    return state.revision


def stranded_servers(connection: Connection, silent_ms: int) -> int:
    """How many servers that were seen within so many milliseconds could not work with the tables of HEAD.

    A server works with the tables that its version was made for, and with all that have only been added to since. One
    that does not say for which it was made works at least with the database as it is.
    """
    state, tables = schema_state(connection), inspect(connection)
    if state.compatible_from is None or state.is_usable or not tables.has_table("servers"):
        return 0
    has_revision = any(column["name"] == "revision" for column in tables.get_columns("servers"))
    revision = "coalesce(revision, :oldest)" if has_revision else ":oldest"
    now = (
        time.time_ns() // 1_000_000 if is_sqlite(connection) else connection.execute(select(DATABASE_TIME)).scalar_one()
    )
    stranded = text(f"SELECT count(*) FROM servers WHERE seen_at > :since AND {revision} < :needed")  # noqa: S608 -- names of ours
    values = {"since": now - silent_ms, "oldest": state.compatible_from, "needed": COMPATIBLE_FROM}
    return int(connection.execute(stranded, values).scalar_one())


def _make(connection: Connection) -> None:
    """Make the tables of an empty database at once; a test proves that the revisions lead to the very same."""
    metadata.create_all(connection)
    make_triggers(connection)
    make_document_triggers(connection)
    _write_version(connection, REVISION_TABLE, HEAD)
    _write_version(connection, COMPATIBILITY_TABLE, COMPATIBLE_FROM)


async def migrate(database: Database, silent_ms: int | None = None) -> str | None:
    """Bring a database to HEAD in one transaction, and return the revision it was at; NewerDatabaseError.

    Servers may be using it. DatabaseUnavailableError where they, or others, hold its tables all the time;
    LiveServersError where some of them could not go on, unless `silent_ms` is None. One that was stopped a moment ago
    looks alive for that long, and is waited for.
    """
    if silent_ms is None:
        return await _migrate(database, None)
    until = time.monotonic() + silent_ms / 1000
    while True:
        try:
            return await _migrate(database, silent_ms)
        except LiveServersError:
            if time.monotonic() > until:
                raise
        await asyncio.sleep(_LOOK_SECONDS)


async def _migrate(database: Database, silent_ms: int | None) -> str | None:
    for lock_ms in _LOCK_MS[:-1]:
        try:
            return await database.write(partial(upgrade, lock_ms=lock_ms, silent_ms=silent_ms))
        except DatabaseUnavailableError as error:
            if not error.is_repeatable:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)
    return await database.write(partial(upgrade, lock_ms=_LOCK_MS[-1], silent_ms=silent_ms))


def run_revisions(connection: Connection, lock_ms: int = _LOCK_MS[0]) -> None:
    """Bring a database of an earlier version to HEAD by Alembic's revisions."""
    from alembic import command  # noqa: PLC0415 -- see the module's first lines
    from alembic.config import Config  # noqa: PLC0415 -- same

    before = schema_state(connection).revision
    if before is not None:
        if connection.dialect.name == "postgresql":
            _lock_tables(connection, lock_ms)
        _write_version(connection, REVISION_TABLE, before)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    _write_version(connection, COMPATIBILITY_TABLE, COMPATIBLE_FROM)


def _lock_tables(connection: Connection, lock_ms: int) -> None:
    """Lock every table before anything is changed.

    A revision that locked one after the other could deadlock with servers that hold one and wait for another.
    """
    there = set(inspect(connection).get_table_names())
    names = ", ".join(table.name for table in metadata.sorted_tables if table.name in there)
    connection.execute(text(f"SET LOCAL lock_timeout = {lock_ms}"))
    connection.execute(text(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE"))


def _write_version(connection: Connection, table: str, revision: str) -> None:
    """Write the one row of a table with a revision, and make the table if it does not exist."""
    connection.execute(text(f"CREATE TABLE IF NOT EXISTS {table} (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text(f"DELETE FROM {table}"))  # noqa: S608 -- names of ours
    connection.execute(text(f"INSERT INTO {table} VALUES (:revision)"), {"revision": revision})  # noqa: S608 -- same
