"""`fairlead deployments`: addresses that workflows are sent to, and their releases."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import click
import msgspec

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.output import json_option, print_result, print_rows, with_times
from fairlead.clock import Clock
from fairlead.domain.accounts.token_issuers import TokenKind
from fairlead.domain.deployments import (
    BadDeployment,
    Deployment,
    DeploymentFault,
    DeploymentFaultError,
    DeploymentNotFound,
    Release,
    TooManyDeployments,
    title_of,
)
from fairlead.operations.accounts.audit_log import shell_actor
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.operations.deployments import Deployments
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

T = TypeVar("T")

_COLUMNS: Final = ("id", "state", "serving", "last_release", "packs", "pool", "reason")
_RELEASE_COLUMNS: Final = ("version", "state", "packs", "nodes", "reason", "created_at")
_workspace = click.option(
    "--workspace", default="default", show_default=True, metavar="NAME", help="Whose: a workspace's name or id."
)
_packs = click.option(
    "--pack", "packs", multiple=True, metavar="NAME", help="A node pack to have, again for another; all if absent."
)
_token_kinds = click.option(
    "--token-kind",
    "token_kinds",
    multiple=True,
    type=click.Choice([kind.value for kind in TokenKind]),
    help="A kind of tokens that opens it, again for another; all if absent. API keys always do.",
)
_no_tokens = click.option("--no-tokens", is_flag=True, help="Take API keys alone.")
_pool = click.option(
    "--pool", metavar="NAME", help="The pool of its jobs, before all other rules; those decide if absent."
)
_no_packs = click.option("--no-packs", is_flag=True, help="Have no node packs, only the nodes of the engine itself.")


@click.group()
def deployments() -> None:
    """Make, change, release, stop and delete deployments: addresses with node packs of their own.

    A server prepares a release by starting an engine with its node packs. A deployment is ready when one is prepared.
    """


@deployments.command()
@click.argument("name")
@_workspace
@_packs
@_no_packs
@_token_kinds
@_no_tokens
@_pool
@settings_option
@json_option
def create(
    name: str,
    workspace: str,
    packs: tuple[str, ...],
    token_kinds: tuple[str, ...],
    pool: str | None,
    settings: Settings,
    **flags: bool,
) -> None:
    """Make a deployment whose id begins with NAME, and its first release."""
    if token_kinds and flags["no_tokens"]:
        raise click.UsageError("name kinds of tokens, or ask for none of them")
    wanted = _packs_of(packs, flags["no_packs"])
    kinds = tuple(TokenKind(kind) for kind in token_kinds) if token_kinds or flags["no_tokens"] else None
    made = _run(settings, workspace, lambda all_, id_: all_.create(id_, name, wanted, shell_actor(), kinds, pool))
    print_result(
        _row(made, as_json=True),
        f"Made {made.id}. It is ready when a server has prepared its release.",
        as_json=flags["as_json"],
    )


@deployments.command("set")
@click.argument("id_", metavar="ID")
@_workspace
@click.option("--pool", metavar="NAME", help="The pool of the jobs that it takes from now on.")
@click.option("--no-pool", is_flag=True, help="No pool of its own: other rules decide.")
@settings_option
@json_option
def set_command(id_: str, workspace: str, pool: str | None, settings: Settings, no_pool: bool, as_json: bool) -> None:
    """Change the pool of a deployment. Jobs that it has taken stay in theirs."""
    if (pool is not None) == no_pool:
        raise click.UsageError("name a pool with --pool, or ask for none with --no-pool")
    changed = _run(settings, workspace, lambda all_, owner: all_.change_pool(owner, id_, pool, shell_actor()))
    where = "where other rules say" if changed.pool is None else f"in the pool {changed.pool}"
    print_result(_row(changed, as_json=True), f"Jobs of {id_} are executed {where}.", as_json=as_json)


@deployments.command("list")
@_workspace
@settings_option
@json_option
def list_command(workspace: str, settings: Settings, as_json: bool) -> None:
    """List the deployments of a workspace, the newest first."""
    found = _run(settings, workspace, lambda all_, id_: all_.all(id_))
    print_rows(
        [_row(one, as_json=as_json) for one in found], _COLUMNS, as_json=as_json, empty="There are no deployments."
    )


@deployments.command()
@click.argument("id_", metavar="ID")
@_workspace
@settings_option
@json_option
def releases(id_: str, workspace: str, settings: Settings, as_json: bool) -> None:
    """List the releases of a deployment, the newest first."""
    found = _run(settings, workspace, lambda all_, owner: all_.releases(owner, id_))
    print_rows(
        [_row(one, as_json=as_json) for one in found], _RELEASE_COLUMNS, as_json=as_json, empty="There are no releases."
    )


@deployments.command()
@click.argument("id_", metavar="ID")
@_workspace
@_packs
@_no_packs
@settings_option
@json_option
def release(
    id_: str, workspace: str, packs: tuple[str, ...], settings: Settings, no_packs: bool, as_json: bool
) -> None:
    """Make another release of a deployment, which serves once it is prepared. A stopped deployment is started."""
    wanted = _packs_of(packs, no_packs)
    made = _run(settings, workspace, lambda all_, owner: all_.publish(owner, id_, wanted, shell_actor()))
    print_result(
        _row(made, as_json=True),
        f"Made release {made.version} of {id_}. It serves when a server has prepared it.",
        as_json=as_json,
    )


@deployments.command()
@click.argument("id_", metavar="ID")
@_workspace
@settings_option
@json_option
def stop(id_: str, workspace: str, settings: Settings, as_json: bool) -> None:
    """Have a deployment take no more jobs. Those it has go on."""
    stopped = _run(settings, workspace, lambda all_, owner: all_.stop(owner, id_, shell_actor()))
    print_result(_row(stopped, as_json=True), f"Stopped {id_}.", as_json=as_json)


@deployments.command()
@click.argument("id_", metavar="ID")
@_workspace
@settings_option
@json_option
def start(id_: str, workspace: str, settings: Settings, as_json: bool) -> None:
    """Have a stopped deployment made ready again."""
    started = _run(settings, workspace, lambda all_, owner: all_.start(owner, id_, shell_actor()))
    print_result(_row(started, as_json=True), f"{id_} is {started.state.value.replace('_', ' ')}.", as_json=as_json)


@deployments.command()
@click.argument("id_", metavar="ID")
@_workspace
@settings_option
def delete(id_: str, workspace: str, settings: Settings) -> None:
    """Delete a deployment. Its jobs that wait fail, and those that are executed are stopped."""
    _run(settings, workspace, lambda all_, owner: all_.delete(owner, id_, shell_actor()))
    click.echo(f"Deleted {id_}.")


def _packs_of(packs: tuple[str, ...], no_packs: bool) -> tuple[str, ...] | None:
    if packs and no_packs:
        raise click.UsageError("name packs, or ask for none of them")
    return packs if packs or no_packs else None


def _run(settings: Settings, workspace: str, work: Callable[[Deployments, str], Awaitable[T]]) -> T:
    """Do something with the deployments of a workspace. A fault is printed as one line."""

    async def execute(database: Database) -> T:
        return await work(Deployments(database, Clock(), lambda _: None), await find_workspace(database, workspace))

    try:
        return in_database(settings, execute)
    except DeploymentFaultError as error:
        raise click.ClickException(_words(error.fault)) from error


def _words(fault: DeploymentFault) -> str:
    match fault:
        case DeploymentNotFound(deployment_id):
            return f"there is no deployment {deployment_id} in this workspace"
        case BadDeployment(detail, _):
            return detail
        case TooManyDeployments(what, limit):
            return f"there can be {limit} {what}"
        case _:  # the others are about jobs that are sent
            raise AssertionError(fault)


def _row(one: Deployment | Release, *, as_json: bool) -> dict[str, object]:
    """A deployment or a release. All node packs are `all` for people, and null for programs."""
    row = msgspec.structs.asdict(one)
    if one.packs is not None:
        row["packs"] = [title_of(name) for name in one.packs]
    elif not as_json:
        row["packs"] = "all"
    return with_times(row, *(name for name in ("created_at", "updated_at", "settled_at") if name in row))
