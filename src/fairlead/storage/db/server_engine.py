"""SQLAlchemy's engine for a PostgreSQL: which host is connected to, and how statements get through a pooler.

Two things in a URL's query are read here. Several `host=name:port` are tried in turn, each with the whole time: the
driver would count the time for all of them together, and never come to the second one while the first is switched off.
`pgbouncer=true` says that each transaction may reach another process of PostgreSQL, so that nothing is kept in one: no
prepared statement, and no parameter of a session.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

_POOLED: Final = "pgbouncer"
_UNNAMED: Final[Mapping[str, object]] = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: "",
}
"""Each statement is prepared without a name: it lasts until the next one, which is in the same transaction."""


def is_pooled(url: URL) -> bool:
    """Whether a URL leads to a pooler in transaction mode; ValueError where it says neither that nor the opposite."""
    said = url.query.get(_POOLED, "false")
    if said not in ("true", "false"):
        raise ValueError(f"{_POOLED} in the URL of the database is true or false")
    return said == "true"


def make_engine(
    url: URL, connect_seconds: float, statement_seconds: float | None, session: Mapping[str, str] | None = None
) -> "AsyncEngine":
    """Make an engine that keeps no connection and begins no transaction; ValueError for a bad URL.

    A connection has the parameters of `session`, unless the URL leads to a pooler, which lets none of them through.
    """
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415 -- 7 MB that SQLite has no use for
    from sqlalchemy.pool import NullPool  # noqa: PLC0415 -- same

    pooled = is_pooled(url)
    return create_async_engine(
        url.set(drivername="postgresql+asyncpg").difference_update_query([_POOLED]),
        isolation_level="AUTOCOMMIT",  # transactions are begun at the driver
        hide_parameters=True,
        poolclass=NullPool,
        connect_args={
            "timeout": connect_seconds,
            "command_timeout": statement_seconds,
            "async_creator_fn": _Hosts(pins=pooled).connect,
            **(_UNNAMED if pooled else {"server_settings": session}),
        },
    )


async def connect(engine: "AsyncEngine") -> "tuple[AsyncConnection, Any]":
    """Open a connection that is in no transaction; with that of asyncpg beneath it.

    Raises what the driver raises; ConnectionError where a pooler has ended it meanwhile.
    """
    connection = await engine.connect()
    driver: Any = (await connection.get_raw_connection()).driver_connection
    if driver.is_in_transaction():  # that of _Hosts
        try:
            await driver.execute("COMMIT")
        except Exception as error:
            await connection.invalidate()
            await connection.close()
            raise ConnectionError(str(error)) from error
    return connection, driver


class _Hosts:
    """The hosts that a URL names. The one that took the last connection is asked first.

    A connection that it `pins` comes in a transaction, so that what SQLAlchemy asks first stays at one process.
    """

    def __init__(self, *, pins: bool) -> None:
        self._pins = pins
        self._first = 0

    async def connect(self, *, host: object = None, port: object = None, **options: object) -> object:
        """Connect to a host that answers and is what the URL asks for; ConnectionError where there is none."""
        import asyncpg  # type: ignore[import-untyped] # noqa: PLC0415 -- as SQLAlchemy's part above

        names, ports = (one if isinstance(one, list) else [one] for one in (host, port))
        hosts = list(zip(names, ports, strict=True))
        reasons, cause = [], None
        for turn in range(len(hosts)):
            position = (self._first + turn) % len(hosts)
            name, number = hosts[position]
            try:
                driver = await asyncpg.connect(host=name, port=number, **options)
                if self._pins:
                    await driver.execute("BEGIN")
            except (
                OSError,
                asyncpg.CannotConnectNowError,
                asyncpg.PostgresConnectionError,
                asyncpg.TargetServerAttributeNotMatched,
            ) as error:
                reasons.append(str(error) or type(error).__name__)
                cause = error
            else:
                self._first = position
                return driver
        raise ConnectionError("; ".join(reasons)) from cause
