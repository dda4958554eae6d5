"""Connections to PostgreSQL that are kept from one transaction to the next."""

import asyncio
from collections.abc import Iterator

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from conftest import Run
from databases import Postgres
from fairlead.storage.db.connections import Connections
from fairlead.storage.db.database import DatabaseUnavailableError
from fairlead.storage.db.opening import open_database

_SECONDS = 0.05


@pytest.fixture
def connections(postgresql_url: str, run: Run) -> Iterator[Connections]:
    """Return at most two connections, for which nobody waits long."""
    url = make_url(postgresql_url).set(drivername="postgresql+asyncpg")
    made = Connections(create_async_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool), 2, _SECONDS)
    yield made
    run(made.close())


async def _backend(connections: Connections) -> int:
    """The id of the process of PostgreSQL that serves the next connection lent."""
    async with connections.lend() as (_, driver):
        found: int = driver.get_server_pid()
        return found


def test_connection_used_last_is_lent_again(connections: Connections, run: Run) -> None:
    """Nobody who uses one at a time has a second one opened; of two, the one given back last comes first."""

    async def backends() -> tuple[set[int], int, int]:
        alone = {await _backend(connections) for _ in range(3)}
        async with connections.lend():
            async with connections.lend() as (_, driver):
                second = driver.get_server_pid()
            again = await _backend(connections)
        return alone, second, again

    alone, second, again = run(backends())
    assert len(alone) == 1
    assert second not in alone
    assert again == second


def test_nobody_waits_longer_than_the_bound_for_a_connection(connections: Connections, run: Run) -> None:
    """Where all are in use another borrower is refused, and has one as soon as one is given back."""

    async def borrow() -> int:
        async with connections.lend():
            async with connections.lend():
                with pytest.raises(PoolTimeoutError, match="all 2 connections to the database are in use"):
                    await _backend(connections)
            return await _backend(connections)

    assert run(borrow()) > 0


def test_connection_in_an_open_transaction_is_not_lent_again(connections: Connections, run: Run) -> None:
    """What one borrower has begun and not ended is not part of what the next one does."""

    async def leave() -> tuple[int, int]:
        async with connections.lend() as (_, driver):
            await driver.execute("BEGIN")
            left = driver.get_server_pid()
        return left, await _backend(connections)

    left, found = run(leave())
    assert found != left


def test_connection_of_a_cancelled_borrower_is_not_lent_again(connections: Connections, run: Run) -> None:
    """It may still be at something."""

    async def cancel() -> tuple[int, int]:
        held: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def hold() -> None:
            async with connections.lend() as (_, driver):
                held.set_result(driver.get_server_pid())
                await asyncio.Event().wait()

        holder = asyncio.create_task(hold())
        left = await held
        holder.cancel()
        await asyncio.wait([holder])
        return left, await _backend(connections)

    left, found = run(cancel())
    assert found != left


def test_connection_is_opened_again_after_a_restart(connections: Connections, postgres: Postgres, run: Run) -> None:
    """One that broke while nobody used it is found to be broken, and costs its borrower no failure."""
    first = run(_backend(connections))
    postgres.stop()
    postgres.start()
    run(asyncio.sleep(_SECONDS))
    assert run(_backend(connections)) != first


def test_connection_given_back_after_the_end_is_closed(connections: Connections, run: Run) -> None:
    """Those in use when the database is closed are not kept."""

    async def outlive() -> bool:
        async with connections.lend() as (_, driver):
            await connections.close()
        closed: bool = driver.is_closed()
        return closed

    assert run(outlive())


def test_transaction_after_one_that_took_too_long_is_its_own(postgresql_url: str, run: Run) -> None:
    """A statement that is given up leaves nothing to those that follow."""
    opened = open_database(postgresql_url, statement_seconds=0.2)
    with pytest.raises(DatabaseUnavailableError):
        run(opened.write(lambda c: c.execute(text("INSERT INTO servers SELECT 'a', 1 FROM pg_sleep(20)"))))
    run(opened.write(lambda c: c.execute(text("INSERT INTO servers (id, seen_at) VALUES ('b', 1)"))))
    found = run(opened.read(lambda c: c.execute(text("SELECT id FROM servers")).scalars().all()))
    assert found == ["b"]
    run(opened.close())
