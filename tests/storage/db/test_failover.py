"""Another PostgreSQL takes the place of one that writes no more: a real primary, and its standby that is promoted."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import Final

import pytest
from sqlalchemy import Connection, make_url, select
from sqlalchemy.dialects.postgresql import insert

from conftest import Run
from databases import Postgres
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.db.opening import WaitingDatabase, open_database
from fairlead.storage.db.server_engine import connect, make_engine
from fairlead.storage.db.snapshots import open_snapshot
from fairlead.storage.db.tables import servers
from machine import limit
from pgbouncer import PgBouncer, running_pgbouncer
from postgres_pair import PostgresPair, running_pair

_WAIT_SECONDS: Final = limit(120.0)
_AT_ONCE: Final = 24
"""More than there are connections."""
_WAYS: Final[dict[str, Callable[[Postgres], None]]] = {
    "refuses writes": Postgres.refuse_writes,
    "is killed": Postgres.stop,
    "is cut off": Postgres.freeze,
}
"""How a primary ends."""


@pytest.fixture
def pair() -> Iterator[PostgresPair]:
    """Return a primary and a standby that this test may stop and promote."""
    with running_pair() as running:
        yield running


@pytest.fixture
def bouncer(pair: PostgresPair) -> Iterator[PgBouncer]:
    """Return a pooler that leads to the primary."""
    with running_pgbouncer(pair.primary) as running:
        yield running


def _names(connection: Connection) -> list[str]:
    return list(connection.execute(select(servers.c.id).order_by(servers.c.id)).scalars())


def _announce(connection: Connection, name: str) -> None:
    """Write a row, which is there once however often it is written."""
    connection.execute(insert(servers).values(id=name, seen_at=1).on_conflict_do_nothing())


async def _announce_many(database: Database, prefix: str) -> None:
    names = [f"{prefix} {number:02}" for number in range(_AT_ONCE)]
    await asyncio.gather(*(database.write(partial(_announce, name=name)) for name in names))


async def _announce_forever(database: Database) -> None:
    """Write until that fails: a process of PostgreSQL may not know yet that it has to refuse."""
    while True:
        await database.write(lambda c: _announce(c, "again"))


async def _fail_over(
    url: str, pair: PostgresPair, end: Callable[[Postgres], None], switch: Callable[[], None]
) -> list[str]:
    """Write before, during and after a failover; returns what is written in the end."""
    database = open_database(url)
    patient = WaitingDatabase(database, _WAIT_SECONDS)
    await _announce_many(patient, "before")
    await asyncio.to_thread(pair.wait_until_followed, _names)
    await asyncio.to_thread(end, pair.primary)
    during = asyncio.create_task(_announce_many(patient, "during"))
    with pytest.raises(DatabaseUnavailableError):
        await _announce_forever(database)
    await asyncio.to_thread(switch)
    await during
    await _announce_many(patient, "after")
    found = [name for name in await database.read(_names) if name != "again"]
    await database.close()
    return found


def _expected() -> list[str]:
    return [f"{when} {number:02}" for when in ("after", "before", "during") for number in range(_AT_ONCE)]


@pytest.mark.req("T-07")
@pytest.mark.parametrize("way", _WAYS)
def test_writes_wait_for_the_standby_that_is_promoted(pair: PostgresPair, way: str, run: Run) -> None:
    """Whether the primary lets nobody write any more, breaks every connection, or answers nothing at all."""
    assert run(_fail_over(pair.url, pair, _WAYS[way], pair.promote)) == _expected()


@pytest.mark.req("T-07")
@pytest.mark.parametrize("way", _WAYS)
def test_writes_through_pgbouncer_wait_until_it_leads_to_the_new_primary(
    pair: PostgresPair, bouncer: PgBouncer, way: str, run: Run
) -> None:
    """Its connections serve whole transactions, each maybe at another process of PostgreSQL."""

    def switch() -> None:
        pair.promote()
        bouncer.lead_to(pair.standby)

    assert run(_fail_over(bouncer.url(pair.name), pair, _WAYS[way], switch)) == _expected()


@pytest.mark.req("T-07")
def test_connections_to_a_server_that_is_cut_off_are_left_at_once(pair: PostgresPair, run: Run) -> None:
    """Nobody says goodbye to each of them, which would take two seconds a connection."""

    async def write_after() -> list[str]:
        database = open_database(pair.url)
        await _announce_many(database, "before")
        await asyncio.to_thread(pair.wait_until_followed, _names)
        await asyncio.to_thread(pair.primary.freeze)
        await asyncio.to_thread(pair.standby.promote)
        async with asyncio.timeout(limit(20.0)):
            await WaitingDatabase(database, _WAIT_SECONDS).write(lambda c: _announce(c, "after"))
        found = await database.read(_names)
        await database.close()
        return found

    assert "after" in run(write_after())


@pytest.mark.req("T-07")
def test_reads_go_on_where_nothing_can_be_written(pair: PostgresPair, run: Run) -> None:
    """Only a write is refused, as one that can be repeated; it leaves nothing in the way of the next one."""

    async def check() -> list[str]:
        database = open_database(pair.primary.url(pair.name))
        await database.write(lambda c: _announce(c, "one"))
        await asyncio.to_thread(pair.primary.refuse_writes)
        with pytest.raises(DatabaseUnavailableError) as refused:
            await _announce_forever(database)
        assert refused.value.is_repeatable
        found = await database.read(_names)
        await database.close()
        return found

    assert "one" in run(check())


def test_host_that_answers_nothing_is_not_asked_again(postgresql_url: str, run: Run) -> None:
    """The next one is asked in its place, and first from then on."""
    there = make_url(postgresql_url)

    async def connect_twice(silent: int) -> None:
        url = f"postgresql://postgres@/{there.database}?host=127.0.0.1:{silent}&host=127.0.0.1:{there.port}"
        engine = make_engine(make_url(url), limit(1.0), None)
        for _ in range(2):
            connection, driver = await connect(engine)
            assert await driver.fetchval("SELECT 1") == 1
            await connection.close()
        await engine.dispose()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        run(connect_twice(listener.getsockname()[1]))
        listener.settimeout(0)
        asked = 0
        with suppress(BlockingIOError):
            while True:
                listener.accept()[0].close()
                asked += 1
    assert asked == 1


def test_url_names_a_pooler_or_does_not(postgresql_url: str) -> None:
    """Anything else would be taken for no, and fail later."""
    with pytest.raises(ValueError, match="pgbouncer in the URL of the database is true or false"):
        open_database(f"{postgresql_url}?pgbouncer=1")


def test_snapshot_is_taken_through_pgbouncer(pair: PostgresPair, bouncer: PgBouncer, run: Run) -> None:
    """It is a transaction of many statements, while others write."""

    async def read() -> tuple[list[str], list[str]]:
        database = open_database(bouncer.url(pair.name))
        await _announce_many(database, "before")
        async with open_snapshot(bouncer.url(pair.name)) as snapshot:
            first = await snapshot.read(_names)
            await _announce_many(database, "after")
            second = await snapshot.read(_names)
        await database.close()
        return first, second

    first, second = run(read())
    assert len(first) == _AT_ONCE
    assert first == second
