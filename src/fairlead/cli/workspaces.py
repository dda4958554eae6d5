"""`fairlead workspaces`: who pays."""

from collections.abc import Awaitable, Callable
from typing import Any

import click

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result, print_rows, with_dollars, with_times
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import ORGANIZATION_CHARACTERS_MAX, Billing, Gate, is_organization_id
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.jobs.subscriptions import first_of
from fairlead.domain.ledger.markups import read_percent
from fairlead.domain.ledger.money import as_dollars, from_dollars
from fairlead.domain.runs.replays import KEY_MAX, key_id
from fairlead.operations.accounts import workspaces as operations
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.server.installation import tiers_of, workspace_grace_ms
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

_COLUMNS = (
    "name",
    "billing",
    "balance",
    "held",
    "cap",
    "in_flight",
    "in_flight_limit",
    "waiting",
    "parked",
    "subscription",
    "jobs_limit",
    "jobs_active",
    "jobs_parked",
    "commitment_limit",
    "models",
    "providers",
    "gates",
    "organization_id",
    "sso_required",
    "markup",
)
_NONE = "none"
_LIMIT_MAX = 10**12


@click.group()
def workspaces() -> None:
    """Make, list, credit, suspend and delete workspaces.

    A prepaid workspace runs on its balance; a postpaid one may owe up to its cap.
    """


_RIGHTS = (
    click.option("--cap", metavar="DOLLARS", help="What a postpaid workspace may owe; 100 at first."),
    click.option("--in-flight-limit", type=int, help="Runs at a time; -1 for no limit, 0 to block; 40 at first."),
    click.option(
        "--commitment-limit", metavar="DOLLARS", help="What runs in flight may be held for in all; `none` at first."
    ),
    click.option("--tier", type=int, metavar="N", help="Take both limits from the tiers of the settings, 1 the first."),
    click.option(
        "--subscription",
        metavar="NAME",
        help="Its tier of parallel jobs: free, standard, creator, pro; pro at first. See FAIRLEAD_SUBSCRIPTIONS.",
    ),
    click.option("--models", help="Allowed models, separated by commas; `*` at the end is a prefix; `all` allows all."),
    click.option("--providers", help="Allowed providers, separated by commas; `all` allows all."),
    click.option(
        "--markup",
        metavar="PERCENT",
        help="Added to list prices in place of FAIRLEAD_MARKUP; negative is a discount; `default` for the settings'.",
    ),
    click.option(
        "--gate",
        "gates",
        multiple=True,
        metavar="NAME=on|off",
        help="A rollout switch: router, estimate or provider:NAME; all are on at first.",
    ),
)


def _rights(command: Any) -> Any:
    for option in reversed(_RIGHTS):
        command = option(command)
    return organization_options(command)


def organization_options(command: Any) -> Any:
    """Add --organization and --sso-required to a command that makes or changes what an organization may hold."""
    command = click.option(
        "--sso-required/--no-sso-required",
        default=None,
        help="Whether the serverless jobs API refuses keys here: their accounts must use single sign-on.",
    )(command)
    return click.option(
        "--organization", metavar="ID", help="The organization that holds it, named in refusals; `none` for none."
    )(command)


def organization_changes(organization: str | None, *, sso_required: bool | None) -> dict[str, Any]:
    """The options that were given, as the operations take them."""
    changes: dict[str, object] = {} if sso_required is None else {"sso_required": sso_required}
    if organization is not None:
        if not is_organization_id(organization):
            wanted = f"must be 1 to {ORGANIZATION_CHARACTERS_MAX} characters, without spaces"
            raise click.BadParameter(wanted, param_hint="--organization")
        changes["organization_id"] = None if organization == _NONE else organization
    return changes


@workspaces.command()
@click.argument("name")
@click.option(
    "--billing",
    type=click.Choice(["prepaid", "postpaid"]),
    default="postpaid",
    show_default=True,
    help="Whether it runs on its balance, or may owe up to its cap.",
)
@_rights
@settings_option
@json_option
def create(name: str, billing: str, settings: Settings, as_json: bool, **rights: Any) -> None:
    """Make a workspace."""
    rights["subscription"] = rights["subscription"] or first_of(settings.subscriptions)[0]
    command = operations.NewWorkspace(name=name, billing=Billing(billing), **_changes(settings, **rights))

    workspace_id = in_database(
        settings, lambda opened: operations.create_workspace(opened, command, Clock(), shell_actor())
    )
    print_result(
        {"id": workspace_id, "name": name, "billing": billing},
        f"Made the {billing} workspace {name} ({workspace_id}).",
        as_json=as_json,
    )


@workspaces.command()
@click.argument("workspace")
@_rights
@settings_option
def change(workspace: str, settings: Settings, **rights: Any) -> None:
    """Change what a workspace may do."""
    changes = _changes(settings, **rights)

    in_database(
        settings, lambda opened: operations.change_workspace(opened, workspace, changes, Clock(), shell_actor())
    )
    click.echo(f"Changed {workspace}.")


@workspaces.command("list")
@settings_option
@json_option
def list_command(settings: Settings, as_json: bool) -> None:
    """List workspaces with their figures, in dollars."""
    money = ("balance", "held", "cap", "commitment_limit")
    rows = [
        with_times(with_dollars(row, *money), "created_at") for row in in_database(settings, operations.list_workspaces)
    ]
    print_rows(rows, _COLUMNS, as_json=as_json, empty="There are no workspaces.")


@workspaces.command()
@click.argument("workspace")
@click.argument("dollars")
@click.option("--reason", default="payment", show_default=True, help="Why, for the ledger.")
@click.option("--reference", help="What is paid, such as the number of an invoice: it is booked once.")
@settings_option
@json_option
def credit(workspace: str, dollars: str, reason: str, reference: str | None, settings: Settings, as_json: bool) -> None:
    """Book DOLLARS into a workspace; a negative amount (after `--`) corrects it."""
    amount = from_dollars(dollars)
    if reference is not None and not 1 <= len(reference) <= KEY_MAX:
        raise click.BadParameter(f"must have 1 to {KEY_MAX} characters", param_hint="--reference")

    async def work(opened: Database) -> operations.Booked:
        id_ = await operations.find_workspace(opened, workspace)
        key = None if reference is None else key_id(id_, reference)
        new = operations.NewCredit(amount, reason[:200], key)
        return await operations.credit(opened, id_, new, Clock(), shell_actor())

    booked = in_database(settings, work)
    balance = as_dollars(booked.balance)
    done = "Booked" if booked.is_new else "Booked before:"
    print_result(
        {"workspace": workspace, "balance": balance, "is_new": booked.is_new},
        f"{done} {as_dollars(amount)} dollars into {workspace}; its balance is {balance}.",
        as_json=as_json,
    )


@workspaces.command()
@click.argument("workspace")
@settings_option
def suspend(workspace: str, settings: Settings) -> None:
    """Stop WORKSPACE from beginning work; work that has begun continues to its end."""
    _change_state(settings, workspace, operations.suspend_workspace)
    click.echo(f"{workspace} is suspended.")


@workspaces.command()
@click.argument("workspace")
@settings_option
def resume(workspace: str, settings: Settings) -> None:
    """Let a suspended WORKSPACE begin work again."""
    _change_state(settings, workspace, operations.resume_workspace)
    click.echo(f"{workspace} may begin work again.")


@workspaces.command()
@click.argument("workspace")
@settings_option
@json_option
def delete(workspace: str, settings: Settings, as_json: bool) -> None:
    """Delete WORKSPACE after a grace period, in which it begins no work and `restore` takes the deletion back."""
    grace_ms = workspace_grace_ms(settings)
    done = _change_state(
        settings, workspace, lambda opened, id_, *by: operations.delete_workspace(opened, id_, grace_ms, *by)
    )
    row = with_times({"name": done.name, "delete_at": done.delete_at}, "delete_at")
    print_result(row, f"{done.name} ends for good at {row['delete_at']}.", as_json=as_json)


@workspaces.command()
@click.argument("workspace")
@settings_option
def restore(workspace: str, settings: Settings) -> None:
    """Take the deletion of WORKSPACE back, before its grace period ends."""
    _change_state(settings, workspace, operations.restore_workspace)
    click.echo(f"{workspace} is restored.")


def _change_state(
    settings: Settings,
    workspace: str,
    change: Callable[[Database, str, Clock, Actor], Awaitable[operations.WorkspaceRecord]],
) -> operations.WorkspaceRecord:
    async def work(database: Database) -> operations.WorkspaceRecord:
        return await change(database, await operations.find_workspace(database, workspace), Clock(), shell_actor())

    return in_database(settings, work)


_STORAGE_COLUMNS = ("name", "bytes", "bytes_limit", "files", "files_limit", "own_limits")
_USUAL = "default"
_MIB = 2**20


@workspaces.command()
@settings_option
@json_option
def storage(settings: Settings, as_json: bool) -> None:
    """List what workspaces keep in files, and may keep; a limit of 0 is none."""
    print_rows(
        in_database(settings, lambda opened: operations.list_storage(opened, settings.storage_limits())),
        _STORAGE_COLUMNS,
        as_json=as_json,
        empty="There are no workspaces.",
    )


@workspaces.command()
@click.argument("workspace")
@click.option("--mib", metavar="N", help="What it may keep, in MiB; `none`, or `default` for the setting's.")
@click.option("--files", metavar="N", help="The files it may keep; `none`, or `default` for the setting's.")
@settings_option
def limit_storage(workspace: str, mib: str | None, files: str | None, settings: Settings) -> None:
    """Limit what a workspace keeps in files. What it keeps already stays."""
    changes: dict[str, int | None] = {}
    if mib is not None:
        changes["bytes_limit"] = _limit(mib, "--mib", _MIB)
    if files is not None:
        changes["files_limit"] = _limit(files, "--files", 1)

    in_database(
        settings,
        lambda opened: operations.change_workspace(opened, workspace, {}, Clock(), shell_actor(), changes),
    )
    click.echo(f"Changed {workspace}.")


def _limit(text: str, option: str, unit: int) -> int | None:
    """A limit as it is stored: 0 for no limit, None for that of the settings."""
    if text == _USUAL:
        return None
    if text == _NONE:
        return 0
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _LIMIT_MAX):
        raise click.BadParameter(f"must be 1 to {_LIMIT_MAX}, `none` or `default`", param_hint=option)
    return int(text) * unit


def _changes(
    settings: Settings,
    *,
    cap: str | None,
    in_flight_limit: int | None,
    commitment_limit: str | None,
    tier: int | None,
    subscription: str | None,
    models: str | None,
    providers: str | None,
    markup: str | None,
    gates: tuple[str, ...],
    organization: str | None,
    sso_required: bool | None,
) -> dict[str, Any]:
    """The rights that were given, as the operation takes them; a limit that is given wins over that of the tier."""
    changes = organization_changes(organization, sso_required=sso_required)
    tiers = tiers_of(settings)
    changes |= {} if tier is None else _check("--tier", lambda: tiers.limits_of(tier))
    if cap is not None:
        changes["cap"] = from_dollars(cap)
    if in_flight_limit is not None:
        if in_flight_limit < -1:
            raise click.BadParameter("must be -1, 0 or more", param_hint="--in-flight-limit")
        changes["in_flight_limit"] = in_flight_limit
    if commitment_limit is not None:
        changes["commitment_limit"] = None if commitment_limit == "none" else from_dollars(commitment_limit)
    if subscription is not None:
        changes |= _check("--subscription", lambda: tiers.subscription(subscription))
    if models is not None:
        changes["models"] = names_of(models)
    if providers is not None:
        changes["providers"] = names_of(providers)
    if markup is not None:
        changes["markup"] = None if markup == _USUAL else _percent(markup)
    if gates:
        changes["gates"] = dict(_gate(text) for text in gates)
    return changes


def _percent(text: str) -> str:
    try:
        return f"{read_percent(text):f}"
    except ValueError as error:
        raise click.BadParameter(f"{error}, or `{_USUAL}`", param_hint="--markup") from error


def _check(option: str, find: Callable[[], dict[str, object]]) -> dict[str, object]:
    """The limit of a tier that was given, or what is wrong with the value."""
    try:
        return find()
    except operations.BadChangeError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def names_of(text: str) -> tuple[str, ...] | None:
    """A comma-separated list; None for `all`."""
    return None if text == "all" else tuple(name.strip() for name in text.split(",") if name.strip())


def _gate(text: str) -> tuple[str, Gate]:
    name, _, state = text.partition("=")
    if state not in ("on", "off") or not (name in ("router", "estimate") or name.startswith("provider:")):
        raise click.BadParameter("write router=on, estimate=off, provider:NAME=on or the like", param_hint="--gate")
    return name, Gate(state)
