"""`fairlead webhooks`: the secrets that webhooks are signed with, and the deliveries of a run's webhook."""

from typing import Final

import click

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_json, print_rows, with_times
from fairlead.clock import Clock
from fairlead.domain.runs.webhooks import Try
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.accounts.webhook_secrets import WebhookSecrets, WorkspaceSecret
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.operations.runs.webhooks import DeliveryLog
from fairlead.server.installation import master_secret
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

_COLUMNS: Final = ("number", "at", "milliseconds", "status", "error")
_ENDS: Final = ("delivered_at", "gave_up_at", "next_at")


@click.group()
def webhooks() -> None:
    """Show and rotate webhook secrets, and read the log of a run's webhook."""


@webhooks.command()
@click.argument("workspace")
@click.option("--rotate", is_flag=True, help="Make another first; the one before signs along for a day.")
@settings_option
@json_option
def secret(workspace: str, rotate: bool, settings: Settings, as_json: bool) -> None:
    """Print the secret that the webhooks of WORKSPACE are signed with."""

    async def work(database: Database) -> WorkspaceSecret:
        secrets = WebhookSecrets(database, master_secret(settings, make=False), Clock())
        workspace_id = await find_workspace(database, workspace)
        return await (secrets.rotate(workspace_id, shell_actor()) if rotate else secrets.show(workspace_id))

    found = in_database(settings, work)
    if as_json:
        print_json(with_times({"secret": found.text, "rotated_at": found.rotated_at}, "rotated_at"))
    else:
        click.echo(found.text)


@webhooks.command()
@click.argument("run_id")
@settings_option
@json_option
def log(run_id: str, settings: Settings, as_json: bool) -> None:
    """Show the attempts to deliver the webhook of RUN_ID, oldest first."""
    found = in_database(settings, lambda opened: DeliveryLog(opened).of_run(run_id))
    if found is None:
        raise click.ClickException(f"no webhook of a run {run_id} is kept")
    tries = [_row(number, one) for number, one in enumerate(found.tries, 1)]
    ends = with_times({name: getattr(found.prospect, name) for name in _ENDS}, *_ENDS)
    url = found.url.partition("?")[0]  # the query of a receiver's URL is often its password
    if as_json:
        print_json({"url": url, "tries": tries, **ends})
        return
    click.echo(url)
    print_rows(tries, _COLUMNS, as_json=False, empty="It was not tried yet.")
    click.echo(_end(ends))


def _row(number: int, one: Try) -> dict[str, object]:
    row = {"number": number, "at": one.at, "milliseconds": one.milliseconds, "status": one.status, "error": one.error}
    return with_times(row, "at")


def _end(ends: dict[str, object]) -> str:
    if ends["delivered_at"] is not None:
        return f"Delivered at {ends['delivered_at']}."
    if ends["gave_up_at"] is not None:
        return f"Given up at {ends['gave_up_at']}."
    return "Its run is in progress." if ends["next_at"] is None else f"Tried next at {ends['next_at']}."
