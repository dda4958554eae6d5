"""Bringing a database to the schema this version needs.

Alembic is imported only when there is something to do: it costs a third of the start-up time of a server.
"""

import asyncio
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from sqlalchemy import Connection, func, inspect, select, text

from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.db.schema import make_document_triggers, make_triggers, metadata

HEAD: Final = "0028"
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

REVISION_TABLE: Final = "schema_revision"
"""The table with the revision of a database; Alembic writes it."""
COMPATIBILITY_TABLE: Final = "alembic_version"
"""Says from which revision on servers work with a database. It was Alembic's: versions up to 0024 find there the only
revision that they work with."""


class NewerDatabaseError(Exception):
    """A later version has taken away from the database what this version needs; the text says what to do."""


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


def upgrade(connection: Connection, lock_ms: int = _LOCK_MS[0]) -> str | None:
    """Bring a database to HEAD and return the revision it was at. Doing it again changes nothing.

    One that a later version has only added to stays as it is; NewerDatabaseError for any other that is newer.
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
        run_revisions(connection, lock_ms)
    return state.revision


def _make(connection: Connection) -> None:
    """Make the tables of an empty database at once; a test proves that the revisions lead to the very same."""
    metadata.create_all(connection)
    make_triggers(connection)
    make_document_triggers(connection)
    _write_version(connection, REVISION_TABLE, HEAD)
    _write_version(connection, COMPATIBILITY_TABLE, COMPATIBLE_FROM)


async def migrate(database: Database) -> str | None:
    """Bring a database to HEAD in one transaction, and return the revision it was at; NewerDatabaseError.

    Servers may be using it. DatabaseUnavailableError where they, or others, hold its tables all the time.
    """
    for lock_ms in _LOCK_MS[:-1]:
        try:
            return await database.write(partial(upgrade, lock_ms=lock_ms))
        except DatabaseUnavailableError as error:
            if not error.is_repeatable:
                raise
        await asyncio.sleep(_PAUSE_SECONDS)
    return await database.write(partial(upgrade, lock_ms=_LOCK_MS[-1]))


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
