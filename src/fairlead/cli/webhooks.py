"""`fairlead webhooks`: what receivers verify with, and what became of a run's webhook."""

import asyncio
from collections.abc import Coroutine
from typing import Final, TypeVar

import click

from fairlead.cli.output import data_option, json_option, print_json, print_rows, with_times
from fairlead.cli.workspaces import settings_of
from fairlead.domain.faults import FaultError
from fairlead.domain.runs.webhooks import Delivery, Try
from fairlead.operations.accounts.webhook_secrets import WebhookSecrets, WorkspaceSecret
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.operations.clock import Clock
from fairlead.operations.runs.webhooks import DeliveryLog
from fairlead.server.installation import master_secret, opened_database

T = TypeVar("T")

_COLUMNS: Final = ("number", "at", "milliseconds", "status", "error")
_ENDS: Final = ("delivered_at", "gave_up_at", "next_at")


@click.group()
def webhooks() -> None:
    """Show and rotate webhook secrets, and read the log of a run's webhook."""


@webhooks.command()
@click.argument("workspace")
@click.option("--rotate", is_flag=True, help="Make another first; the one before signs along for a day.")
@data_option
@json_option
def secret(workspace: str, rotate: bool, data: str | None, database: str | None, as_json: bool) -> None:  # noqa: FBT001 -- click passes flags by name
    """Print the secret that the webhooks of WORKSPACE are signed with."""
    settings = settings_of(data, database)

    async def work() -> WorkspaceSecret:
        async with opened_database(settings) as opened:
            secrets = WebhookSecrets(opened, master_secret(settings, make=False), Clock())
            workspace_id = await find_workspace(opened, workspace)
            return await (secrets.rotate(workspace_id) if rotate else secrets.show(workspace_id))

    found = _run(work())
    if as_json:
        print_json(with_times({"secret": found.text, "rotated_at": found.rotated_at}, "rotated_at"))
    else:
        click.echo(found.text)


@webhooks.command()
@click.argument("run_id")
@data_option
@json_option
def log(run_id: str, data: str | None, database: str | None, as_json: bool) -> None:  # noqa: FBT001 -- click passes flags by name
    """Show the tries of the webhook of RUN_ID, oldest first."""

    async def work() -> Delivery | None:
        async with opened_database(settings_of(data, database)) as opened:
            return await DeliveryLog(opened).of_run(run_id)

    found = _run(work())
    if found is None:
        raise click.ClickException(f"no webhook of a run {run_id} is kept")
    tries = [_row(number, one) for number, one in enumerate(found.tries, 1)]
    ends = with_times({name: getattr(found.prospect, name) for name in _ENDS}, *_ENDS)
    url = found.url.partition("?")[0]  # a receiver's query is often its password
    if as_json:
        print_json({"url": url, "tries": tries, **ends})
        return
    click.echo(url)
    print_rows(tries, _COLUMNS, as_json=False, empty="It was not tried yet.")
    click.echo(_end(ends))


def _run(work: Coroutine[object, object, T]) -> T:
    """Do something; what a caller would be told as a fault is a line here."""
    try:
        return asyncio.run(work)
    except FaultError as error:
        raise click.ClickException(getattr(error.fault, "detail", "") or type(error.fault).__name__) from error


def _row(number: int, one: Try) -> dict[str, object]:
    row = {"number": number, "at": one.at, "milliseconds": one.milliseconds, "status": one.status, "error": one.error}
    return with_times(row, "at")


def _end(ends: dict[str, object]) -> str:
    if ends["delivered_at"] is not None:
        return f"Delivered at {ends['delivered_at']}."
    if ends["gave_up_at"] is not None:
        return f"Given up at {ends['gave_up_at']}."
    return "Its run goes on." if ends["next_at"] is None else f"Tried next at {ends['next_at']}."
