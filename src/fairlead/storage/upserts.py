"""INSERTs that say what becomes of a row that is there already: Core has none, and each dialect one of its own."""

from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import sqlite


def insert_into(connection: Connection, table: Table) -> Any:
    """An INSERT with ON CONFLICT in the words of a connection's dialect; both spell its methods alike."""
    return insert_in(connection.dialect.name, table)


def insert_in(dialect: str, table: Table) -> Any:
    """The same by a dialect's name, for statements that are prepared once."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 -- 2 MB that SQLite has no use for

    return postgresql.insert(table)
