"""The history of the tables: from nothing to HEAD, and HEAD is what the code expects."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from databases import opened
from fairlead.domain.runs.entries import LiveRun, TakeOver
from fairlead.storage.db import migrate as migrations
from fairlead.storage.db.migrate import HEAD, migrate, revision_of, run_revisions, upgrade
from fairlead.storage.db.tables import metadata
from fairlead.storage.ledger import ledger
from fairlead.storage.runs.entries import write_entries
from fairlead.storage.runs.queue import QUEUE
from storage.bookings import failure


async def _migrate_twice(url: str) -> tuple[str | None, str | None, str | None]:
    async with opened(url) as database:
        first, second = await migrate(database), await migrate(database)
        return first, second, await database.read(revision_of)


def test_empty_database_is_migrated_to_head(empty_database_url: str) -> None:
    """The first migration makes everything, the second changes nothing."""
    assert asyncio.run(_migrate_twice(empty_database_url)) == (None, HEAD, HEAD)


def test_head_is_the_newest_revision() -> None:
    """The revision the code asks for is the only end of the folder of revisions."""
    config = Config()
    config.set_main_option("script_location", migrations.__file__.replace("migrate.py", "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


@pytest.mark.parametrize("way", [upgrade, run_revisions])
def test_migrations_make_the_tables_the_code_expects(
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


def test_migrated_database_has_every_table(database_url: str) -> None:
    """The migrated database has every table of the code, and Alembic's own."""

    async def names() -> list[str]:
        async with opened(database_url) as database:
            return await database.read(lambda c: inspect(c).get_table_names())

    assert set(asyncio.run(names())) == {*metadata.tables, "alembic_version"}


@pytest.mark.parametrize("way", [upgrade, run_revisions])
def test_failed_migration_leaves_nothing_behind(empty_database_url: str, way: Callable[[Connection], object]) -> None:
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


def test_servers_that_start_at_once_migrate_once(empty_database_url: str) -> None:
    """The second waits for the first and finds everything done."""

    async def start(url: str) -> str | None:
        async with opened(url) as database:
            await migrate(database)
            return await database.read(revision_of)

    async def start_both() -> tuple[str | None, str | None]:
        return await asyncio.gather(start(empty_database_url), start(empty_database_url))

    assert list(asyncio.run(start_both())) == [HEAD, HEAD]


_OF_0001 = (
    "INSERT INTO workspaces VALUES ('lab-id', 'lab', 'prepaid', 900000000, 500000100, 0, 2, -1, NULL, NULL, '{}', 1)",
    """
    INSERT INTO runs (id, workspace_id, model_id, provider, state, attempt, server_id, handle, hold, rate_version,
                      caller_left, request, created_at)
    VALUES ('run-1', 'lab-id', 'acme/x', 'acme', 'accepted', 1, 'server-1', 'task-7', 500000000, 'v1', :no, :body, 1),
           ('run-2', 'lab-id', 'acme/x', 'acme', 'dispatched', 1, 'server-1', NULL, 100, 'v1', :no, :body, 1)
    """,
    """
    INSERT INTO ledger_entries (workspace_id, run_id, phase, kind, balance_change, held_change, reason, created_at)
    VALUES ('lab-id', NULL, NULL, 'credit', 900000000, 0, 'paid in', 1),
           ('lab-id', 'run-1', 1, 'hold', 0, 500000000, 'admitted', 1),
           ('lab-id', 'run-2', 1, 'hold', 0, 100, 'admitted', 1)
    """,
)


def test_runs_of_the_previous_version_live_through_the_migration(empty_database_url: str) -> None:
    """Unfinished runs live through the migration: the books are right, and they can be claimed and settled."""

    def fill(connection: Connection) -> None:
        config = Config()
        config.set_main_option("script_location", migrations.__file__.replace("migrate.py", "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for statement in _OF_0001:
            values = {"no": False, "body": b"{}"} if ":no" in statement else {}
            connection.execute(text(statement), values)

    async def go_on() -> tuple[list[LiveRun], list[list[dict[str, Any]]]]:
        async with opened(empty_database_url) as database:
            await database.write(fill)
            assert await migrate(database) == "0001"
            wrong = [await database.read(ledger.disagreements)]
            orphans = await database.read(lambda c: QUEUE.orphans(c, "server-2", 0, 9))
            entries = [TakeOver(one.id, one.workspace_id, one.attempt, "server-2", 1) for one in orphans]
            taken = await database.write(lambda c: write_entries(c, entries))
            claimed = [run for run in taken.verdicts if isinstance(run, LiveRun)]
            ends = [failure(run.run_id, attempt=run.attempt) for run in claimed]
            written = await database.write(lambda c: write_entries(c, ends))
            assert written.verdicts == [None, None]
            return claimed, [*wrong, await database.read(ledger.disagreements)]

    claimed, wrong = asyncio.run(go_on())
    assert [(run.run_id, run.handle, run.strict, run.key_id) for run in claimed] == [
        ("run-1", "task-7", False, None),
        ("run-2", None, False, None),
    ]
    assert wrong == [[], []]
