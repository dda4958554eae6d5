"""How a database executes statements: for tests that none of them reads every row."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Connection, event

from fairlead.storage.db.statements import is_sqlite, sqlite_driver
from storage.bookings import Books

_OF_THE_DRIVER: Final = ("typeinfo_tree", "set_config('jit'")
"""What asyncpg asks about types before a statement that it has not seen."""


def trace(books: Books, work: Callable[[Connection], Any]) -> list[tuple[str, str]]:
    """Return the statements that some work executes, each with the steps by which the database does so."""

    def in_sqlite(connection: Connection) -> list[tuple[str, str]]:
        statements: list[str] = []
        driver = sqlite_driver(connection)
        driver.set_trace_callback(statements.append)
        work(connection)
        driver.set_trace_callback(None)
        return [(sql, steps(driver.execute(f"EXPLAIN QUERY PLAN {sql}"))) for sql in statements]

    def in_postgresql(connection: Connection) -> list[tuple[str, str]]:
        executed: list[tuple[str, Any]] = []

        def note(_connection: Any, _cursor: Any, sql: str, values: Any, *_: Any) -> None:
            executed.append((sql, values))

        def log(query: Any) -> None:
            if not any(word in query.query for word in _OF_THE_DRIVER):
                executed.append((query.query, tuple(query.args)))

        adapted: Any = connection.connection.dbapi_connection
        # For the few rows of a test sorting costs as little as an index that has their order.
        connection.exec_driver_sql("SET LOCAL enable_sort = off")
        event.listen(connection, "before_cursor_execute", note)
        adapted.driver_connection.add_query_logger(log)  # what does not go through SQLAlchemy's cursor
        work(connection)
        adapted.run_async(lambda _: asyncio.sleep(0))  # it is told of a statement by the next turn of the loop
        adapted.driver_connection.remove_query_logger(log)
        event.remove(connection, "before_cursor_execute", note)
        return [(sql, steps(connection.exec_driver_sql(f"EXPLAIN {sql}", values))) for sql, values in executed]

    def steps(rows: Any) -> str:
        return "\n".join(str(row[-1]) for row in rows)

    return list(books.do(lambda c: in_sqlite(c) if is_sqlite(c) else in_postgresql(c)))
