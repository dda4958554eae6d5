"""Commands that work on the database of an installation, and `fairlead migrate`, which brings it up to date."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from fairlead.cli.output import data_option, json_option, print_result
from fairlead.domain.faults import FaultError
from fairlead.server.installation import opened_database, prepare_data
from fairlead.server.settings import Settings, read_settings
from fairlead.storage.db.database import Database, open_database
from fairlead.storage.db.migrate import HEAD, migrate

T = TypeVar("T")


def settings_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add --data and --database to a command, which is called with the `settings` that they lead to."""

    @functools.wraps(command)
    def called(data: str | None, database: str | None, **given: Any) -> None:
        command(settings=read_settings(data=None if data is None else Path(data), database=database), **given)

    return data_option(called)


def in_database(settings: Settings, work: Callable[[Database], Awaitable[T]]) -> T:
    """Do something with the database of an installation. What a caller would be told as a fault is a line here."""

    async def done() -> T:
        async with opened_database(settings) as database:
            return await work(database)

    try:
        return asyncio.run(done())
    except FaultError as error:
        raise click.ClickException(getattr(error.fault, "detail", "") or type(error.fault).__name__) from error


@click.command("migrate")
@settings_option
@json_option
def migrate_command(settings: Settings, as_json: bool) -> None:
    """Bring the database to the schema this version needs; makes it where there is none. Safe to repeat."""

    async def work() -> str | None:
        opened = open_database(settings.database_url())
        try:
            return await migrate(opened)
        finally:
            await opened.close()

    prepare_data(settings)
    before = asyncio.run(work())
    is_new = before != HEAD
    words = f"Brought the database from {before or 'nothing'} to {HEAD}." if is_new else f"The database is at {HEAD}."
    print_result({"before": before, "now": HEAD}, words, as_json=as_json)
