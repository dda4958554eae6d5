"""`fairlead keys`: API keys."""

import asyncio
from typing import Any

import click

from fairlead.cli.output import data_option, json_option, print_json, print_rows, with_times
from fairlead.cli.workspaces import names_of, settings_of
from fairlead.installation import opened_database
from fairlead.operations import keys as operations
from fairlead.operations.clock import Clock

_COLUMNS = ("id", "workspace", "hint", "label", "models", "created_at", "revoked_at")


@click.group()
def keys() -> None:
    """Make, list and revoke API keys. A key is shown once; only its digest is kept."""


@keys.command()
@click.argument("workspace")
@click.option("--label", default="", help="What the key is for.")
@click.option(
    "--models", default="all", help="Allowed models, separated by commas; `*` at the end is a prefix; `all` allows all."
)
@data_option
@json_option
def create(workspace: str, label: str, models: str, data: str | None, database: str | None, as_json: bool) -> None:  # noqa: FBT001 -- click passes flags by name
    """Make a key for WORKSPACE and show it, this once."""
    settings = settings_of(data, database)

    async def work() -> operations.IssuedKey:
        async with opened_database(settings) as opened:
            return await operations.issue_key(
                opened, workspace, label[:100], names_of(models), settings.key_prefix, Clock()
            )

    issued = asyncio.run(work())
    if as_json:
        print_json({"id": issued.id, "key": issued.text, "workspace": workspace})
    else:
        click.echo(issued.text)


@keys.command("list")
@data_option
@json_option
def list_command(data: str | None, database: str | None, as_json: bool) -> None:  # noqa: FBT001 -- click passes flags by name
    """List keys, without their secrets."""

    async def work() -> list[dict[str, Any]]:
        async with opened_database(settings_of(data, database)) as opened:
            return await operations.list_keys(opened)

    rows = [with_times(row, "created_at", "revoked_at") for row in asyncio.run(work())]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="There are no keys.")


@keys.command()
@click.argument("key_id")
@data_option
def revoke(key_id: str, data: str | None, database: str | None) -> None:
    """Revoke a key by its id, for good. No further run is admitted with it."""

    async def work() -> bool:
        async with opened_database(settings_of(data, database)) as opened:
            return await operations.revoke_key(opened, key_id, Clock())

    if not asyncio.run(work()):
        raise click.ClickException(f"there is no living key with the id {key_id}; `fairlead keys list` shows them")
    click.echo(f"Revoked {key_id}.")
