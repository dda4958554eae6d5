"""Connections to PostgreSQL that are kept from one transaction to the next."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fairlead.storage.db.server_engine import connect

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine


class KeptConnection(NamedTuple):
    """A connection of SQLAlchemy's, that of asyncpg beneath it, and how often all were renewed before it was opened."""

    connection: "AsyncConnection"
    driver: Any
    renewals: int

    @property
    def is_usable(self) -> bool:
        """Whether it still leads to PostgreSQL, and no transaction was left open."""
        return not (self.connection.invalidated or self.driver.is_closed() or self.driver.is_in_transaction())


class Connections:
    """At most `most` connections of an engine without a pool. Where all are in use, a caller waits `seconds` for one.

    The one that was used last is lent first: it has the statements prepared, and its server their plans. SQLAlchemy's
    own pool asks for two proxies and a task at every loan, which together take longer than BEGIN and COMMIT
    (docs/why.md).
    """

    def __init__(self, engine: "AsyncEngine", most: int, seconds: float) -> None:
        self._engine: Final = engine
        self._most: Final = most
        self._seconds: Final = seconds
        self._places = asyncio.Semaphore(most)
        self._idle: list[KeptConnection] = []
        self._renewals = 0
        self._is_closed = False

    @asynccontextmanager
    async def lend(self) -> "AsyncIterator[tuple[AsyncConnection, Any]]":
        """Lend a connection; PoolTimeoutError where all stay in use, else what the driver raises that cannot connect.

        One that was left in the middle of something is not kept: by a borrower that was cancelled, or whose statement
        took too long.
        """
        await self._take_place()
        try:
            kept = await self._find()
            is_spoiled = True
            try:
                yield kept.connection, kept.driver
                is_spoiled = False
            except Exception as error:
                is_spoiled = isinstance(error, TimeoutError)
                raise
            finally:
                is_stale = kept.renewals != self._renewals
                if kept.is_usable and not (is_spoiled or is_stale or self._is_closed):
                    self._idle.append(kept)
                else:
                    await self._drop(kept)
        finally:
            self._places.release()

    def renew(self) -> None:
        """Lend none again that is open now: they lead to a server that is being replaced, or does not answer."""
        self._renewals += 1

    async def close(self) -> None:
        """Close all; those in use when they are given back."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().connection.close()
        await self._engine.dispose()

    async def _take_place(self) -> None:
        if not self._places.locked():  # a bound takes as long as the round trip of BEGIN
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(self._seconds):
                await self._places.acquire()
        except TimeoutError:
            raise PoolTimeoutError(f"all {self._most} connections to the database are in use") from None

    async def _find(self) -> KeptConnection:
        while self._idle:
            kept = self._idle.pop()
            if kept.is_usable and kept.renewals == self._renewals:
                return kept
            await self._drop(kept)  # since it was used last: PostgreSQL was restarted, or all were renewed
        renewals = self._renewals
        return KeptConnection(*await connect(self._engine), renewals)

    async def _drop(self, kept: KeptConnection) -> None:
        if kept.renewals != self._renewals:
            kept.driver.terminate()  # whoever does not answer would be waited for, one connection after the other
        await kept.connection.invalidate()
        await kept.connection.close()
