"""Copying tables: their rows in pages, to lines of JSON and back, and into another database of either kind.

A copier reads pages in the order of primary keys, each after the last key of the page before, over one snapshot
(`snapshots.open_snapshot`) or while nothing is written. It may write a page again: an existing row gets the values of
its copy. So a copy that was interrupted goes on after the last key that is known to be written, and counts by triggers
of the target are replaced by those of the source.

Two copies are the same when their totals are: the totals depend on rows alone, on neither their order nor a dialect.
"""

import base64
from collections.abc import Iterable, Sequence
from typing import Any, Final, Self, TypeAlias

import msgspec
from blake3 import blake3
from sqlalchemy import Column, Connection, LargeBinary, MetaData, Table, func, select, text, tuple_

from fairlead.storage.db.schema import metadata
from fairlead.storage.db.statements import insert_into, is_sqlite

Row: TypeAlias = Sequence[object]
"""The values of a row in the order of its table's columns: texts, integers, booleans, bytes and None."""
Key: TypeAlias = Sequence[object]
"""The values of a row's primary key."""

PAGE: Final = 200
"""Rows of a page: each may have some 100 kB of content, and a page is held in memory."""
_COUNTED_BY_TRIGGERS: Final = ("storage_usage",)
"""Triggers of other tables write these, so that they are copied last."""
_DIGEST_BYTES: Final = 32


class TableTotals(msgspec.Struct, frozen=True):
    """How many rows a table has, and the sum of their BLAKE3 modulo 2^256, in hexadecimal.

    The sum shows rows that are lost, duplicated or changed. It does not protect against forged rows.
    """

    rows: int
    digest: str


class TotalsCounter:
    """Counts rows, each as `TableCopier.encode` writes it, to the totals of a table."""

    def __init__(self) -> None:
        self._rows = self._sum = 0

    def add(self, lines: Iterable[bytes]) -> None:
        """Count some rows more."""
        for line in lines:
            self._rows += 1
            self._sum += int.from_bytes(blake3(line).digest(), "big")

    @property
    def totals(self) -> TableTotals:
        """The totals of the rows so far."""
        return TableTotals(self._rows, (self._sum % (1 << 8 * _DIGEST_BYTES)).to_bytes(_DIGEST_BYTES, "big").hex())


class TableCopier:
    """Reads and writes the rows of one table."""

    def __init__(self, table: Table, names: Sequence[str] | None = None) -> None:
        """Copy the columns of some names, in their order; ValueError where the table has no such column, or no key."""
        unknown = [name for name in names or () if name not in table.columns]
        if unknown or not table.primary_key:
            raise ValueError(f"the table {table.name} has no {', '.join(unknown) or 'primary key'}")
        self.table: Final = table
        self._columns: list[Column[object]] = [table.columns[name] for name in names or table.columns.keys()]
        self._key: list[Column[object]] = list(table.primary_key.columns)
        self._key_at = [self._columns.index(column) for column in self._key]
        self._binary = [at for at, column in enumerate(self._columns) if isinstance(column.type, LargeBinary)]

    @classmethod
    def of_all(cls, tables: MetaData = metadata) -> list[Self]:
        """A copier of each table, in an order in which their rows can be written."""
        last = [tables.tables[name] for name in _COUNTED_BY_TRIGGERS if name in tables.tables]
        return [cls(table) for table in (*(one for one in tables.sorted_tables if one not in last), *last)]

    @property
    def name(self) -> str:
        """The name of the table."""
        return str(self.table.name)

    @property
    def column_names(self) -> list[str]:
        """The names of a row's values."""
        return [str(column.name) for column in self._columns]

    def key_of(self, row: Row) -> Key:
        """The primary key of a row, after which the next page begins."""
        return [row[at] for at in self._key_at]

    def read_page(self, connection: Connection, after: Key | None = None, limit: int = PAGE) -> Sequence[Row]:
        """Up to `limit` rows whose keys come after one, by their keys; None is before the first."""
        rows = select(*self._columns).order_by(*self._key).limit(limit)
        if after is not None:
            rows = rows.where(tuple_(*self._key) > tuple_(*after, types=[column.type for column in self._key]))
        return connection.execute(rows).fetchall()

    def write_rows(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Write some rows; one whose key exists already gets these values."""
        if not rows:
            return
        names, key = self.column_names, [column.name for column in self._key]
        insert = insert_into(connection, self.table)
        if others := {name: insert.excluded[name] for name in names if name not in key}:
            insert = insert.on_conflict_do_update(index_elements=key, set_=others)
        else:
            insert = insert.on_conflict_do_nothing(index_elements=key)
        connection.execute(insert, [dict(zip(names, row, strict=True)) for row in rows])

    def encode(self, row: Row) -> bytes:
        """A row as one line of JSON: an array, with bytes in base64. Equal rows have equal lines."""
        return msgspec.json.encode(list(row)) + b"\n"

    def decode(self, line: bytes) -> Row:
        """The row of a line; ValueError where it has none of this table."""
        row = msgspec.json.decode(line, type=list[Any])
        if len(row) != len(self._columns):
            raise ValueError(f"a row of {self.name} has {len(self._columns)} values, not {len(row)}")
        for at in self._binary:
            if row[at] is not None:
                row[at] = base64.b64decode(row[at], validate=True)
        return row


def filled_table(connection: Connection, tables: MetaData = metadata) -> str | None:
    """The name of a table that has a row; None where all are empty."""
    for table in tables.sorted_tables:
        if connection.execute(select(text("1")).select_from(table).limit(1)).first() is not None:
            return table.name
    return None


def number_on(connection: Connection, tables: MetaData = metadata) -> None:
    """Have the database number new rows after the highest that was copied.

    SQLite does so without being told.
    """
    if is_sqlite(connection):
        return
    for table in tables.sorted_tables:
        column = table.autoincrement_column
        if column is not None:
            sequence = func.pg_get_serial_sequence(table.name, column.name)
            highest = select(func.max(column)).scalar_subquery()
            connection.execute(select(func.setval(sequence, highest)).where(sequence.is_not(None)))
