"""`fairlead budgets`: what workspaces, teams, keys and models may cost."""

from collections.abc import Callable
from typing import Final, TypedDict

import click
import msgspec

from fairlead.cli.catalog import check_named_models
from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result, print_rows, with_dollars, with_times
from fairlead.clock import Clock
from fairlead.domain.catalog.identifiers import is_model_id
from fairlead.domain.days import DAY_MS, read_date, start_of
from fairlead.domain.ledger.budgets import THRESHOLDS, Budget, BudgetPeriod, BudgetScope, Weekday, additions_in_force
from fairlead.domain.ledger.money import as_dollars, from_dollars
from fairlead.domain.time_zones import minute_text, read_minute
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.operations.ledger import budgets as operations
from fairlead.operations.ledger.budgets import AdditionDraft, BudgetChanges, BudgetDraft, BudgetRecord
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

_COLUMNS: Final = (
    "id", "scope", "subject", "period", "limit", "added", "spent", "held", "resets_at", "thresholds", "is_enforced",
    "created_at",
)  # fmt: skip
_MONEY: Final = ("limit", "added", "spent", "held")
_PERIODS: Final = [period.value for period in BudgetPeriod]
_WEEKDAYS: Final = [weekday.value for weekday in Weekday]
_LISTED_MAX: Final = 10_000


def _reset_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say when periods begin."""
    for option in (
        click.option(
            "--reset-weekday",
            type=click.Choice(_WEEKDAYS),
            help="The day on which a week begins.",
        ),
        click.option("--reset-time", metavar="HH:MM", help="The time of day at which a period begins."),
        click.option("--time-zone", metavar="NAME", help="By whose clocks, such as Europe/Vienna."),
    ):
        command = option(command)
    return command


@click.group()
def budgets() -> None:
    """Make, list, change, add to and delete budgets of a workspace, its teams, keys, models and labels."""


@budgets.command()
@click.argument("workspace")
@click.argument("limit", metavar="DOLLARS")
@click.option("--team", help="Of the keys of this team, instead of the whole workspace.")
@click.option("--key", metavar="ID", help="Of one key.")
@click.option("--model", metavar="ID", help="Of the runs of one model.")
@click.option("--label", metavar="NAME=VALUE", help="Of the runs that carry a label.")
@click.option("--period", type=click.Choice(_PERIODS), default="month", help="When it is whole again.")
@_reset_options
@click.option("--thresholds", default="50,80,100", help="The percentages at which alerts are sent; empty for none.")
@click.option("--only-tell", is_flag=True, help="Let runs go on past it.")
@settings_option
@json_option
def create(
    workspace: str,
    limit: str,
    team: str | None,
    key: str | None,
    model: str | None,
    label: str | None,
    period: str,
    time_zone: str | None,
    reset_time: str | None,
    reset_weekday: str | None,
    thresholds: str,
    only_tell: bool,
    settings: Settings,
    as_json: bool,
) -> None:
    """Give WORKSPACE a budget of DOLLARS. It begins with what its period has cost so far."""
    subjects = {
        BudgetScope.TEAM: team, BudgetScope.KEY: key, BudgetScope.MODEL: model, BudgetScope.LABEL: label,
    }  # fmt: skip
    named = [(scope, subject) for scope, subject in subjects.items() if subject is not None]
    if len(named) > 1:
        raise click.UsageError("give one of --team, --key, --model and --label")
    scope, subject = named[0] if named else (BudgetScope.WORKSPACE, "")
    terms = BudgetChanges(**_reset(time_zone, reset_time, reset_weekday))
    budget = terms.of(Budget(from_dollars(limit), BudgetPeriod(period)))
    draft = BudgetDraft(scope, subject, budget, _percents(thresholds), not only_tell)

    async def work(database: Database) -> BudgetRecord:
        workspace_id = await find_workspace(database, workspace)
        named = [model] if model is not None and is_model_id(model) else []
        await check_named_models(settings, database, workspace_id, "model", named)
        return await operations.create_budget(database, workspace_id, draft, shell_actor(), Clock())

    made = in_database(settings, work)
    whose = f"the {scope.value} {subject}" if subject else workspace
    sentence = f"The budget {made.id} of {whose} is {as_dollars(made.budget.limit)} dollars ({budget.period_text})."
    print_result(_row(made), sentence, as_json=as_json)


@budgets.command("list")
@click.argument("workspace", default="default")
@settings_option
@json_option
def list_command(workspace: str, settings: Settings, as_json: bool) -> None:
    """List the budgets of WORKSPACE: what is spent in their periods, and what is held."""

    async def work(database: Database) -> list[BudgetRecord]:
        workspace_id = await find_workspace(database, workspace)
        return await operations.list_budgets(database, workspace_id, Clock(), None, _LISTED_MAX)

    rows = [_row(one) for one in in_database(settings, work)]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="This workspace has no budgets.")


@budgets.command("set")
@click.argument("workspace")
@click.argument("budget_id", metavar="BUDGET")
@click.option("--limit", metavar="DOLLARS", help="What may be spent in a period.")
@click.option("--period", type=click.Choice(_PERIODS), help="When it is whole again.")
@_reset_options
@click.option("--thresholds", help="The percentages at which alerts are sent; empty for none.")
@click.option("--enforce/--only-tell", "is_enforced", default=None, help="Whether runs past it are refused.")
@settings_option
def set_command(
    workspace: str,
    budget_id: str,
    limit: str | None,
    period: str | None,
    time_zone: str | None,
    reset_time: str | None,
    reset_weekday: str | None,
    thresholds: str | None,
    is_enforced: bool | None,
    settings: Settings,
) -> None:
    """Change a BUDGET of WORKSPACE, by its id. Runs that were admitted go on."""
    changes = BudgetChanges(
        limit=None if limit is None else from_dollars(limit),
        period=None if period is None else BudgetPeriod(period),
        thresholds=None if thresholds is None else _percents(thresholds),
        is_enforced=is_enforced,
        **_reset(time_zone, reset_time, reset_weekday),
    )

    async def work(database: Database) -> BudgetRecord:
        workspace_id = await find_workspace(database, workspace)
        return await operations.change_budget(database, workspace_id, budget_id, changes, shell_actor(), Clock())

    changed = in_database(settings, work).budget
    click.echo(f"The budget {budget_id} is {as_dollars(changed.limit)} dollars ({changed.period_text}).")


@budgets.command()
@click.argument("workspace")
@click.argument("budget_id", metavar="BUDGET")
@settings_option
def delete(workspace: str, budget_id: str, settings: Settings) -> None:
    """Delete a BUDGET of WORKSPACE, by its id."""

    async def work(database: Database) -> None:
        workspace_id = await find_workspace(database, workspace)
        await operations.delete_budget(database, workspace_id, budget_id, shell_actor(), Clock())

    in_database(settings, work)
    click.echo(f"Deleted {budget_id}.")


@budgets.command()
@click.argument("workspace")
@click.argument("budget_id", metavar="BUDGET")
@click.argument("amount", metavar="DOLLARS")
@click.option("--until", metavar="DATE", required=True, help="The day, such as 2026-12-24, with which it ends in UTC.")
@click.option("--reason", metavar="TEXT", required=True, help="Why; it is shown with the addition.")
@settings_option
def add(workspace: str, budget_id: str, amount: str, until: str, reason: str, settings: Settings) -> None:
    """Add DOLLARS to a BUDGET of WORKSPACE for some days."""
    draft = AdditionDraft(from_dollars(amount), start_of(read_date("--until", until)) + DAY_MS, reason)

    async def work(database: Database) -> BudgetRecord:
        workspace_id = await find_workspace(database, workspace)
        return await operations.add_to_budget(database, workspace_id, budget_id, draft, shell_actor(), Clock())

    changed = in_database(settings, work)
    limit = as_dollars(changed.limit_at(Clock().now_ms()))
    click.echo(f"The budget {budget_id} is {limit} dollars now, with the addition {changed.additions[-1].id}.")


@budgets.command()
@click.argument("workspace")
@click.argument("budget_id", metavar="BUDGET")
@click.argument("addition_id", metavar="ADDITION")
@settings_option
def withdraw(workspace: str, budget_id: str, addition_id: str, settings: Settings) -> None:
    """End an ADDITION to a BUDGET of WORKSPACE before its time."""

    async def work(database: Database) -> None:
        workspace_id = await find_workspace(database, workspace)
        await operations.withdraw_addition(database, workspace_id, budget_id, addition_id, shell_actor(), Clock())

    in_database(settings, work)
    click.echo(f"Ended {addition_id}.")


def _row(one: BudgetRecord) -> dict[str, object]:
    now = Clock().now_ms()
    row = {
        "id": one.id,
        "scope": one.scope.value,
        "subject": one.subject or None,
        "period": one.budget.period.value,
        "time_zone": one.budget.reset.time_zone,
        "reset_time": minute_text(one.budget.reset.minute),
        "reset_weekday": one.budget.weekday,
        "resets_at": one.resets_at,
        "limit": one.budget.limit,
        "added": one.limit_at(now) - one.budget.limit,
        "spent": one.spent,
        "held": one.held,
        "thresholds": list(one.thresholds),
        "is_enforced": one.is_enforced,
        "additions": [
            with_times(with_dollars(msgspec.structs.asdict(each), "amount"), "until", "created_at")
            for each in additions_in_force(one.additions, now)
        ],
        "created_at": one.created_at,
    }
    return with_times(with_dollars(row, *_MONEY), "created_at", "resets_at")


class _Reset(TypedDict):
    time_zone: str | None
    reset_minute: int | None
    reset_weekday: Weekday | None


def _reset(time_zone: str | None, time: str | None, weekday: str | None) -> _Reset:
    minute = None if time is None else read_minute(time)
    return _Reset(time_zone=time_zone, reset_minute=minute, reset_weekday=None if weekday is None else Weekday(weekday))


def _percents(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise click.BadParameter(
            f"must be whole numbers such as {','.join(map(str, THRESHOLDS))}", param_hint="--thresholds"
        ) from None
