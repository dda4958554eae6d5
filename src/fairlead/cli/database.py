"""Commands that work on the database of an installation; `fairlead migrate` and `migrate-data`, which prepare one."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from fairlead.cli.output import data_option, json_option, print_result
from fairlead.clock import Clock
from fairlead.domain.faults import FaultError
from fairlead.operations.data_copy import CopySummary, migrate_data
from fairlead.server.installation import lock_file_database, opened_database, prepare_data
from fairlead.server.setting_readers import database_url
from fairlead.server.settings import Settings, read_settings
from fairlead.storage.db.database import Database
from fairlead.storage.db.migrate import HEAD, migrate, stranded_servers
from fairlead.storage.db.opening import file_of, open_database

T = TypeVar("T")


def settings_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --data and --database to a command, which is called with the `settings` that they lead to."""

    @functools.wraps(command)
    def call(data: str | None, database: str | None, **given: Any) -> None:
        command(settings=read_settings(data=None if data is None else Path(data), database=database), **given)

    return data_option(call)


def in_database(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    """Do something with the database of an installation. A fault is printed as one line."""

    async def execute() -> T:
        async with opened_database(settings) as database:
            return await work(database)

    try:
        return asyncio.run(execute())
    except FaultError as error:
        raise click.ClickException(getattr(error.fault, "detail", "") or type(error.fault).__name__) from error


@click.command("migrate")
@settings_option
@click.option("--force", is_flag=True, help="Do not wait for servers whose calls fail from then on.")
@json_option
def migrate_command(settings: Settings, force: bool, as_json: bool) -> None:
    """Bring the database to the schema that this version needs, or create it. Safe to repeat.

    Refuses where servers are running that could not work with it.
    """
    silent_ms = int(settings.silent_server_seconds * 1000)

    async def work() -> tuple[str | None, int]:
        opened = open_database(settings.database_url(), statement_seconds=None)  # building an index has no time limit
        try:
            stranded = await opened.read(partial(stranded_servers, silent_ms=silent_ms)) if force else 0
            return await migrate(opened, None if force else silent_ms), stranded
        finally:
            await opened.close()

    prepare_data(settings)
    before, stranded = asyncio.run(work())
    document = {"before": before, "now": max(before or HEAD, HEAD), "servers_stranded": stranded}
    words = f"{_outcome(before)}{_warning(stranded)}"
    print_result(document, words, as_json=as_json)


def _warning(stranded: int) -> str:
    """What has become of servers that cannot work with the database any more."""
    return f" Servers that fail every call until they are replaced: {stranded}." if stranded else ""


def _outcome(before: str | None) -> str:
    """The result in words, by the revision that the database was at."""
    if before == HEAD:
        return f"The database is at {HEAD}."
    if before is not None and before > HEAD:
        return f"A later version has brought the database to {before}; this version, at {HEAD}, works with it as it is."
    return f"Brought the database from {before or 'nothing'} to {HEAD}."


@click.command("migrate-data")
@click.argument("source")
@click.argument("target")
@json_option
def migrate_data_command(source: str, target: str, as_json: bool) -> None:
    """Copy the database SOURCE into TARGET and prove that they are the same.

    Both are URLs: sqlite:///FILE or postgresql://… Stop every server first. TARGET has to be empty. If it is killed,
    the same command continues where it stopped. Stored files are not in the database: they stay where they are.
    """
    settings = read_settings()

    def tell(name: str, rows: int) -> None:
        if not as_json:
            click.echo(f"copied {name}: {rows} rows")

    async def work() -> CopySummary:
        async with AsyncExitStack() as stack:
            # A lock on a SQLite file shows that nobody else uses it; a PostgreSQL database is asked when a server last
            # used it.
            silent_ms = 0 if lock_file_database(source, stack) else int(settings.silent_server_seconds * 1000)
            copied, filled = open_database(source), open_database(target)
            stack.push_async_callback(copied.close)
            stack.push_async_callback(filled.close)
            return await migrate_data(copied, filled, Clock(), silent_ms, tell)

    for name, url in (("SOURCE", source), ("TARGET", target)):
        _check_url(name, url)
    if (file := file_of(source)) is not None and not file.exists():
        raise click.ClickException(f"there is no database at {file}")
    summary = asyncio.run(work())
    rows = sum(table.rows for table in summary.tables)
    words = (
        f"Copied {len(summary.tables)} tables with {rows} rows; rows and books are the same on both sides."
        " Servers may be started on the target."
    )
    print_result(summary, words, as_json=as_json)


def _check_url(name: str, url: str) -> None:
    try:
        database_url(url)
    except ValueError as error:
        raise click.UsageError(f"{name}: {error}") from error
