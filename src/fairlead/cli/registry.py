"""`fairlead registry`: who may publish, and who has done what."""

from typing import Final

import click

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_rows, with_times
from fairlead.clock import Clock
from fairlead.domain.registry import Kind
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.registry import publishing as operations
from fairlead.server.settings import Settings

_COLUMNS = ("at", "act", "publisher_id", "node_id", "workspace_id", "key_id", "subject")
_KINDS: Final = click.Choice([Kind.PUBLISHER.value, Kind.NODE.value])
_ACTS_MAX: Final = 10_000


@click.group()
def registry() -> None:
    """Ban publishers and nodes of the registry, and see who has done what to them."""


@registry.command()
@click.argument("kind", type=_KINDS)
@click.argument("id_", metavar="ID")
@settings_option
def ban(kind: str, id_: str, settings: Settings) -> None:
    """Hide a publisher with its nodes, or one node, and let nobody change it."""
    has_changed = _set_banned(kind, id_, settings, banned=True)
    click.echo(f"Banned the {kind} {id_}." if has_changed else f"The {kind} {id_} was banned already.")


@registry.command()
@click.argument("kind", type=_KINDS)
@click.argument("id_", metavar="ID")
@settings_option
def unban(kind: str, id_: str, settings: Settings) -> None:
    """End a ban: what was hidden is shown again, unless it is deleted."""
    has_changed = _set_banned(kind, id_, settings, banned=False)
    click.echo(f"The {kind} {id_} is not banned any more." if has_changed else f"The {kind} {id_} was not banned.")


@registry.command()
@click.option("--publisher", metavar="ID", help="Only what was done to this publisher and its nodes.")
@click.option("--limit", type=click.IntRange(1, _ACTS_MAX), default=100, show_default=True, help="How many.")
@settings_option
@json_option
def acts(publisher: str | None, limit: int, settings: Settings, as_json: bool) -> None:
    """List who has made, changed or deleted what, the newest first. Bans are the operator's, and have no key."""
    rows = [
        with_times(row, "at")
        for row in in_database(settings, lambda opened: operations.list_acts(opened, publisher, limit))
    ]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="Nothing was done yet.")


def _set_banned(kind: str, id_: str, settings: Settings, *, banned: bool) -> bool:
    try:
        return in_database(
            settings,
            lambda opened: operations.set_banned(opened, Kind(kind), id_, Clock(), banned=banned, by=shell_actor()),
        )
    except operations.UnknownEntryError as error:
        raise click.ClickException(f"there is no {kind} with the id {id_} in the registry") from error
