"""`fairlead members`: the people who sign in, their roles in workspaces and their keys; and who has done what."""

from typing import Final

import click
import msgspec

from fairlead.cli.database import in_database, settings_option
from fairlead.cli.keys import days_option, networks_option, overlap_option
from fairlead.cli.output import json_option, print_result, print_rows, with_times
from fairlead.clock import Clock
from fairlead.domain.accounts.key_terms import (
    PersonalTerms,
    Scope,
    end_of,
    networks_text,
    read_networks,
    scopes_text,
)
from fairlead.domain.accounts.rights import Role
from fairlead.operations.accounts import audit_log, personal_keys
from fairlead.operations.accounts import members as operations
from fairlead.operations.accounts.audit_log import AuditEntry, AuditFilter, shell_actor
from fairlead.operations.accounts.invitations import IssuedInvitation
from fairlead.operations.accounts.keys import IssuedKey
from fairlead.operations.accounts.members import Member, NewPerson
from fairlead.operations.accounts.personal_keys import PersonalKey
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.server.posting import invitations_of, mailer_of
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database

_COLUMNS: Final = ("id", "name", "email", "is_operator", "is_unproven", "roles", "created_at")
_KEY_COLUMNS: Final = ("id", "hint", "label", "scopes", "workspace", "networks", "created_at", "used_at", "expires_at")
_INVITATION_COLUMNS: Final = ("id", "email", "role", "is_mailed", "inviter", "created_at", "expires_at")
_LOG_COLUMNS: Final = ("at", "actor", "action", "workspace", "target", "detail", "address")
_LISTED_MAX: Final = 10_000
_SCOPES: Final = click.Choice([scope.value for scope in Scope])
_ROLES: Final = click.Choice([Role.OWNER.value, Role.MEMBER.value, Role.VIEWER.value])
_NOBODY: Final = "There are no members; `fairlead serve` makes an operator when it starts."


_unproven_option: Final = click.option(
    "--unproven", is_flag=True, help="Also where nobody has proven to hold the member's address."
)


@click.group()
def members() -> None:
    """Make, change and delete members, give them roles and keys, and see who has done what.

    A member is named by its id or its e-mail address.
    """


@members.command("list")
@click.option("--unproven", is_flag=True, help="Only those whose address nobody has proven to hold.")
@settings_option
@json_option
def list_command(*, unproven: bool, settings: Settings, as_json: bool) -> None:
    """List members with their roles, by age."""
    found = in_database(settings, lambda opened: operations.list_members(opened, None, _LISTED_MAX, unproven=unproven))
    print_rows([_row(one) for one in found], _COLUMNS, as_json=as_json, empty=_NOBODY)


@members.command()
@click.argument("email")
@click.option("--name", required=True, help="What the person is called.")
@click.option("--operator", is_flag=True, help="Make the member an operator of the installation.")
@_unproven_option
@settings_option
@json_option
def create(email: str, name: str, *, operator: bool, unproven: bool, settings: Settings, as_json: bool) -> None:
    """Make a member with a key, which is shown this once."""

    async def work(database: Database) -> IssuedKey:
        by, clock = shell_actor(), Clock()
        made = await operations.create_member(database, NewPerson(name, email, operator), by, clock, unproven=unproven)
        return await personal_keys.issue_personal_key(database, made.id, "first key", by, clock)

    _print_key(in_database(settings, work), as_json=as_json)


@members.command("set")
@click.argument("member")
@click.option("--name", help="What the person is called.")
@click.option("--email", help="Another e-mail address.")
@click.option("--operator/--no-operator", default=None, help="Whether it operates the installation.")
@_unproven_option
@settings_option
def set_command(
    member: str, name: str | None, email: str | None, *, operator: bool | None, unproven: bool, settings: Settings
) -> None:
    """Change a member. The last operator stays one."""
    given = {"name": name, "email": email, "is_operator": operator}
    changes = {field: value for field, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("give --name, --email or --operator")
    in_database(
        settings,
        lambda opened: operations.change_member(opened, member, changes, shell_actor(), Clock(), unproven=unproven),
    )
    click.echo(f"Changed {member}.")


@members.command()
@click.argument("member")
@settings_option
def delete(member: str, settings: Settings) -> None:
    """Delete a member with its roles, keys and sessions. The last operator cannot be deleted."""
    in_database(settings, lambda opened: operations.delete_member(opened, member, shell_actor(), Clock()))
    click.echo(f"Deleted {member}.")


@members.command()
@click.argument("member")
@click.option("--label", default="", help="What the key is for.")
@days_option
@networks_option
@click.option(
    "--scope", "scopes", type=_SCOPES, multiple=True, help="What it may do; all unless given. May be repeated."
)
@click.option("--workspace", metavar="NAME", help="The only workspace it is for.")
@settings_option
@json_option
def key(
    member: str,
    label: str,
    expires_in_days: int | None,
    networks: str | None,
    scopes: tuple[str, ...],
    workspace: str | None,
    settings: Settings,
    as_json: bool,
) -> None:
    """Make another key for a member and show it, this once."""
    within = () if networks is None else read_networks(networks.split(","))
    narrowed = tuple(sorted(map(Scope, set(scopes)))) or None

    async def work(database: Database) -> IssuedKey:
        by, clock = shell_actor(), Clock()
        only = None if workspace is None else await find_workspace(database, workspace)
        terms = PersonalTerms(end_of(expires_in_days, clock.now_ms()), within, narrowed, only)
        return await personal_keys.issue_personal_key(database, member, label[:100], by, clock, terms)

    _print_key(in_database(settings, work), as_json=as_json)


@members.command()
@click.argument("member")
@settings_option
@json_option
def keys(member: str, settings: Settings, as_json: bool) -> None:
    """List a member's keys, without their secrets."""

    async def work(database: Database) -> list[dict[str, object]]:
        found = await operations.find_member(database, member)
        return [_key_row(one) for one in await personal_keys.list_personal_keys(database, found.id)]

    print_rows(in_database(settings, work), _KEY_COLUMNS, as_json=as_json, empty="There are no keys.")


@members.command()
@click.argument("member")
@click.argument("key_id")
@overlap_option
@settings_option
@json_option
def rotate(member: str, key_id: str, overlap_hours: int, settings: Settings, as_json: bool) -> None:
    """Give a member's key another secret and show it, this once; the one before is good for some more hours."""

    async def work(database: Database) -> IssuedKey:
        found = await operations.find_member(database, member)
        return await personal_keys.rotate_personal_key(
            database, found.id, key_id, overlap_hours, shell_actor(), Clock()
        )

    _print_key(in_database(settings, work), as_json=as_json)


@members.command()
@click.argument("member")
@click.argument("key_id")
@settings_option
def revoke(member: str, key_id: str, settings: Settings) -> None:
    """Revoke a member's key by its id, and end the sessions that were begun with it."""

    async def work(database: Database) -> None:
        found = await operations.find_member(database, member)
        await personal_keys.delete_personal_key(database, found.id, key_id, shell_actor(), Clock())

    in_database(settings, work)
    click.echo(f"Revoked {key_id}.")


@members.command()
@click.argument("workspace")
@click.argument("email")
@click.option("--role", type=_ROLES, default=Role.MEMBER.value, show_default=True, help="What it is to be there.")
@click.option("--by-hand", is_flag=True, help="Print the link, also where it could be mailed.")
@settings_option
@json_option
def invite(workspace: str, email: str, role: str, *, by_hand: bool, settings: Settings, as_json: bool) -> None:
    """Invite a person to WORKSPACE, by a link that can be accepted once; it is printed unless it is mailed."""

    async def work(database: Database) -> IssuedInvitation:
        invitations = invitations_of(settings, database, Clock(), mailer_of(settings))
        found = await find_workspace(database, workspace)
        base_url = settings.public_base_url or f"http://localhost:{settings.port}"
        return await invitations.invite(
            (found, workspace), email, Role(role), shell_actor(), base_url=base_url, by_hand=by_hand
        )

    issued = in_database(settings, work)
    words = f"Mailed to {email}." if issued.link is None else issued.link
    print_result({"id": issued.record.id, "link": issued.link}, words, as_json=as_json)


@members.command()
@click.argument("workspace")
@settings_option
@json_option
def invitations(workspace: str, settings: Settings, as_json: bool) -> None:
    """List the invitations to WORKSPACE that can be accepted."""

    async def work(database: Database) -> list[dict[str, object]]:
        known = invitations_of(settings, database, Clock(), None)
        found = await known.list_open(await find_workspace(database, workspace), None, _LISTED_MAX)
        return [with_times(msgspec.structs.asdict(one), "created_at", "expires_at") for one in found]

    print_rows(in_database(settings, work), _INVITATION_COLUMNS, as_json=as_json, empty="There are no invitations.")


@members.command()
@click.argument("workspace")
@click.argument("invitation_id")
@settings_option
def withdraw(workspace: str, invitation_id: str, settings: Settings) -> None:
    """Withdraw an invitation to WORKSPACE, by its id: its link leads nowhere from now on."""

    async def work(database: Database) -> None:
        known = invitations_of(settings, database, Clock(), None)
        await known.withdraw(await find_workspace(database, workspace), invitation_id, shell_actor())

    in_database(settings, work)
    click.echo(f"Withdrew {invitation_id}.")


@members.command()
@click.argument("workspace")
@click.argument("member")
@click.option("--role", type=_ROLES, default=Role.MEMBER.value, show_default=True, help="What it is there.")
@_unproven_option
@settings_option
def grant(workspace: str, member: str, role: str, *, unproven: bool, settings: Settings) -> None:
    """Give a member a role in WORKSPACE at once, without an invitation."""

    async def work(database: Database) -> None:
        workspace_id = await find_workspace(database, workspace)
        await operations.grant_role(
            database, workspace_id, member, Role(role), shell_actor(), Clock(), unproven=unproven
        )

    in_database(settings, work)
    click.echo(f"{member} is {role} of {workspace} now.")


@members.command()
@click.argument("workspace")
@click.argument("member")
@settings_option
def remove(workspace: str, member: str, settings: Settings) -> None:
    """Take a member's role in WORKSPACE away."""

    async def work(database: Database) -> None:
        workspace_id = await find_workspace(database, workspace)
        found = await operations.find_member(database, member)
        await operations.remove_from_workspace(database, workspace_id, found.id, shell_actor(), Clock())

    in_database(settings, work)
    click.echo(f"{member} has no role in {workspace} any more.")


@members.command()
@click.option("--workspace", metavar="NAME", help="Only what was done in this workspace.")
@click.option("--limit", type=click.IntRange(1, _LISTED_MAX), default=100, show_default=True, help="How many.")
@settings_option
@json_option
def log(workspace: str | None, limit: int, settings: Settings, as_json: bool) -> None:
    """List who has done what, when and from where, the newest first."""

    async def work(database: Database) -> list[dict[str, object]]:
        workspace_id = None if workspace is None else await find_workspace(database, workspace)
        page = await audit_log.list_entries(database, AuditFilter(workspace_id), limit)
        return [_log_row(entry) for entry in page.entries]

    print_rows(in_database(settings, work), _LOG_COLUMNS, as_json=as_json, empty="Nothing was done yet.")


def _row(member: Member) -> dict[str, object]:
    roles = {one.workspace: one.role.value for one in member.memberships}
    row = {"id": member.id, "name": member.name, "email": member.email, "is_operator": member.is_operator}
    row["is_unproven"] = member.is_unproven
    return with_times({**row, "roles": roles, "created_at": member.created_at}, "created_at")


def _key_row(key: PersonalKey) -> dict[str, object]:
    row = {
        "id": key.id, "hint": key.hint, "label": key.label, "workspace": key.workspace,
        "scopes": scopes_text(key.terms.scopes), "networks": networks_text(key.terms.networks),
        "is_of_session": key.is_of_session, "created_at": key.created_at, "used_at": key.used_at,
        "expires_at": key.terms.expires_at, "previous_until": key.previous_until,
    }  # fmt: skip
    return with_times(row, "created_at", "used_at", "expires_at", "previous_until")


def _log_row(entry: AuditEntry) -> dict[str, object]:
    row = {
        "at": entry.at, "actor": f"{entry.actor.kind.value} {entry.actor.name}", "action": entry.act.action,
        "workspace": entry.workspace, "target": entry.act.target, "detail": dict(entry.act.detail),
        "address": entry.actor.address,
    }  # fmt: skip
    return with_times(row, "at")


def _print_key(issued: IssuedKey, *, as_json: bool) -> None:
    print_result({"id": issued.id, "key": issued.text}, issued.text, as_json=as_json)
