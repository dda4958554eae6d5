"""SQL beyond Core: statements compiled once and handed to the driver as they are, and INSERTs with ON CONFLICT.

SQLAlchemy makes a context, a parameter dictionary and a result object for every statement, which costs several times
what SQLite needs to run it. The few statements of the journal, which every run passes through, are therefore compiled
once per dialect. They are still written in Core, once for both databases; only their execution is short.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import ARRAY, ColumnElement, Connection, Select, String, Table, any_, bindparam, func, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.sql.elements import CompilerElement
from sqlalchemy.sql.expression import UpdateBase

# What has no adapter of its own is asked for one by two attributes it does not have, at the price of two exceptions;
# of a run's values these are fourteen. What adapts is written in C: a function of ours costs more than storing a value.
sqlite3.register_adapter(bool, int)
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), {}.get)  # type: ignore[arg-type]  # finds nothing: None

OneOf: TypeAlias = Callable[[ColumnElement[str]], ColumnElement[bool]]
"""Makes the condition that a column is one of the ids looked up, in the words of a dialect."""


class Prepared:
    """An INSERT or UPDATE whose rows are tuples in the order of `names`.

    The values must be what the driver takes: plain `str`, `int`, `bytes`, `bool` or None.
    """

    def __init__(self, statement: UpdateBase, names: Sequence[str]) -> None:
        self._statement = statement
        self._names = list(names)
        self._sql: dict[str, str] = {}

    def run(self, connection: Connection, rows: Sequence[tuple[object, ...]]) -> None:
        """Execute the statement once a row; does nothing without rows."""
        if not rows:
            return
        dialect = connection.dialect.name
        sql = self._sql.get(dialect) or self._compile(connection)
        if dialect != "sqlite":
            connection.exec_driver_sql(sql, list(rows))
            return
        try:
            sqlite_driver(connection).executemany(sql, rows)
        except sqlite3.IntegrityError as error:  # by the name it has on the other database too
            raise IntegrityError(sql, None, error, hide_parameters=True) from error

    def _compile(self, connection: Connection) -> str:
        sql = self._sql[connection.dialect.name] = _compiled(connection, self._statement, self._names)
        return sql


class PreparedInsert:
    """An INSERT like `Prepared` that leaves rows alone whose keys are there already: they were written before."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self._table = table
        self._names = names
        self._prepared: dict[str, Prepared] = {}

    def run(self, connection: Connection, rows: Sequence[tuple[object, ...]]) -> None:
        """Execute the statement once a row; does nothing without rows."""
        dialect = connection.dialect.name
        if dialect not in self._prepared:
            statement = insert_in(dialect, self._table).on_conflict_do_nothing()
            self._prepared[dialect] = Prepared(statement, self._names)
        self._prepared[dialect].run(connection, rows)


class PreparedLookup:
    """A SELECT of the rows whose ids are among some; `statement` is given the condition to put in its WHERE."""

    def __init__(self, statement: Callable[[OneOf], Select[*tuple[object, ...]]]) -> None:
        self._statement = statement
        self._sql: dict[str, str] = {}

    def run(self, connection: Connection, ids: Sequence[str]) -> Sequence[Any]:
        """The rows found, as tuples; none without ids."""
        if not ids:
            return ()
        dialect = connection.dialect.name
        sql = self._sql.get(dialect) or self._compile(connection)
        if dialect == "sqlite":
            return sqlite_driver(connection).execute(sql, (msgspec.json.encode(ids).decode(),)).fetchall()
        return connection.exec_driver_sql(sql, (list(ids),)).fetchall()

    def _compile(self, connection: Connection) -> str:
        one_of = _one_of_json if is_sqlite(connection) else _one_of_array
        sql = self._sql[connection.dialect.name] = _compiled(connection, self._statement(one_of), ["ids"])
        return sql


class PreparedQuery:
    """A SELECT whose parameters are a tuple in the order of `names`, each of which it takes once."""

    def __init__(self, statement: CompilerElement, names: Sequence[str]) -> None:
        self._statement = statement
        self._names = list(names)
        self._sql: dict[str, str] = {}

    def sql(self, connection: Connection) -> str:
        """The statement in the words of a dialect."""
        found = self._sql.get(connection.dialect.name)
        if found is None:
            found = self._sql[connection.dialect.name] = _compiled(connection, self._statement, self._names)
        return found

    def run(self, connection: Connection, values: Sequence[object]) -> Sequence[Any]:
        """The rows found, as tuples."""
        sql = self.sql(connection)
        if not is_sqlite(connection):
            return connection.exec_driver_sql(sql, tuple(values)).fetchall()
        try:
            return sqlite_driver(connection).execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:  # readers know it by the name it has on the other database too
            raise DatabaseError(sql, None, error, hide_parameters=True) from error


def is_sqlite(connection: Connection) -> bool:
    """Whether a connection leads to SQLite."""
    return connection.dialect.name == "sqlite"


def sqlite_driver(connection: Connection) -> sqlite3.Connection:
    """SQLite's own connection beneath SQLAlchemy's; for this driver it is the same as `driver_connection`."""
    driver: sqlite3.Connection = connection.connection.dbapi_connection  # type: ignore[assignment]
    return driver


def _one_of_json(column: ColumnElement[str]) -> ColumnElement[bool]:
    return column.in_(select(func.json_each(bindparam("ids")).table_valued("value").c.value))


def _one_of_array(column: ColumnElement[str]) -> ColumnElement[bool]:
    return column == any_(bindparam("ids", type_=ARRAY(String)))


def _compiled(connection: Connection, statement: CompilerElement, names: list[str]) -> str:
    """The SQL of a statement, which must take exactly the parameters named, in their order."""
    compiled = statement.compile(dialect=connection.dialect, column_keys=names)
    positions = getattr(compiled, "positiontup", None)
    if positions != names:
        raise ValueError(f"the statement takes {positions}, its rows give {names}")
    return str(compiled)


def insert_into(connection: Connection, table: Table) -> Any:
    """An INSERT with ON CONFLICT in the words of a connection's dialect; both spell its methods alike."""
    return insert_in(connection.dialect.name, table)


def insert_in(dialect: str, table: Table) -> Any:
    """The same by a dialect's name, for statements that are prepared once."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 -- 2 MB that SQLite has no use for

    return postgresql.insert(table)
