"""`fairlead registry`: who may publish, and who has done what."""

import asyncio
from typing import Final

import click

from fairlead.cli.output import data_option, json_option, print_rows, with_times
from fairlead.cli.workspaces import settings_of
from fairlead.domain.registry import Kind
from fairlead.operations.clock import Clock
from fairlead.operations.registry import publishing as operations
from fairlead.server.installation import opened_database

_COLUMNS = ("at", "act", "publisher_id", "node_id", "workspace_id", "key_id", "subject")
_KINDS: Final = click.Choice([Kind.PUBLISHER.value, Kind.NODE.value])
_ACTS_MAX: Final = 10_000


@click.group()
def registry() -> None:
    """Ban publishers and nodes of the registry, and see who has done what to them."""


@registry.command()
@click.argument("kind", type=_KINDS)
@click.argument("id_", metavar="ID")
@data_option
def ban(kind: str, id_: str, data: str | None, database: str | None) -> None:
    """Hide a publisher with its nodes, or one node, and let nobody change it."""
    has_changed = _set_banned(kind, id_, data, database, banned=True)
    click.echo(f"Banned the {kind} {id_}." if has_changed else f"The {kind} {id_} was banned already.")


@registry.command()
@click.argument("kind", type=_KINDS)
@click.argument("id_", metavar="ID")
@data_option
def unban(kind: str, id_: str, data: str | None, database: str | None) -> None:
    """End a ban: what was hidden is shown again, unless it is deleted."""
    has_changed = _set_banned(kind, id_, data, database, banned=False)
    click.echo(f"The {kind} {id_} is not banned any more." if has_changed else f"The {kind} {id_} was not banned.")


@registry.command()
@click.option("--publisher", metavar="ID", help="Only what was done to this publisher and its nodes.")
@click.option("--limit", type=click.IntRange(1, _ACTS_MAX), default=100, show_default=True, help="How many.")
@data_option
@json_option
def acts(publisher: str | None, limit: int, data: str | None, database: str | None, as_json: bool) -> None:  # noqa: FBT001 -- click passes flags by name
    """List who has made, changed or deleted what, the last first. Bans are the operator's, and have no key."""

    async def work() -> list[dict[str, object]]:
        async with opened_database(settings_of(data, database)) as opened:
            return await operations.list_acts(opened, publisher, limit)

    rows = [with_times(row, "at") for row in asyncio.run(work())]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="Nothing was done yet.")


def _set_banned(kind: str, id_: str, data: str | None, database: str | None, *, banned: bool) -> bool:
    async def work() -> bool:
        async with opened_database(settings_of(data, database)) as opened:
            return await operations.set_banned(opened, Kind(kind), id_, Clock(), banned=banned)

    try:
        return asyncio.run(work())
    except operations.UnknownEntryError as error:
        raise click.ClickException(f"there is no {kind} with the id {id_} in the registry") from error
