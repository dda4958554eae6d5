"""One memory of compiled SQL for all engines of a test process.

SQLAlchemy keeps compiled statements with each engine, and each test has an engine of its own: without this, compiling
the same statements again took a quarter of the processor time of the tests of storage.
"""

from typing import Any, Final

from sqlalchemy import Connection, Dialect, event
from sqlalchemy.engine import Engine
from sqlalchemy.util import LRUCache

_STATEMENTS: Final = 5000
_compiled: Final[LRUCache[Any, Any]] = LRUCache(_STATEMENTS)


def share_compiled_statements() -> None:
    """Have the engines of this process that are yet to connect compile each statement once for each kind of database.

    What is kept names the dialect that it was compiled for, so that dialects of one class have to be equal. Those of a
    test process differ in nothing that a statement shows.
    """
    Dialect.__eq__ = _is_same_class  # type: ignore[method-assign,assignment]
    Dialect.__hash__ = _hash_of_class  # type: ignore[method-assign,assignment]
    event.listen(Engine, "engine_connect", _share)


def _share(connection: Connection) -> None:
    connection.engine._compiled_cache = _compiled


def _is_same_class(one: Dialect, other: object) -> bool:
    return type(one) is type(other)


def _hash_of_class(dialect: Dialect) -> int:
    return hash(type(dialect))
