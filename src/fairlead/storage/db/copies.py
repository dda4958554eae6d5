"""How far a copy of a database into this one is: kept in the target, and removed when the copy is proven.

It is in a table of its own, which is part of no schema. Until then the database is marked as usable by no version, so
that no server and no other command accepts it.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table, Text, insert, select, text, update

from fairlead.storage.db.migrate import COMPATIBILITY_TABLE, COMPATIBLE_FROM, COPYING, HEAD, schema_state, upgrade
from fairlead.storage.db.table_copy import Key, Row, TableCopier, filled_table
from fairlead.storage.db.tables import workspaces

_progress: Final = Table(
    "data_copy",
    MetaData(),
    Column("name", String(64), primary_key=True, comment="of a table; empty for the copy itself"),
    Column("last", Text, nullable=False, comment="JSON array: the key of its last row; for the copy, of what it is"),
    Column("rows", BigInteger, nullable=False),
)
_ITSELF: Final = ""


class CopyState(msgspec.Struct, frozen=True):
    """The progress of a table: the key after which it goes on, None before its first row, and how many rows it has."""

    after: Key | None = None
    rows: int = 0


class TargetTakenError(Exception):
    """A target has rows, or the unfinished copy of another source; the text says which."""


def identity_of(connection: Connection) -> str:
    """The identity of a source: its workspaces, by their ids and times."""
    rows = connection.execute(select(workspaces.c.id, workspaces.c.created_at).order_by(workspaces.c.id))
    return hashlib.sha256(msgspec.json.encode([tuple(row) for row in rows])).hexdigest()


def prepare_target(connection: Connection, identity: str) -> bool:
    """Make the tables of a target and mark it as being filled; returns whether it has a part of this copy already.

    TargetTakenError.
    """
    state = schema_state(connection)
    if state.compatible_from == COPYING:
        known = connection.execute(select(_progress.c.last).where(_progress.c.name == _ITSELF)).scalar_one()
        if known != identity:
            raise TargetTakenError("it has an unfinished copy of another source")
        return True
    if state.revision not in (None, HEAD):
        raise TargetTakenError(f"it is at revision {state.revision}, and would have to be empty")
    upgrade(connection)
    if (name := filled_table(connection)) is not None:
        raise TargetTakenError(f"it is not empty: the table {name} has rows")
    _progress.create(connection)
    connection.execute(insert(_progress).values(name=_ITSELF, last=identity, rows=0))
    _accept(connection, COPYING)
    return False


def state_of(connection: Connection, name: str) -> CopyState:
    """How far a table is."""
    row = connection.execute(select(_progress.c.last, _progress.c.rows).where(_progress.c.name == name)).first()
    return CopyState() if row is None else CopyState(msgspec.json.decode(row.last), row.rows)


def write_page(connection: Connection, copier: TableCopier, rows: Sequence[Row], state: CopyState) -> CopyState:
    """Write a page of rows behind `state`, and how far the table then is."""
    copier.write_rows(connection, rows)
    after = CopyState(list(copier.key_of(rows[-1])), state.rows + len(rows))
    values: dict[str, object] = {"last": msgspec.json.encode(after.after).decode(), "rows": after.rows}
    mine = _progress.c.name == copier.name
    if connection.execute(update(_progress).where(mine).values(**values)).rowcount == 0:
        connection.execute(insert(_progress).values(name=copier.name, **values))
    return after


def finish(connection: Connection) -> None:
    """End a copy that is complete and proven: remove its progress, so that servers may start."""
    _progress.drop(connection)
    _accept(connection, COMPATIBLE_FROM)


def _accept(connection: Connection, revision: str) -> None:
    """Say from which revision on servers work with a database."""
    connection.execute(text(f"UPDATE {COMPATIBILITY_TABLE} SET version_num = :revision"), {"revision": revision})  # noqa: S608 -- a name of ours
