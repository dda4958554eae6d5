"""`fairlead migrate`: the schema of the database."""

import asyncio

import click

from fairlead.cli.output import data_option, json_option, print_json
from fairlead.cli.workspaces import settings_of
from fairlead.server.installation import prepare_data
from fairlead.storage.db.database import open_database
from fairlead.storage.db.migrate import HEAD, migrate


@click.command("migrate")
@data_option
@json_option
def migrate_command(data: str | None, database: str | None, as_json: bool) -> None:  # noqa: FBT001 -- click passes flags by name
    """Bring the database to the schema this version needs; makes it where there is none. Safe to repeat."""
    settings = settings_of(data, database)

    async def work() -> str | None:
        opened = open_database(settings.database_url())
        try:
            return await migrate(opened)
        finally:
            await opened.close()

    prepare_data(settings)
    before = asyncio.run(work())
    if as_json:
        print_json({"before": before, "now": HEAD})
    else:
        click.echo(
            f"The database is at {HEAD}."
            if before == HEAD
            else f"Brought the database from {before or 'nothing'} to {HEAD}."
        )
