"""`fairlead keys`: API keys."""

import re
import sys
from collections.abc import Callable
from typing import Final

import click
import msgspec

from fairlead.cli.catalog import check_named_models
from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result, print_rows, with_dollars, with_times
from fairlead.cli.workspaces import names_of, organization_changes, organization_options
from fairlead.clock import Clock
from fairlead.domain.accounts.key_terms import (
    DAYS_MAX,
    OVERLAP_HOURS,
    OVERLAP_HOURS_MAX,
    KeyTerms,
    Network,
    end_of,
    read_networks,
)
from fairlead.domain.ledger.budgets import TEAM_CHARACTERS_MAX, Budget, BudgetPeriod, changed_budget, is_team
from fairlead.domain.ledger.money import as_dollars, from_dollars
from fairlead.operations.accounts import keys as operations
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.accounts.keys import KeyChanges
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

_COLUMNS = (
    "id", "workspace", "hint", "label", "team", "models", "budget", "budget_period", "spent", "held",
    "organization_id", "sso_required", "networks", "created_at", "used_at", "expires_at", "revoked_at",
)  # fmt: skip
_MONEY: Final = ("budget", "spent", "held")
_NONE: Final = "none"
_PERIODS: Final = [period.value for period in BudgetPeriod]
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_READ_IT: Final = "-"
"""The argument that stands for a key on standard input."""
_KEY_CHARACTERS_MAX: Final = 1_000
_DAYS_DIGITS: Final = 6


class _KeyId(click.ParamType[str]):
    """The id of a key; with `or_read` also `-`, for a key on standard input."""

    name = "key id"

    def __init__(self, *, or_read: bool = False) -> None:
        self._or_read = or_read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The id as it was given. Anything else is refused without being repeated, because it may be the key."""
        text = str(value)
        if _ID.fullmatch(text) or (self._or_read and text == _READ_IT):
            return text
        raise click.BadParameter(
            "this is not the id of a key; `fairlead keys list` shows them. If it is a key itself, it is in the history "
            "of your shell now: delete it there, and revoke the key with `fairlead keys revoke -`, which reads it from "
            "standard input.",
            ctx,
            param,
        )


days_option: Final = click.option(
    "--expires-in-days", type=click.IntRange(1, DAYS_MAX), help="After how many days it ends. [default: never]"
)
networks_option: Final = click.option(
    "--networks", help="From where it may be used: addresses and networks, with commas. [default: anywhere]"
)
overlap_option: Final = click.option(
    "--overlap-hours",
    type=click.IntRange(0, OVERLAP_HOURS_MAX),
    default=OVERLAP_HOURS,
    show_default=True,
    help="How long the secret of before is good.",
)


def _read_key() -> str:
    """The key on standard input, hidden where a person types it."""
    typed = click.prompt("Key", hide_input=True) if sys.stdin.isatty() else sys.stdin.read(_KEY_CHARACTERS_MAX + 1)
    return str(typed).strip()


@click.group()
def keys() -> None:
    """Make, list, change, rotate and revoke API keys. A key is shown once; only its digest is kept."""


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
@click.option("--team", help="The team whose budgets its runs count against.")
@organization_options
@days_option
@networks_option
@settings_option
@json_option
def create(
    workspace: str,
    label: str,
    models: str,
    budget: str | None,
    budget_period: str | None,
    team: str | None,
    organization: str | None,
    sso_required: bool | None,
    expires_in_days: int | None,
    networks: str | None,
    settings: Settings,
    as_json: bool,
) -> None:
    """Make a key for WORKSPACE and show it, this once."""
    if budget is None and budget_period is not None:
        raise click.UsageError("--budget-period needs --budget")
    bound = None if budget is None else changed_budget(None, _limit(budget), _period(budget_period))
    governed = organization_changes(organization, sso_required=sso_required)
    in_team = None if team is None else _team(team)
    terms = KeyTerms(end_of(expires_in_days, Clock().now_ms()), _networks(networks))

    async def work(opened: Database) -> operations.IssuedKey:
        allowed = names_of(models)
        await check_named_models(settings, opened, await find_workspace(opened, workspace), "models", allowed or ())
        return await operations.issue_key(
            opened,
            workspace,
            label[:100],
            allowed,
            settings.key_prefix,
            Clock(),
            bound,
            team=in_team,
            terms=terms,
            by=shell_actor(),
            **governed,
        )

    issued = in_database(settings, work)
    print_result({"id": issued.id, "key": issued.text, "workspace": workspace}, issued.text, as_json=as_json)


@keys.command("set")
@click.argument("key_id", type=_KeyId())
@click.option("--budget", metavar="DOLLARS", help="What its runs may cost in a period; `none` for no bound.")
@click.option("--budget-period", type=click.Choice(_PERIODS), help="When the budget is whole again, in UTC.")
@click.option("--team", help="The team whose budgets its runs count against; `none` for none.")
@organization_options
@click.option("--expires-in-days", metavar="DAYS", help="After how many days from now it ends; `none` for never.")
@click.option("--networks", help="From where it may be used, with commas; `none` for anywhere.")
@settings_option
def set_command(
    key_id: str,
    budget: str | None,
    budget_period: str | None,
    team: str | None,
    organization: str | None,
    sso_required: bool | None,
    expires_in_days: str | None,
    networks: str | None,
    settings: Settings,
) -> None:
    """Change the budget, team, organization, end or networks of a key, by its id. Runs that were admitted go on."""
    governed = {
        **organization_changes(organization, sso_required=sso_required),
        **_terms_changes(expires_in_days, networks),
    }
    if budget is None and budget_period is None and team is None and not governed:
        raise click.UsageError("give one of the options that change a key; --help lists them")
    given = {} if team is None else {"team": None if team == _NONE else _team(team)}
    changes = KeyChanges(governed, **given, budget=_budget_change(budget, budget_period))
    bound = in_database(settings, lambda opened: operations.change_key(opened, key_id, changes, Clock(), shell_actor()))
    if changes.budget is not None:
        told = "no budget now" if bound is None else f"{as_dollars(bound.limit)} dollars ({bound.period})"
        click.echo(f"{key_id} has {told}." if bound is None else f"The budget of {key_id} is {told}.")
    if changes.team is not msgspec.UNSET:
        click.echo(
            f"{key_id} is in no team now." if changes.team is None else f"{key_id} is in the team {changes.team}."
        )
    if governed:
        click.echo(f"Changed {key_id}.")


def _budget_change(budget: str | None, budget_period: str | None) -> Callable[[Budget | None], Budget | None] | None:
    """The change of a budget that the options ask for; None where there is none."""
    if budget is None and budget_period is None:
        return None
    if budget == _NONE and budget_period is not None:
        raise click.UsageError("there is no period where there is no budget")
    limit = None if budget in (None, _NONE) else _limit(budget)
    return lambda before: None if budget == _NONE else changed_budget(before, limit, _period(budget_period))


def _terms_changes(days: str | None, networks: str | None) -> dict[str, object]:
    """What is to be changed of the terms of a key, by the options."""
    changes: dict[str, object] = {}
    if days is not None:
        changes["expires_at"] = None if days == _NONE else end_of(_days(days), Clock().now_ms())
    if networks is not None:
        changes["networks"] = () if networks == _NONE else _networks(networks)
    return changes


def _days(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:_DAYS_DIGITS]) <= DAYS_MAX):
        raise click.BadParameter(f"must be 1 to {DAYS_MAX}, or none", param_hint="--expires-in-days")
    return int(text[:_DAYS_DIGITS])


def _networks(text: str | None) -> tuple[Network, ...]:
    return () if text is None else read_networks(text.split(","))


def _team(text: str) -> str:
    if not is_team(text):
        raise click.BadParameter(
            f"must have 1 to {TEAM_CHARACTERS_MAX} characters, without spaces around them", param_hint="--team"
        )
    return text


@keys.command("list")
@settings_option
@json_option
def list_command(settings: Settings, as_json: bool) -> None:
    """List keys without their secrets: what each may spend, has spent in this period, and has held."""
    rows = [
        with_times(with_dollars(row, *_MONEY), "created_at", "used_at", "expires_at", "previous_until", "revoked_at")
        for row in in_database(settings, lambda opened: operations.list_keys(opened, Clock()))
    ]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="There are no keys.")


@keys.command()
@click.argument("key_id", type=_KeyId())
@overlap_option
@settings_option
@json_option
def rotate(key_id: str, overlap_hours: int, settings: Settings, as_json: bool) -> None:
    """Give a key another secret, by its id, and show it, this once; the one before is good for some more hours."""
    issued = in_database(
        settings,
        lambda opened: operations.rotate_key(
            opened, key_id, settings.key_prefix, overlap_hours, Clock(), shell_actor()
        ),
    )
    print_result({"id": issued.id, "key": issued.text}, issued.text, as_json=as_json)


@keys.command()
@click.argument("key_id", type=_KeyId(or_read=True))
@settings_option
def revoke(key_id: str, settings: Settings) -> None:
    """Revoke a key by its id, for good. No further run is admitted with it.

    With - in place of the id, the key itself is read from standard input.
    """
    text = _read_key() if key_id == _READ_IT else None

    async def work(database: Database) -> str | None:
        found = key_id if text is None else await operations.find_key(database, text)
        is_revoked = found is not None and await operations.revoke_key(database, found, Clock(), shell_actor())
        return found if is_revoked else None

    revoked = in_database(settings, work)
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
