"""Figures of a database that every user of it may read: its size, and how much of its log is not yet written back."""

from pathlib import Path
from typing import Final

import msgspec
from sqlalchemy import Connection, text

from fairlead.storage.db.statements import is_sqlite


class DatabaseFigures(msgspec.Struct, frozen=True):
    """The figures of a database; None where there is no such figure, or we may not read it.

    `size` and `wal` in bytes. `wal` is the part of the write-ahead log that a restart after a crash has to go through:
    the log file of SQLite, and in PostgreSQL what was written since the last checkpoint began. `connections` are those
    of all programs to the whole database server, which takes `connections_most`.
    """

    size: int
    wal: int | None = None
    connections: int | None = None
    connections_most: int | None = None


_MAY_READ_WAL: Final = text("SELECT has_function_privilege('pg_control_checkpoint()', 'EXECUTE')")
_WAL: Final = text(
    "SELECT CASE WHEN pg_is_in_recovery() THEN NULL"
    " ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), redo_lsn)::bigint END FROM pg_control_checkpoint()"
)
_OF_SERVER: Final = text(
    "SELECT pg_database_size(current_database()), (SELECT sum(numbackends)::bigint FROM pg_stat_database),"
    " current_setting('max_connections')::bigint"
)


def read_figures(connection: Connection) -> DatabaseFigures:
    """Read the figures, by no right but those of a database's owner; OSError where a file of SQLite is not there."""
    if is_sqlite(connection):
        file = Path(connection.engine.url.database or "")
        log = file.with_name(f"{file.name}-wal")
        return DatabaseFigures(file.stat().st_size, log.stat().st_size if log.exists() else 0)
    wal = connection.execute(_WAL).scalar() if connection.execute(_MAY_READ_WAL).scalar() else None
    size, connections, most = connection.execute(_OF_SERVER).one()
    return DatabaseFigures(size, wal, connections, most)
