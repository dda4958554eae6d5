"""`fairlead rate-limits`: how many requests a minute keys may make, and models are asked for."""

from typing import Final

import click

from fairlead.cli.catalog import check_named_models
from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result, print_rows, with_times
from fairlead.clock import Clock
from fairlead.domain.catalog.identifiers import is_model_id
from fairlead.operations.accounts import rate_limits as operations
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.accounts.rate_limits import LIMITS_MAX, PER_MINUTE_MAX, LimitRecord, Scope
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

_COLUMNS: Final = ("id", "scope", "subject", "per_minute", "created_at")


@click.group("rate-limits")
def rate_limits() -> None:
    """Set, list and delete limits of requests of a workspace's keys and models."""


@rate_limits.command("set")
@click.argument("workspace")
@click.argument("per_minute", type=click.IntRange(1, PER_MINUTE_MAX))
@click.option("--key", metavar="ID", help="Of the requests made with one key.")
@click.option("--model", metavar="ID", help="Of the runs of one model.")
@settings_option
@json_option
def set_command(
    workspace: str, per_minute: int, key: str | None, model: str | None, settings: Settings, as_json: bool
) -> None:
    """Allow PER_MINUTE requests of a key or a model in WORKSPACE, replacing the limit it has."""
    subject = key or model
    if subject is None or (key is not None and model is not None):
        raise click.UsageError("give one of --key and --model")

    async def work(database: Database) -> LimitRecord:
        workspace_id, scope = await find_workspace(database, workspace), _scope(key)
        named = [model] if model is not None and is_model_id(model) else []
        await check_named_models(settings, database, workspace_id, "model", named)
        return await operations.set_limit(database, workspace_id, scope, subject, per_minute, shell_actor(), Clock())

    made = in_database(settings, work)
    sentence = f"The limit {made.id} of the {made.scope} {made.subject} is {made.per_minute} requests a minute."
    print_result(_row(made), sentence, as_json=as_json)


@rate_limits.command("list")
@click.argument("workspace", default="default")
@settings_option
@json_option
def list_command(workspace: str, settings: Settings, as_json: bool) -> None:
    """List the limits of WORKSPACE: those of its keys, then those of models."""

    async def work(database: Database) -> list[LimitRecord]:
        workspace_id = await find_workspace(database, workspace)
        return await operations.list_limits(database, workspace_id, None, LIMITS_MAX)

    rows = [_row(one) for one in in_database(settings, work)]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="This workspace has no limits of requests.")


@rate_limits.command()
@click.argument("workspace")
@click.argument("limit_id", metavar="LIMIT")
@settings_option
def delete(workspace: str, limit_id: str, settings: Settings) -> None:
    """Delete a LIMIT of WORKSPACE, by its id; only the quota of the workspace applies again."""

    async def work(database: Database) -> None:
        workspace_id = await find_workspace(database, workspace)
        await operations.delete_limit(database, workspace_id, limit_id, shell_actor(), Clock())

    in_database(settings, work)
    click.echo(f"Deleted {limit_id}.")


def _scope(key: str | None) -> Scope:
    return "model" if key is None else "key"


def _row(one: LimitRecord) -> dict[str, object]:
    row = {
        "id": one.id,
        "scope": one.scope,
        "subject": one.subject,
        "per_minute": one.per_minute,
        "created_at": one.created_at,
    }
    return with_times(row, "created_at")
