"""The history of the tables: from nothing to HEAD, and HEAD is what the code expects."""

import asyncio
from collections.abc import Callable

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from databases import opened
from fairlead.storage import migrate as migrations
from fairlead.storage.migrate import HEAD, migrate, revision_of, run_revisions, upgrade
from fairlead.storage.tables import metadata


async def _migrate_twice(url: str) -> tuple[str | None, str | None, str | None]:
    async with opened(url) as database:
        first, second = await migrate(database), await migrate(database)
        return first, second, await database.read(revision_of)


def test_an_empty_database_is_not_brought_to_head(empty_database_url: str) -> None:
    """The first migration makes everything, the second changes nothing."""
    assert asyncio.run(_migrate_twice(empty_database_url)) == (None, HEAD, HEAD)


def test_head_is_not_the_newest_revision() -> None:
    """The revision the code asks for is the only end of the folder of revisions."""
    config = Config()
    config.set_main_option("script_location", migrations.__file__.replace("migrate.py", "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


@pytest.mark.parametrize("way", [upgrade, run_revisions])
def test_the_migrations_make_other_tables_than_the_code_expects(
    empty_database_url: str, way: Callable[[Connection], object]
) -> None:
    """Alembic finds no difference between the models and what the revisions make, nor with what is made at once."""

    def differences(connection: Connection) -> list[object]:
        way(connection)
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return list(compare_metadata(context, metadata))

    async def compare() -> list[object]:
        async with opened(empty_database_url) as database:
            return await database.write(differences)

    assert asyncio.run(compare()) == []


def test_a_table_is_missing(database_url: str) -> None:
    """The migrated database has every table of the code, and Alembic's own."""

    async def names() -> list[str]:
        async with opened(database_url) as database:
            return await database.read(lambda c: inspect(c).get_table_names())

    assert set(asyncio.run(names())) == {*metadata.tables, "alembic_version"}


@pytest.mark.parametrize("way", [upgrade, run_revisions])
def test_a_migration_that_fails_leaves_half_of_it_behind(
    empty_database_url: str, way: Callable[[Connection], object]
) -> None:
    """A migration is one transaction: its failure leaves an empty database."""

    def fail_after(connection: Connection) -> None:
        way(connection)
        raise RuntimeError("power cut")

    async def fail_and_look() -> list[str]:
        async with opened(empty_database_url) as database:
            with pytest.raises(RuntimeError, match="power cut"):
                await database.write(fail_after)
            return await database.read(lambda c: inspect(c).get_table_names())

    assert asyncio.run(fail_and_look()) == []


def test_two_servers_that_start_at_once_disturb_each_other(empty_database_url: str) -> None:
    """The second waits for the first and finds everything done."""

    async def start(url: str) -> str | None:
        async with opened(url) as database:
            await migrate(database)
            return await database.read(revision_of)

    async def start_both() -> tuple[str | None, str | None]:
        return await asyncio.gather(start(empty_database_url), start(empty_database_url))

    assert list(asyncio.run(start_both())) == [HEAD, HEAD]
