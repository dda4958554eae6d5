"""`fairlead alert-channels`: where alerts about a workspace's money are sent, and which were sent."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import click

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result, print_rows, with_times
from fairlead.cli.workspace.provider_keys import read_secret
from fairlead.clock import Clock
from fairlead.domain.ledger.alerts import TARGET_CHARACTERS_MAX, ChannelKind, message_of_alert
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.operations.ledger.alerts import AlertChannels, Channel, TellingResult, ToldAlert
from fairlead.server.installation import master_secret
from fairlead.server.posting import alert_channels
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

T = TypeVar("T")

_COLUMNS: Final = ("id", "kind", "target", "created_at")
_TOLD_COLUMNS: Final = ("at", "kind", "message", "delivered")
_TOLD_MAX: Final = 10_000
_KINDS: Final = [kind.value for kind in ChannelKind]


@click.group("alert-channels")
def alert_channels_group() -> None:
    """Add, list, test and delete the channels that a workspace's alerts are sent to. Webhooks' addresses are sealed."""


@alert_channels_group.command()
@click.argument("workspace")
@click.argument("kind", type=click.Choice(_KINDS))
@click.option("--file", type=click.File("rb"), default="-", help="Where the address is; standard input when absent.")
@settings_option
@json_option
def create(workspace: str, kind: str, file: object, settings: Settings, as_json: bool) -> None:
    """Have every alert of WORKSPACE sent to a further address. A webhook's URL is often its password."""
    target = read_secret(file, "address", 4 * TARGET_CHARACTERS_MAX)
    made = _run(settings, workspace, lambda channels, id_: channels.add(id_, ChannelKind(kind), target, shell_actor()))
    print_result(_row(made), f"{made.shown} gets the alerts of {workspace} ({made.id}).", as_json=as_json)


@alert_channels_group.command("list")
@click.argument("workspace", default="default")
@settings_option
@json_option
def list_command(workspace: str, settings: Settings, as_json: bool) -> None:
    """List the channels that the alerts of WORKSPACE are sent to."""
    found = _run(settings, workspace, lambda channels, id_: channels.list_channels(id_))
    rows = [_row(one) for one in found]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="This workspace has no alert channels.")


@alert_channels_group.command()
@click.argument("workspace")
@click.argument("channel_id", metavar="CHANNEL")
@settings_option
def test(workspace: str, channel_id: str, settings: Settings) -> None:
    """Have a running server send a test to a CHANNEL of WORKSPACE; `log` shows its outcome."""
    _run(settings, workspace, lambda channels, id_: channels.test(id_, channel_id, shell_actor()))
    click.echo(f"A test is on its way; see `fairlead alert-channels log {workspace}`.")


@alert_channels_group.command()
@click.argument("workspace")
@click.argument("channel_id", metavar="CHANNEL")
@settings_option
def delete(workspace: str, channel_id: str, settings: Settings) -> None:
    """Delete a CHANNEL of WORKSPACE, by its id, with the alerts that it has yet to send."""
    _run(settings, workspace, lambda channels, id_: channels.delete(id_, channel_id, shell_actor()))
    click.echo(f"Deleted {channel_id}.")


@alert_channels_group.command()
@click.argument("workspace", default="default")
@click.option("--limit", type=click.IntRange(1, _TOLD_MAX), default=50, show_default=True, help="How many at most.")
@settings_option
@json_option
def log(workspace: str, limit: int, settings: Settings, as_json: bool) -> None:
    """List the alerts of WORKSPACE, the newest first, with the outcome of each delivery."""
    found = _run(settings, workspace, lambda channels, id_: channels.list_alerts(id_, None, limit))
    rows = [_told_row(one) for one in found]
    print_rows(rows, _TOLD_COLUMNS, as_json=as_json, empty="There was no alert yet.")


def _run(settings: Settings, workspace: str, work: Callable[[AlertChannels, str], Awaitable[T]]) -> T:
    """Do something with the channels of a workspace."""

    async def execute(database: Database) -> T:
        channels = alert_channels(settings, database, master_secret(settings, make=False), Clock())
        return await work(channels, await find_workspace(database, workspace))

    return in_database(settings, execute)


def _row(one: Channel) -> dict[str, object]:
    row = {"id": one.id, "kind": one.kind.value, "target": one.shown, "created_at": one.created_at}
    return with_times(row, "created_at")


def _told_row(told: ToldAlert) -> dict[str, object]:
    row = {
        "id": told.alert.id,
        "at": told.alert.at,
        "kind": told.alert.kind.value,
        "budget": told.budget_id,
        "message": message_of_alert(told.alert),
        "delivered": {one.shown: _outcome(one.result) for one in told.deliveries},
    }
    return with_times(row, "at")


def _outcome(result: TellingResult) -> str:
    if result.delivered_at is not None:
        return "delivered"
    answer = result.error if result.status is None else str(result.status)
    if result.gave_up_at is not None:
        return f"given up ({answer})"
    return "waiting" if answer is None else f"tried again later ({answer})"
