"""Members: created, given roles, changed, deleted; and the first operator of an installation.

Every change is written together with its entry in the audit log, under the name of the given actor.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.rights import SERVER, Actor, Role, is_email, is_name
from fairlead.operations.accounts.keys import IssuedKey
from fairlead.operations.accounts.personal_keys import new_key
from fairlead.storage.accounts import members
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.accounts.members import (
    EmailTakenError,
    LastOperatorError,
    Member,
    NewMember,
    UnknownMemberError,
    UnprovenAddressError,
    WorkspaceMember,
)
from fairlead.storage.accounts.personal_keys import create_first_operator
from fairlead.storage.db.database import Database

__all__ = [
    "EmailTakenError", "LastOperatorError", "Member", "UnknownMemberError", "UnprovenAddressError",
    "WorkspaceMember",
]  # fmt: skip

_OPERATOR_NAME: Final = "operator"


class BadMemberError(Exception):
    """A name or an e-mail address is not valid for a member; `field` says which of the two."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class NewPerson(msgspec.Struct, frozen=True):
    """The name and the e-mail address of a person."""

    name: str
    email: str
    is_operator: bool = False

    def check(self) -> "NewPerson":
        """The same person with the address in lower case; BadMemberError."""
        check_name(self.name)
        check_email(self.email)
        return msgspec.structs.replace(self, email=self.email.lower())


async def bootstrap_operator(database: Database, clock: Clock) -> IssuedKey | None:
    """Create the first operator of an installation without members and return their key; None if there is a member."""
    if await database.read(members.has_members):
        return None
    now = clock.now_ms()
    new = NewMember(new_id(), _OPERATOR_NAME, None, now, is_operator=True)
    issued, key = new_key(new.id, "first operator key", now)
    create = partial(create_first_operator, new=new, key=key)
    act = Act("member.created", target=new.name, detail={"is_operator": True})
    # Another server may have started at the same moment and created one first.
    return issued if await database.write(with_entry(create, SERVER, lambda _: act, now)) else None


async def create_member(
    database: Database, person: NewPerson, by: Actor, clock: Clock, *, unproven: bool = False
) -> Member:
    """Create a member without roles and keys; BadMemberError, EmailTakenError.

    Nobody has proven the address yet: UnprovenAddressError for an operator, unless `unproven` allows it.
    """
    person, now = person.check(), clock.now_ms()
    if person.is_operator and not unproven:
        raise UnprovenAddressError(person.email)
    new = NewMember(new_id(), person.name, person.email, now, person.is_operator)
    act = Act("member.created", target=person.email, detail={"name": person.name, "is_operator": person.is_operator})
    await database.write(with_entry(lambda c: members.create_member(c, new), by, lambda _: act, now))
    return await find_member(database, new.id)


async def find_member(database: Database, id_or_email: str) -> Member:
    """A member by id or e-mail address; UnknownMemberError."""
    return await database.read(lambda c: members.find_member(c, id_or_email))


async def list_members(database: Database, after: str | None, limit: int, *, unproven: bool = False) -> list[Member]:
    """Up to `limit` members with their roles, the oldest first, after a given member; or only the unproven ones."""
    return await database.read(lambda c: members.list_members(c, after, limit, unproven=unproven))


async def change_member(
    database: Database,
    id_or_email: str,
    changes: Mapping[str, object],
    by: Actor,
    clock: Clock,
    *,
    unproven: bool = False,
) -> Member:
    """Change `name`, `email` or `is_operator`; the last operator must stay one.

    BadMemberError, UnknownMemberError, EmailTakenError, LastOperatorError; UnprovenAddressError for a new operator
    whose address nobody has proven, unless `unproven` allows it.
    """
    if "name" in changes:
        check_name(str(changes["name"]))
    if "email" in changes:
        check_email(str(changes["email"]))
        changes = {**changes, "email": str(changes["email"]).lower()}
    work = partial(members.change_member, id_or_email=id_or_email, changes=changes, unproven=unproven)
    return await database.write(
        with_entry(work, by, lambda found: _act_on("member.changed", found, detail=changes), clock.now_ms())
    )


async def delete_member(database: Database, id_or_email: str, by: Actor, clock: Clock) -> None:
    """Delete a member with its roles, keys and sessions; UnknownMemberError, LastOperatorError."""
    work = partial(members.delete_member, id_or_email=id_or_email)
    await database.write(with_entry(work, by, lambda found: _act_on("member.deleted", found), clock.now_ms()))


async def grant_role(
    database: Database,
    workspace_id: str,
    id_or_email: str,
    role: Role,
    by: Actor,
    clock: Clock,
    *,
    unproven: bool = False,
) -> WorkspaceMember:
    """Give a member a role in a workspace at once, without an invitation; UnknownMemberError.

    UnprovenAddressError where nobody has proven the member's address, unless `unproven` allows it.
    """
    now = clock.now_ms()
    work = partial(
        members.grant_role, workspace_id=workspace_id, id_or_email=id_or_email, role=role, now=now, unproven=unproven
    )
    detail = {"role": role}
    found = await database.write(
        with_entry(work, by, lambda found: _act_on("membership.created", found, workspace_id, detail), now)
    )
    return WorkspaceMember(found, role)


async def list_workspace_members(
    database: Database, workspace_id: str, after: str | None, limit: int
) -> list[WorkspaceMember]:
    """Up to `limit` members of a workspace with their roles in it, the oldest first, after a given member."""
    return await database.read(lambda c: members.list_workspace_members(c, workspace_id, after, limit))


async def change_role(
    database: Database,
    workspace_id: str,
    member_id: str,
    role: Role,
    by: Actor,
    clock: Clock,
    *,
    unproven: bool = False,
) -> WorkspaceMember:
    """Change the role of a member in a workspace; UnknownMemberError.

    UnprovenAddressError where that is more for an address that nobody has proven, unless `unproven` allows it.
    """

    def describe(done: tuple[Member, Role]) -> Act:
        found, before = done
        return _act_on("membership.changed", found, workspace_id, {"role": role, "before": before})

    work = partial(members.change_role, workspace_id=workspace_id, member_id=member_id, role=role, unproven=unproven)
    member, _ = await database.write(with_entry(work, by, describe, clock.now_ms()))
    return WorkspaceMember(msgspec.structs.replace(member, memberships=()), role)


async def remove_from_workspace(database: Database, workspace_id: str, member_id: str, by: Actor, clock: Clock) -> None:
    """Remove a member from a workspace; UnknownMemberError. They stay a member of the installation."""
    work = partial(members.remove_role, workspace_id=workspace_id, member_id=member_id)
    await database.write(
        with_entry(work, by, lambda found: _act_on("membership.deleted", found, workspace_id), clock.now_ms())
    )


def check_name(name: str) -> None:
    """Refuse what cannot name a member; BadMemberError."""
    if not is_name(name):
        raise BadMemberError("name", "A name has 1 to 100 printable characters, without spaces at either end.")


def check_email(email: str) -> None:
    """Refuse what is no e-mail address; BadMemberError."""
    if not is_email(email):
        raise BadMemberError("email", "This is not an e-mail address.")


def _act_on(
    action: str, found: Member, workspace_id: str | None = None, detail: Mapping[str, object] | None = None
) -> Act:
    return Act(action, workspace_id, found.email or found.name, detail or {})
