"""Members: people with their roles in workspaces."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import Connection, RowMapping, Select, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from fairlead.domain.accounts.rights import Membership, Principal, Role, is_more
from fairlead.storage.accounts.key_secrets import forget_uses
from fairlead.storage.db.member_tables import invitations, members, memberships, personal_keys, sessions
from fairlead.storage.db.statements import insert_into
from fairlead.storage.db.tables import workspaces


class EmailTakenError(Exception):
    """A member has this e-mail address already."""


class UnknownMemberError(Exception):
    """No member has this id or e-mail address, or none in this workspace."""


class LastOperatorError(Exception):
    """The installation would have no operator left."""


class UnprovenAddressError(Exception):
    """Power was to be given to an address that nobody has proven, without saying so (T-04)."""


class NewMember(msgspec.Struct, frozen=True):
    """A person to be made a member. The e-mail address is in lower case."""

    id: str
    name: str
    email: str | None
    created_at: int
    is_operator: bool = False
    proven_at: int | None = None


class Member(msgspec.Struct, frozen=True):
    """A member as others may see it; `has_single_sign_on` once it has signed in by OpenID Connect.

    One that `is_unproven` has an address that nobody has proven to hold: whoever has its keys may be somebody else.
    """

    id: str
    name: str
    email: str | None
    is_operator: bool
    has_single_sign_on: bool
    created_at: int
    is_unproven: bool = False
    memberships: tuple[Membership, ...] = ()


class WorkspaceMember(msgspec.Struct, frozen=True):
    """A member with the role that it has in one workspace."""

    member: Member
    role: Role


class Revoked(msgspec.Struct, frozen=True):
    """How many keys and sessions of a member were revoked."""

    keys: int
    sessions: int


class SignedIn(msgspec.Struct, frozen=True):
    """Who has signed in at a provider, None for nobody; and what was revoked where the member was bound just now."""

    principal: Principal | None
    revoked: Revoked | None = None


def create_member(connection: Connection, new: NewMember) -> None:
    """Add a member without any role; EmailTakenError."""
    try:
        connection.execute(insert(members).values(msgspec.structs.asdict(new)))
    except IntegrityError as error:
        raise EmailTakenError(new.email) from error


def has_members(connection: Connection) -> bool:
    """Whether there is any member."""
    return connection.execute(select(members.c.id).limit(1)).first() is not None


def find_member(connection: Connection, id_or_email: str) -> Member:
    """A member by id or e-mail address, with all roles; UnknownMemberError."""
    matches = (members.c.id == id_or_email) | (members.c.email == id_or_email.lower())
    row = connection.execute(_MEMBERS.where(matches)).mappings().first()
    if row is None:
        raise UnknownMemberError(id_or_email)
    return _member(row, _roles(connection, [row["id"]]))


def list_members(connection: Connection, after: str | None, limit: int, *, unproven: bool = False) -> list[Member]:
    """Up to `limit` members with their roles, by age, behind the one with an id; or only those who are unproven."""
    found = _MEMBERS.order_by(members.c.id).limit(limit)
    if unproven:
        found = found.where(_IS_UNPROVEN)
    rows = connection.execute(found if after is None else found.where(members.c.id > after)).mappings().all()
    roles = _roles(connection, [row["id"] for row in rows])
    return [_member(row, roles) for row in rows]


def list_workspace_members(
    connection: Connection, workspace_id: str, after: str | None, limit: int
) -> list[WorkspaceMember]:
    """Up to `limit` members of a workspace, by age, after the one with an id, without their other roles."""
    found = (
        _MEMBERS.add_columns(memberships.c.role)
        .join(memberships, memberships.c.member_id == members.c.id)
        .where(memberships.c.workspace_id == workspace_id)
        .order_by(members.c.id)
        .limit(limit)
    )
    rows = connection.execute(found if after is None else found.where(members.c.id > after)).mappings()
    return [WorkspaceMember(_member(row, {}), Role(row["role"])) for row in rows]


def change_member(
    connection: Connection, id_or_email: str, changes: Mapping[str, object], *, unproven: bool = False
) -> Member:
    """Change name, e-mail address, `is_operator` or subject; another address has to be proven again.

    UnknownMemberError, EmailTakenError, LastOperatorError; UnprovenAddressError where an address that nobody has proven
    would become an operator's, and `unproven` does not allow that.
    """
    found = find_member(connection, id_or_email)
    email = changes.get("email", found.email)
    if changes.get("is_operator") is False:
        _refuse_last_operator(connection, found.id)
    elif changes.get("is_operator") and not found.is_operator and not unproven:
        _refuse_unproven(
            found if email == found.email else msgspec.structs.replace(found, email=email, is_unproven=True)
        )
    if not changes:
        return found
    values = {**changes, **({} if email == found.email else {"proven_at": None})}
    try:
        connection.execute(update(members).where(members.c.id == found.id).values(**values))
    except IntegrityError as error:
        raise EmailTakenError(email) from error
    return find_member(connection, found.id)


def delete_member(connection: Connection, id_or_email: str) -> Member:
    """Delete a member with its roles, keys, sessions and invitations; UnknownMemberError, LastOperatorError."""
    found = find_member(connection, id_or_email)
    _refuse_last_operator(connection, found.id)
    _revoke_all(connection, found.id)
    connection.execute(delete(memberships).where(memberships.c.member_id == found.id))
    connection.execute(delete(members).where(members.c.id == found.id))
    return found


def prove(connection: Connection, member_id: str, now: int) -> Revoked:
    """Note that the holder of a member's address has proven it just now, and revoke what others may have made (T-04).

    Every key, session and open invitation of before is deleted: they may be of somebody who was never the holder.
    """
    connection.execute(update(members).where(members.c.id == member_id).values(proven_at=now))
    return _revoke_all(connection, member_id)


def grant_role(
    connection: Connection, workspace_id: str, id_or_email: str, role: Role, now: int, *, unproven: bool = False
) -> Member:
    """Give a member a role in a workspace at once; UnknownMemberError, UnprovenAddressError."""
    found = find_member(connection, id_or_email)
    if not unproven:
        _refuse_unproven(found)
    set_role(connection, workspace_id, found.id, role, now)
    return find_member(connection, found.id)


def set_role(connection: Connection, workspace_id: str, member_id: str, role: Role, now: int) -> None:
    """Give a member a role in a workspace, in place of the one before."""
    row = insert_into(connection, memberships).values(
        workspace_id=workspace_id, member_id=member_id, role=role, created_at=now
    )
    key = [memberships.c.workspace_id, memberships.c.member_id]
    connection.execute(row.on_conflict_do_update(index_elements=key, set_={"role": role}))


def change_role(
    connection: Connection, workspace_id: str, member_id: str, role: Role, *, unproven: bool = False
) -> tuple[Member, Role]:
    """Give a member of a workspace another role in it; the member, and the role of before.

    UnknownMemberError; UnprovenAddressError where that is more, for an address that nobody has proven.
    """
    mine = (memberships.c.workspace_id == workspace_id) & (memberships.c.member_id == member_id)
    before = connection.scalar(select(memberships.c.role).where(mine))
    if before is None:
        raise UnknownMemberError(member_id)
    found = find_member(connection, member_id)
    if is_more(role, Role(before)) and not unproven:
        _refuse_unproven(found)
    connection.execute(update(memberships).where(mine).values(role=role))
    return found, Role(before)


def remove_role(connection: Connection, workspace_id: str, member_id: str) -> Member:
    """Take the role of a member in a workspace away; UnknownMemberError."""
    mine = (memberships.c.workspace_id == workspace_id) & (memberships.c.member_id == member_id)
    if connection.execute(delete(memberships).where(mine)).rowcount == 0:
        raise UnknownMemberError(member_id)
    return find_member(connection, member_id)


def principal_by_subject(connection: Connection, subject: str) -> Principal | None:
    """The member who has signed in as a subject of an issuer before."""
    row = connection.execute(_MEMBERS.where(members.c.subject == subject)).mappings().first()
    return None if row is None else principal_of(connection, row)


def sign_in_as(connection: Connection, subject: str, email: str | None, now: int) -> SignedIn:
    """The member who has signed in as a subject of an issuer, or whose e-mail address is that of the subject.

    The latter is bound to the subject from then on. Its keys and sessions are revoked where nobody had proven the
    address before: the provider has verified it, and they may be somebody else's (T-04). No member is taken over: one
    that is bound to another subject stays bound to it.
    """
    known = principal_by_subject(connection, subject)
    if known is not None or email is None:
        if known is not None and email is not None and known.email == email:
            waits = (members.c.id == known.id) & members.c.proven_at.is_(None)
            connection.execute(update(members).where(waits).values(proven_at=now))
        return SignedIn(known)
    free = (members.c.email == email) & members.c.subject.is_(None)
    row = connection.execute(_MEMBERS.where(free)).mappings().first()
    if row is None:
        return SignedIn(None)
    revoked = prove(connection, row["id"], now) if row["is_unproven"] else Revoked(0, 0)
    connection.execute(update(members).where(members.c.id == row["id"]).values(subject=subject))
    return SignedIn(principal_of(connection, row), revoked)


def shut_out(connection: Connection, subject: str, email: str | None) -> tuple[str | None, Revoked]:
    """Revoke every key and session of the member that a subject of an issuer, or its e-mail address, signs in as.

    Its address, and what was revoked; the roles stay. An operator's last key is no exception.
    """
    found = members.c.subject == subject
    if email is not None:
        found |= (members.c.email == email) & members.c.subject.is_(None)
    row = connection.execute(_MEMBERS.where(found)).mappings().first()
    return (None, Revoked(0, 0)) if row is None else (row["email"], _revoke_all(connection, row["id"]))


def principal_of(
    connection: Connection, row: RowMapping, session_id: str | None = None, key_id: str | None = None
) -> Principal:
    """A member's row as a principal, with all its roles, by the session or the key that was shown."""
    return Principal(
        "member",
        row["id"],
        row["name"],
        row["email"],
        bool(row["is_operator"]),
        tuple(_roles(connection, [row["id"]]).get(row["id"], ())),
        session_id,
        key_id,
        is_of_session=session_id is not None,
    )


def select_members() -> Select[tuple[object, ...]]:
    """A query for members, to be joined and narrowed down."""
    return _MEMBERS


_IS_UNPROVEN: Final = members.c.email.is_not(None) & members.c.proven_at.is_(None)
_MEMBERS: Final = select(
    members.c.id,
    members.c.name,
    members.c.email,
    members.c.is_operator,
    members.c.subject.is_not(None).label("has_single_sign_on"),
    members.c.created_at,
    _IS_UNPROVEN.label("is_unproven"),
)


def _member(row: RowMapping, roles: Mapping[str, Sequence[Membership]]) -> Member:
    return Member(
        row["id"],
        row["name"],
        row["email"],
        bool(row["is_operator"]),
        bool(row["has_single_sign_on"]),
        row["created_at"],
        bool(row["is_unproven"]),
        tuple(roles.get(row["id"], ())),
    )


def _roles(connection: Connection, member_ids: Iterable[str]) -> dict[str, list[Membership]]:
    """The roles of some members, by member and then by the name of the workspace."""
    found = (
        select(memberships.c.member_id, memberships.c.workspace_id, workspaces.c.name, memberships.c.role)
        .join(workspaces, workspaces.c.id == memberships.c.workspace_id)
        .where(memberships.c.member_id.in_(list(member_ids)))
        .order_by(workspaces.c.name)
    )
    roles: dict[str, list[Membership]] = {}
    for member_id, workspace_id, name, role in connection.execute(found):
        roles.setdefault(member_id, []).append(Membership(workspace_id, name, Role(role)))
    return roles


def withdraw_invitations_of(connection: Connection, member_id: str) -> int:
    """Delete the open invitations that a member has made; how many: what gives somebody a way back goes with them."""
    return connection.execute(delete(invitations).where(invitations.c.inviter_id == member_id)).rowcount


def _revoke_all(connection: Connection, member_id: str) -> Revoked:
    """Delete every key and session of a member, and the open invitations that it has made."""
    withdraw_invitations_of(connection, member_id)
    forget_uses(connection, _keys_of(connection, member_id))
    ended, keys = (
        connection.execute(delete(table).where(table.c.member_id == member_id)).rowcount
        for table in (sessions, personal_keys)
    )
    return Revoked(keys, ended)


def _keys_of(connection: Connection, member_id: str) -> Sequence[str]:
    """The ids of a member's keys."""
    return connection.scalars(select(personal_keys.c.id).where(personal_keys.c.member_id == member_id)).all()


def _refuse_unproven(found: Member) -> None:
    """Refuse power for a member whose address nobody has proven; UnprovenAddressError."""
    if found.is_unproven:
        raise UnprovenAddressError(found.email)


def _refuse_last_operator(connection: Connection, member_id: str) -> None:
    """Refuse to remove the last operator; of two who remove each other, the second waits here and is refused."""
    operators = connection.scalars(
        select(members.c.id).where(members.c.is_operator).order_by(members.c.id).with_for_update()
    ).all()
    if list(operators) == [member_id]:
        raise LastOperatorError
