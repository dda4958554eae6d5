"""`fairlead keys`: API keys."""

import asyncio
from collections.abc import Mapping
from typing import Final

import click

from fairlead.cli.key_ids import READ_IT, KeyId, read_key
from fairlead.cli.output import data_option, json_option, print_json, print_rows, with_dollars, with_times
from fairlead.cli.workspaces import names_of, organization_changes, organization_options, settings_of
from fairlead.domain.ledger.budgets import Budget, BudgetPeriod, changed_budget
from fairlead.domain.ledger.money import as_dollars, from_dollars
from fairlead.operations.accounts import keys as operations
from fairlead.operations.clock import Clock
from fairlead.server.installation import opened_database
from fairlead.server.settings import Settings

_COLUMNS = (
    "id", "workspace", "hint", "label", "models", "budget", "budget_period", "spent", "held",
    "organization_id", "sso_required", "created_at", "revoked_at",
)  # fmt: skip
_MONEY: Final = ("budget", "spent", "held")
_NONE: Final = "none"
_PERIODS: Final = [period.value for period in BudgetPeriod]


@click.group()
def keys() -> None:
    """Make, list, change and revoke API keys. A key is shown once; only its digest is kept."""


@keys.command()
@click.argument("workspace")
@click.option("--label", default="", help="What the key is for.")
@click.option(
    "--models", default="all", help="Allowed models, separated by commas; `*` at the end is a prefix; `all` allows all."
)
@click.option("--budget", metavar="DOLLARS", help="What its runs may cost in a period. [default: no bound]")
@click.option(
    "--budget-period",
    type=click.Choice(_PERIODS),
    help="When the budget is whole again, in UTC: with the day, the month, or never. [default: month]",
)
@organization_options
@data_option
@json_option
def create(
    workspace: str,
    label: str,
    models: str,
    budget: str | None,
    budget_period: str | None,
    organization: str | None,
    sso_required: bool | None,  # noqa: FBT001 -- click passes flags by name
    data: str | None,
    database: str | None,
    as_json: bool,  # noqa: FBT001 -- same
) -> None:
    """Make a key for WORKSPACE and show it, this once."""
    settings = settings_of(data, database)
    if budget is None and budget_period is not None:
        raise click.UsageError("--budget-period needs --budget")
    bound = None if budget is None else changed_budget(None, _limit(budget), _period(budget_period))
    governed = organization_changes(organization, sso_required=sso_required)

    async def work() -> operations.IssuedKey:
        async with opened_database(settings) as opened:
            return await operations.issue_key(
                opened, workspace, label[:100], names_of(models), settings.key_prefix, Clock(), bound, **governed
            )

    issued = asyncio.run(work())
    if as_json:
        print_json({"id": issued.id, "key": issued.text, "workspace": workspace})
    else:
        click.echo(issued.text)


@keys.command("set")
@click.argument("key_id", type=KeyId())
@click.option("--budget", metavar="DOLLARS", help="What its runs may cost in a period; `none` for no bound.")
@click.option("--budget-period", type=click.Choice(_PERIODS), help="When the budget is whole again, in UTC.")
@organization_options
@data_option
def set_command(
    key_id: str,
    budget: str | None,
    budget_period: str | None,
    organization: str | None,
    sso_required: bool | None,  # noqa: FBT001 -- click passes flags by name
    data: str | None,
    database: str | None,
) -> None:
    """Change the budget of a key or the organization of its account, by the key's id. Runs that were admitted go on."""
    governed = organization_changes(organization, sso_required=sso_required)
    if budget is None and budget_period is None and not governed:
        raise click.UsageError("give --budget, --budget-period, --organization or --sso-required")
    settings = settings_of(data, database)
    if budget is not None or budget_period is not None:
        _set_budget(settings, key_id, budget, budget_period)
    if governed:
        _set_organization(settings, key_id, governed)


def _set_budget(settings: Settings, key_id: str, budget: str | None, budget_period: str | None) -> None:
    if budget == _NONE and budget_period is not None:
        raise click.UsageError("there is no period where there is no budget")
    limit = None if budget in (None, _NONE) else _limit(budget)

    def change(before: Budget | None) -> Budget | None:
        return None if budget == _NONE else changed_budget(before, limit, _period(budget_period))

    async def work() -> Budget | None:
        async with opened_database(settings) as opened:
            return await operations.change_budget(opened, key_id, change)

    bound = asyncio.run(work())
    if bound is None:
        click.echo(f"{key_id} has no budget now.")
    else:
        click.echo(f"The budget of {key_id} is {as_dollars(bound.limit)} dollars ({bound.period}).")


def _set_organization(settings: Settings, key_id: str, changes: Mapping[str, object]) -> None:
    async def work() -> None:
        async with opened_database(settings) as opened:
            await operations.change_key(opened, key_id, changes)

    asyncio.run(work())
    click.echo(f"Changed {key_id}.")


@keys.command("list")
@data_option
@json_option
def list_command(data: str | None, database: str | None, as_json: bool) -> None:  # noqa: FBT001 -- click passes flags by name
    """List keys, without their secrets: what each may spend, what it has spent in this period, what is held for it."""

    async def work() -> list[dict[str, object]]:
        async with opened_database(settings_of(data, database)) as opened:
            return await operations.list_keys(opened, Clock())

    rows = [with_times(with_dollars(row, *_MONEY), "created_at", "revoked_at") for row in asyncio.run(work())]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="There are no keys.")


@keys.command()
@click.argument("key_id", type=KeyId(or_read=True))
@data_option
def revoke(key_id: str, data: str | None, database: str | None) -> None:
    """Revoke a key by its id, for good. No further run is admitted with it.

    With - in the place of the id, the key itself is read from standard input.
    """
    text = read_key() if key_id == READ_IT else None

    async def work() -> str | None:
        async with opened_database(settings_of(data, database)) as opened:
            found = key_id if text is None else await operations.find_key(opened, text)
            is_revoked = found is not None and await operations.revoke_key(opened, found, Clock())
            return found if is_revoked else None

    revoked = asyncio.run(work())
    if revoked is None:
        which = "that is this one" if text is not None else f"with the id {key_id}"
        raise click.ClickException(f"there is no living key {which}; `fairlead keys list` shows them")
    click.echo(f"Revoked {revoked}.")


def _limit(dollars: str) -> int:
    amount = from_dollars(dollars)
    if amount < 0:
        raise click.BadParameter("must not be negative", param_hint="--budget")
    return amount


def _period(text: str | None) -> BudgetPeriod | None:
    return None if text is None else BudgetPeriod(text)
