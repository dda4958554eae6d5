"""SQL beyond Core: statements compiled once and handed to the driver as they are, and INSERTs with ON CONFLICT.

SQLAlchemy makes a context, a parameter dictionary and a result object for every statement, which costs several times
what SQLite needs to run it. The few statements of the journal, which every run passes through, are therefore compiled
once per dialect. They are still written in Core, once for both databases; only their execution is short.
"""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias, cast

import msgspec
from sqlalchemy import (
    ARRAY,
    JSON,
    AdaptedConnection,
    BigInteger,
    BindParameter,
    ColumnElement,
    Connection,
    Dialect,
    FromClause,
    Insert,
    LargeBinary,
    Select,
    String,
    Table,
    Text,
    Update,
    any_,
    bindparam,
    column,
    func,
    literal_column,
    null,
    select,
    union_all,
)
from sqlalchemy import cast as cast_to
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.sql.elements import CompilerElement
from sqlalchemy.sql.expression import UpdateBase
from sqlalchemy.sql.visitors import ExternallyTraversible, replacement_traverse

# For a value without an adapter SQLite's driver looks up two attributes that it does not have, at the cost of two
# exceptions; a run has fourteen such values. These adapters are written in C, because a Python function would cost more
# than storing a value.
sqlite3.register_adapter(bool, int)
sqlite3.register_adapter(bytes, bytes)
sqlite3.register_adapter(type(None), {}.get)  # type: ignore[arg-type]  # finds nothing: None

DATABASE_TIME: Final = literal_column("CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)", BigInteger)
"""The time in ms since 1970 by the clock of PostgreSQL."""
_encode: Final = msgspec.json.Encoder().encode
_ROWS: Final = "rows"
"""The parameter that takes all rows of a statement."""
_INTEGRITY: Final = "23"
"""How the SQLSTATEs of violated constraints begin."""
_Row: TypeAlias = tuple[object, ...]
Rows: TypeAlias = Sequence[Any]
"""The rows that a statement has found, as tuples."""
OneOf: TypeAlias = Callable[[ColumnElement[str]], ColumnElement[bool]]
"""Makes the condition that a column is one of the ids looked up, in a dialect's SQL."""


class Prepared:
    """An INSERT or UPDATE whose rows are tuples in the order of `names`.

    The values must be what the driver takes: plain `str`, `int`, `bytes`, `bool` or None. `primary_key` is the name of
    the value by which an UPDATE finds its row.
    """

    def __init__(self, statement: UpdateBase, names: Sequence[str], primary_key: str | None = None) -> None:
        self._statement = statement
        self._names = list(names)
        self._primary_key = primary_key
        self._sql: dict[str, str] = {}

    def run(self, connection: Connection, rows: Sequence[_Row]) -> None:
        """Execute the statement once a row, in order; does nothing without rows."""
        if not rows:
            return
        dialect = connection.dialect.name
        sql = self._sql.get(dialect) or self._compile(connection)
        if dialect != "sqlite":
            connection.exec_driver_sql(sql, list(rows))
            return
        try:
            sqlite_driver(connection).executemany(sql, rows)
        except sqlite3.IntegrityError as error:  # as the error that it is on the other database
            raise IntegrityError(sql, None, error, hide_parameters=True) from error

    def update(self, connection: Connection, rows: Sequence[_Row], name: str) -> set[object]:
        """Execute an UPDATE in SQLite for all rows; the value of a name of those for which it changed something.

        RETURNING would do the same, but makes the statement take four times as long there.
        """
        sql = self._sql.get("sqlite") or self._compile(connection)
        driver, at, changed = sqlite_driver(connection), self._names.index(name), set()
        for row in rows:
            if driver.execute(sql, row).rowcount:
                changed.add(row[at])
        return changed

    def of_all_rows(self, dialect: Dialect, parameter: str, returned: str | None = None) -> Insert | Update:
        """The statement for PostgreSQL that takes all rows at once, as the one parameter that `as_json` makes.

        An UPDATE may return one of the values of each row it changes. With a `primary_key` its rows are looked up by an
        array of those, of which PostgreSQL expects ten, whatever is in it. Of the rows of a document it expects a
        hundred, and reads a table of less than some thousand rows whole instead.

        Arrays of columns would work as well, but asyncpg checks for each value whether it is an array itself: for a
        run's hundred values that took a tenth of its time.
        """
        binds = self._statement.compile(dialect=dialect, column_keys=self._names).binds
        types = {name: binds[name].type for name in self._names}
        # Texts without their length: a cast to a shorter one would cut them.
        given = [
            column(name, Text() if isinstance(type_, String | LargeBinary) else type_) for name, type_ in types.items()
        ]
        document = cast_to(bindparam(parameter, type_=Text()), JSON)
        rows: FromClause = func.json_to_recordset(document).table_valued(*given).render_derived(with_types=True)
        if self._primary_key is not None:
            rows = select(rows).cte(f"{parameter}_given")
        values: dict[str, ColumnElement[object]] = {
            name: func.decode(rows.c[name], literal_column("'base64'"))
            if isinstance(type_, LargeBinary)
            else rows.c[name]
            for name, type_ in types.items()
        }
        if isinstance(self._statement, Insert):
            return self._statement.from_select(self._names, select(*values.values()))
        statement: ExternallyTraversible = replacement_traverse(
            cast("ExternallyTraversible", self._statement),
            {},
            lambda element, **_: values[element.key] if isinstance(element, BindParameter) else None,
        )
        update = cast("Update", statement)
        if self._primary_key is not None:
            (column_found_by,) = cast("Table", update.table).primary_key
            given_keys = select(rows.c[self._primary_key]).scalar_subquery()
            update = update.where(column_found_by == any_(func.array(given_keys)))
        return update if returned is None else cast("Update", update.returning(rows.c[returned]))

    def as_json(self, rows: Sequence[_Row]) -> str:
        """Rows as `of_all_rows` takes them: bytes in base64, and each row by the names of its values."""
        return _encode([dict(zip(self._names, row, strict=True)) for row in rows]).decode()

    def _compile(self, connection: Connection) -> str:
        sql = self._sql[connection.dialect.name] = _sql_of(connection, self._statement, self._names)
        return sql


_TOGETHER: Final[dict[tuple[Prepared, ...], str]] = {}


def run_together(connection: Connection, *written: tuple[Prepared, Sequence[_Row]]) -> None:
    """Execute some statements, each for all of its rows, which costs PostgreSQL a single round trip.

    No row of a table may be changed twice, and no statement sees what the others have changed.
    """
    if connection.dialect.name == "sqlite":
        for statement, rows in written:
            statement.run(connection, rows)
    # PostgreSQL would plan and run a statement without rows as well.
    elif due := [(statement, rows) for statement, rows in written if rows]:
        statements = tuple(statement for statement, _ in due)
        sql = _TOGETHER.get(statements) or _compile_together(connection, statements)
        _fetch(connection, sql, [statement.as_json(rows) for statement, rows in due])


def _compile_together(connection: Connection, statements: tuple[Prepared, ...]) -> str:
    names = [f"{_ROWS}_{number}" for number in range(len(statements))]
    parts = [statement.of_all_rows(connection.dialect, name) for statement, name in zip(statements, names, strict=True)]
    together: CompilerElement = select(literal_column("1")).add_cte(
        *(part.cte(f"part_{n}") for n, part in enumerate(parts))
    )
    sql = _TOGETHER[statements] = _sql_of(connection, together if len(parts) > 1 else parts[0], names)
    return sql


_CHANGING: Final[dict[tuple["PreparedLookup", *tuple[Prepared, ...]], str]] = {}


def change_and_look_up(
    connection: Connection,
    changes: Sequence[tuple[Prepared, Sequence[_Row]]],
    name: str,
    lookup: "PreparedLookup",
    ids: Sequence[str],
) -> tuple[set[object], Rows]:
    """Execute UPDATEs, each for all of its rows, and a lookup of ids of another table: one round trip of PostgreSQL.

    Return the value of `name` of those rows that an UPDATE found something to change for, and the rows looked up.
    """
    if connection.dialect.name == "sqlite":
        changed = set[object]()
        for statement, rows in changes:
            changed |= statement.update(connection, rows, name)
        return changed, lookup.run(connection, ids)
    due = [(statement, rows) for statement, rows in changes if rows]
    if not due:
        return set(), lookup.run(connection, ids)
    statements = tuple(statement for statement, _ in due)
    sql = _CHANGING.get((lookup, *statements)) or _compile_changing(connection, statements, name, lookup)
    found = _fetch(connection, sql, [ids, *(statement.as_json(rows) for statement, rows in due)])
    return {row[0] for row in found if row[0] is not None}, [row[1:] for row in found if row[0] is None]


def _compile_changing(
    connection: Connection, statements: tuple[Prepared, ...], name: str, lookup: "PreparedLookup"
) -> str:
    """A row for each change, with its value in front, and one for each row looked up, with NULL in front.

    The rows looked up come first: PostgreSQL has the types of all rows from the first that has one.
    """
    names = [f"{_ROWS}_{number}" for number in range(len(statements))]
    looked_up = lookup.statement(_one_of_array).subquery()
    branches = [select(null().label(name), *looked_up.c)]
    for number, statement in enumerate(statements):
        part = cast("Update", statement.of_all_rows(connection.dialect, names[number], name)).cte(f"part_{number}")
        branches.append(select(part.c[name], *(null().label(column.name) for column in looked_up.c)))
    sql = _sql_of(connection, union_all(*branches), ["ids", *names])
    _CHANGING[lookup, *statements] = sql
    return sql


class PreparedInsert:
    """An INSERT like `Prepared` that skips rows whose keys exist already, because they were written before."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self._table = table
        self._names = names
        self._prepared: dict[str, Prepared] = {}

    def run(self, connection: Connection, rows: Sequence[_Row]) -> None:
        """Execute the statement once a row; does nothing without rows."""
        dialect = connection.dialect.name
        if dialect not in self._prepared:
            statement = insert_in(dialect, self._table).on_conflict_do_nothing()
            self._prepared[dialect] = Prepared(statement, self._names)
        self._prepared[dialect].run(connection, rows)


class PreparedQuery:
    """A SELECT whose parameters are a tuple in the order of `names`, each of which it takes once."""

    def __init__(self, statement: CompilerElement, names: Sequence[str]) -> None:
        self._statement = statement
        self._names = list(names)
        self._sql: dict[str, str] = {}

    def sql(self, connection: Connection) -> str:
        """The statement in a dialect's SQL."""
        found = self._sql.get(connection.dialect.name)
        if found is None:
            found = self._sql[connection.dialect.name] = _sql_of(connection, self._statement, self._names)
        return found

    def run(self, connection: Connection, values: Sequence[object]) -> Rows:
        """The rows found, as tuples."""
        return _fetch(connection, self.sql(connection), values)


class PreparedLookup:
    """A SELECT of the rows whose ids are among some; `statement` is given the condition to put in its WHERE.

    Of one `with_time` each row ends with the time (ms) by the database's clock, which costs no round trip of its own;
    None in SQLite, which has no other than the machine.
    """

    def __init__(self, statement: Callable[[OneOf], Select[*tuple[object, ...]]], *, with_time: bool = False) -> None:
        self.statement: Final = statement
        self._with_time: Final = with_time
        self._sql: dict[str, str] = {}

    def run(self, connection: Connection, ids: Sequence[str]) -> Rows:
        """The rows found, as tuples; none without ids."""
        if not ids:
            return ()
        dialect = connection.dialect.name
        sql = self._sql.get(dialect) or self._compile(connection)
        return _fetch(connection, sql, (msgspec.json.encode(ids).decode() if dialect == "sqlite" else ids,))

    def _compile(self, connection: Connection) -> str:
        one_of, time = (_one_of_json, null()) if is_sqlite(connection) else (_one_of_array, DATABASE_TIME)
        statement = self.statement(one_of).add_columns(time) if self._with_time else self.statement(one_of)
        sql = self._sql[connection.dialect.name] = _sql_of(connection, statement, ["ids"])
        return sql


def _fetch(connection: Connection, sql: str, values: Sequence[object]) -> Rows:
    """Hand a statement to the driver as it is; its rows, as tuples."""
    if connection.dialect.name != "sqlite":
        adapted: AdaptedConnection = connection.connection.dbapi_connection  # type: ignore[assignment]
        try:
            rows: Rows = adapted.run_async(lambda driver: driver.fetch(sql, *values))
        except Exception as error:  # as the errors that SQLAlchemy would raise
            if not (sqlstate := getattr(error, "sqlstate", None)):
                raise
            named = IntegrityError if sqlstate.startswith(_INTEGRITY) else DatabaseError
            raise named(sql, None, error, hide_parameters=True) from error
        return rows
    try:
        return sqlite_driver(connection).execute(sql, values).fetchall()
    except sqlite3.DatabaseError as error:  # under the same error as on the other database
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


def _sql_of(connection: Connection, statement: CompilerElement, names: list[str]) -> str:
    """The SQL of a statement, which must take exactly the parameters named, in their order."""
    compiled = statement.compile(dialect=connection.dialect, column_keys=names)
    positions = getattr(compiled, "positiontup", None)
    if positions != names:
        raise ValueError(f"the statement takes {positions}, its rows give {names}")
    return str(compiled)


def insert_into(connection: Connection, table: Table) -> Any:
    """An INSERT with ON CONFLICT in a connection's dialect; its methods have the same names in both."""
    return insert_in(connection.dialect.name, table)


def insert_in(dialect: str, table: Table) -> Any:
    """The same by a dialect's name, for statements that are prepared once."""
    if dialect == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 -- 2 MB that SQLite has no use for

    return postgresql.insert(table)
