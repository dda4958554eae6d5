"""The history of the tables: from nothing to HEAD, and HEAD is what the code expects."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from databases import opened_database
from fairlead.domain.runs.entries import EarlierWork, KeptResult, KeyUsed, LiveRun, Verdict
from fairlead.domain.runs.outcomes import Work
from fairlead.domain.runs.states import RunState
from fairlead.domain.work.entries import TakeOver
from fairlead.storage.assets.results import named_blobs
from fairlead.storage.db import migrate as migrations
from fairlead.storage.db.migrate import (
    COMPATIBILITY_TABLE,
    HEAD,
    REVISION_TABLE,
    migrate,
    run_revisions,
    schema_state,
    upgrade,
)
from fairlead.storage.db.tables import metadata
from fairlead.storage.ledger import ledger
from fairlead.storage.runs.entries import write_entries
from fairlead.storage.runs.idempotency import EndedRun, ended_run, forget_expired
from fairlead.storage.runs.queue import QUEUE
from storage.bookings import admission, failure, key


async def _migrate_twice(url: str) -> tuple[str | None, str | None, str | None]:
    async with opened_database(url) as database:
        first, second = await migrate(database), await migrate(database)
        return first, second, (await database.read(schema_state)).revision


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
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "compare_server_default": True,
                "version_table": REVISION_TABLE,
                "include_name": lambda name, kind, _: (kind, name) != ("table", COMPATIBILITY_TABLE),
            },
        )
        return list(compare_metadata(context, metadata))

    async def compare() -> list[object]:
        async with opened_database(empty_database_url) as database:
            return await database.write(differences)

    assert asyncio.run(compare()) == []


def test_migrated_database_has_every_table(database_url: str) -> None:
    """The migrated database has every table of the code, and those that say which revision it is at."""

    async def names() -> list[str]:
        async with opened_database(database_url) as database:
            return await database.read(lambda c: inspect(c).get_table_names())

    assert set(asyncio.run(names())) == {*metadata.tables, REVISION_TABLE, COMPATIBILITY_TABLE}


@pytest.mark.parametrize("way", [upgrade, run_revisions])
def test_failed_migration_leaves_nothing_behind(empty_database_url: str, way: Callable[[Connection], object]) -> None:
    """A migration is one transaction: its failure leaves an empty database."""

    def fail_after(connection: Connection) -> None:
        way(connection)
        raise RuntimeError("power cut")

    async def fail_and_look() -> list[str]:
        async with opened_database(empty_database_url) as database:
            with pytest.raises(RuntimeError, match="power cut"):
                await database.write(fail_after)
            return await database.read(lambda c: inspect(c).get_table_names())

    assert asyncio.run(fail_and_look()) == []


def test_servers_that_start_at_once_migrate_once(empty_database_url: str) -> None:
    """The second waits for the first and finds everything done."""

    async def start(url: str) -> str | None:
        async with opened_database(url) as database:
            await migrate(database)
            return (await database.read(schema_state)).revision

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


def _upgrade_to(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", migrations.__file__.replace("migrate.py", "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def test_runs_of_the_previous_version_live_through_the_migration(empty_database_url: str) -> None:
    """Unfinished runs live through the migration: the books are right, and they can be claimed and settled."""

    def fill(connection: Connection) -> None:
        _upgrade_to(connection, "0001")
        for statement in _OF_0001:
            values = {"no": False, "body": b"{}"} if ":no" in statement else {}
            connection.execute(text(statement), values)

    async def go_on() -> tuple[list[LiveRun], list[list[dict[str, Any]]]]:
        async with opened_database(empty_database_url) as database:
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


_RUN_OF_0019 = """
    INSERT INTO runs (id, workspace_id, model_id, provider, state, attempt, server_id, handle, credential, hold, charge,
                      rate_version, idempotency_id, upstream_status, caller_left, created_at, finished_at)
    VALUES (:id, 'lab-id', 'acme/x', 'acme', :state, 1, 's', :handle, :credential, 100, :charge,
            'v1', :key, :status, :no, 1, :finished_at)
"""
_RUNS_OF_0019 = (
    # id, state, idempotency key, charge, status, finished at, handle, credential
    ("told", "succeeded", "key-1", 60, 200, 5, None, None),
    ("failed", "failed", "key-2", 0, 500, 5, None, None),
    ("freed", "failed", "key-3", 0, 500, 5, None, None),
    ("again", "succeeded", "key-3", 60, 200, 9, None, None),
    ("undecided", "failed", "key-4", 0, 202, 5, "task-7", "own"),
    ("live", "dispatched", "key-5", None, None, None, None, None),
    ("plain", "failed", None, 0, 500, 5, None, None),
)
_KEYS_OF_0019 = """
    INSERT INTO idempotency_keys VALUES ('key-1', 'call-1', 'told', 9000), ('key-2', 'call-2', 'failed', 9000),
        ('key-3', 'call-3', 'again', 9000), ('key-4', 'call-4', 'undecided', 9000), ('key-5', 'call-5', 'live', 9000)
"""
_RESULTS_OF_0019 = """
    INSERT INTO run_results (run_id, fault, content_type, content, blob, size, fallback_provider, dropped,
                             replayable_until, expires_at)
    VALUES ('told', NULL, 'application/json', :body, NULL, NULL, 'fal', '["seed"]', 0, 9000),
           ('failed', :body, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 9000),
           ('again', NULL, 'image/png', NULL, 'b10b', 7, NULL, NULL, NULL, 8000)
"""


@pytest.mark.req("R-18")
def test_keys_and_results_are_told_again_after_the_migration(empty_database_url: str) -> None:
    """A key that counted before the migration finds its run and its result after it, and a freed key stays free."""

    def fill(connection: Connection) -> None:
        _upgrade_to(connection, "0019")
        workspace = "INSERT INTO workspaces (id, name, billing, balance, held, cap, in_flight, in_flight_limit, gates,"
        connection.execute(
            text(f"{workspace} created_at) VALUES ('lab-id', 'lab', 'prepaid', 900, 0, 0, 0, 1, '{{}}', 1)")
        )
        names = ("id", "state", "key", "charge", "status", "finished_at", "handle", "credential")
        for row in _RUNS_OF_0019:
            connection.execute(text(_RUN_OF_0019), {**dict(zip(names, row, strict=True)), "no": False})
        connection.execute(text(_KEYS_OF_0019))
        connection.execute(text(_RESULTS_OF_0019), {"body": b"[1]"})

    calls = [admission(f"new-{n}", key=key(f"key-{n}", f"call-{n}", 9999), created_at=10) for n in (1, 2, 3, 4, 5, 6)]

    async def go_on() -> tuple[list[Verdict], dict[str, EndedRun | None], list[int], set[str]]:
        async with opened_database(empty_database_url) as database:
            await database.write(fill)
            assert await migrate(database) == "0019"
            verdicts = (await database.write(lambda c: write_entries(c, calls))).verdicts
            ended = {}
            for run_id in ("told", "failed", "freed", "again", "undecided", "live"):
                ended[run_id] = await database.read(partial(ended_run, run_id=run_id))
            blobs = await database.read(lambda c: named_blobs(c, ["b10b", "other"], 10))
            forgotten = [
                await database.write(partial(forget_expired, now=now, limit=100)) for now in (7999, 8000, 9000, 99999)
            ]
            return list(verdicts), ended, forgotten, blobs

    verdicts, ended, forgotten, blobs = asyncio.run(go_on())
    assert verdicts == [*map(KeyUsed, ("told", "failed", "again", "undecided", "live")), None]
    told, failed, again, undecided = (ended[name] for name in ("told", "failed", "again", "undecided"))
    assert told is not None
    assert told.result == KeptResult(9000, None, "application/json", b"[1]", None, None, "fal", '["seed"]', 0)
    assert (told.state, told.charge) == (RunState.SUCCEEDED, 60)
    assert failed is not None
    assert failed.result == KeptResult(9000, fault=b"[1]")
    assert again is not None
    assert again.result == KeptResult(8000, content_type="image/png", blob="b10b", size=7)
    assert undecided is not None
    assert undecided.left == EarlierWork("undecided", "acme", Work("task-7", "own", 202), byok=False, expires_at=9000)
    assert ended["freed"] == EndedRun("freed", RunState.FAILED, 0, byok=False, created_at=1, result=None)
    assert (ended["live"], blobs) == (None, {"b10b"})
    assert forgotten == [0, 1, 7, 1]
