"""Bringing a database to the schema this version needs.

Alembic is imported only when there is something to do: it costs a third of the start-up time of a server.
"""

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, func, inspect, select, text

from fairlead.storage.db.database import Database
from fairlead.storage.db.schema import make_document_triggers, make_triggers, metadata

HEAD: Final = "0024"
"""The revision of the tables in `tables.py` and `schema.py`; a test fails when the folder of revisions disagrees."""
_LOCK: Final = 0x666C6B  # "flk": names the lock among those of other programs on the same server


def revision_of(connection: Connection) -> str | None:
    """Which revision a database is at; None when it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def upgrade(connection: Connection) -> str | None:
    """Bring a database to HEAD and return the revision it was at. Doing it again changes nothing."""
    before = revision_of(connection)
    if before != HEAD:
        if connection.dialect.name == "postgresql":  # of two servers that start at once the second waits
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            before = revision_of(connection)
        if before is None:
            _make(connection)
        elif before != HEAD:
            run_revisions(connection)
    return before


def _make(connection: Connection) -> None:
    """Make the tables of an empty database at once; a test proves that the revisions lead to the very same."""
    metadata.create_all(connection)
    make_triggers(connection)
    make_document_triggers(connection)
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


async def migrate(database: Database) -> str | None:
    """Bring a database to HEAD in one transaction, and return the revision it was at."""
    return await database.write(upgrade)


def run_revisions(connection: Connection) -> None:
    """Bring a database of an earlier version to HEAD by Alembic's revisions."""
    from alembic import command  # noqa: PLC0415 -- see the module's first lines
    from alembic.config import Config  # noqa: PLC0415 -- same

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
