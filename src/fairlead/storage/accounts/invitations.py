"""Invitations: a role in a workspace for whoever has the link, until it is accepted, withdrawn or has expired (T-04).

A workspace has one for an address at a time. What its member could no longer give, an invitation does not give either:
it is good only while the inviter is an owner of the workspace or an operator.
"""

from typing import Final

import msgspec
from sqlalchemy import ColumnElement, Connection, RowMapping, delete, exists, func, insert, select

from fairlead.domain.accounts.rights import Principal, Role, is_more
from fairlead.storage.accounts.members import (
    Member,
    NewMember,
    Revoked,
    create_member,
    find_member,
    principal_of,
    prove,
    select_members,
    set_role,
)
from fairlead.storage.accounts.sessions import NewSession, begin_session
from fairlead.storage.db.member_tables import invitations, members, memberships
from fairlead.storage.db.tables import workspaces

_SHOWN: Final = (
    invitations.c.id, invitations.c.email, invitations.c.role, invitations.c.is_mailed, invitations.c.inviter,
    invitations.c.created_at, invitations.c.expires_at,
)  # fmt: skip


class UnknownInvitationError(Exception):
    """There is no such invitation, or none that can be accepted any more."""


class TooManyInvitationsError(Exception):
    """The workspace has as many open invitations as it may."""


class SignInFirstError(Exception):
    """A member has the address of the invitation, and the link does not prove that its holder is that member."""


class OtherMemberError(Exception):
    """The invitation is for another address than the member's who accepts it."""


class InvitationRecord(msgspec.Struct, frozen=True):
    """What may be shown of an invitation. Times are milliseconds since 1970."""

    id: str
    email: str
    role: Role
    is_mailed: bool
    """Whether the link was sent to the address and shown to nobody, so that it proves the address."""
    inviter: str
    created_at: int
    expires_at: int


class NewInvitation(InvitationRecord, frozen=True, kw_only=True):
    """An invitation to be stored: the digest of its token, never the token."""

    workspace_id: str
    digest: str
    inviter_id: str | None


class Offer(msgspec.Struct, frozen=True):
    """What the holder of a link is offered; `needs_sign_in` where only the member with that address may accept."""

    invitation: InvitationRecord
    workspace_id: str
    workspace: str
    needs_sign_in: bool


class Acceptance(msgspec.Struct, frozen=True):
    """Who accepts: the member who has signed in, or nobody yet. Both of the others are used only where they are needed.

    `newcomer` becomes a member where none has the address; `session` begins where the link signs its holder in, if not
    None. Member id and address are filled in.
    """

    principal: Principal | None
    newcomer: NewMember
    session: NewSession | None
    sessions_max: int
    now: int


class Accepted(msgspec.Struct, frozen=True):
    """Who has accepted which offer, and what was revoked because this proved the address."""

    offer: Offer
    principal: Principal
    is_new: bool
    has_session: bool
    revoked: Revoked | None


def create_invitation(connection: Connection, new: NewInvitation, most: int) -> None:
    """Store an invitation in place of one for the same address; TooManyInvitationsError past `most` in a workspace."""
    mine = invitations.c.workspace_id == new.workspace_id
    connection.execute(select(workspaces.c.id).where(workspaces.c.id == new.workspace_id).with_for_update())
    connection.execute(delete(invitations).where(mine, invitations.c.email == new.email))
    open_ = select(func.count()).select_from(invitations).where(mine, invitations.c.expires_at > new.created_at)
    if connection.execute(open_).scalar_one() >= most:
        raise TooManyInvitationsError(most)
    connection.execute(insert(invitations).values(msgspec.structs.asdict(new)))


def list_invitations(
    connection: Connection, workspace_id: str, now: int, after: str | None, limit: int
) -> list[InvitationRecord]:
    """Up to `limit` open invitations of a workspace, by age, after the one with an id."""
    found = select(*_SHOWN).where(invitations.c.workspace_id == workspace_id, invitations.c.expires_at > now)
    found = found.order_by(invitations.c.id).limit(limit)
    rows = connection.execute(found if after is None else found.where(invitations.c.id > after)).mappings()
    return [_record(row) for row in rows]


def delete_invitation(connection: Connection, workspace_id: str, invitation_id: str) -> InvitationRecord:
    """Delete an invitation of a workspace; UnknownInvitationError."""
    mine = (invitations.c.id == invitation_id) & (invitations.c.workspace_id == workspace_id)
    row = connection.execute(select(*_SHOWN).where(mine)).mappings().first()
    if row is None or connection.execute(delete(invitations).where(mine)).rowcount == 0:
        raise UnknownInvitationError
    return _record(row)


def find_offer(connection: Connection, digest: str, now: int) -> Offer:
    """What the holder of a token is offered, by its digest; UnknownInvitationError."""
    return _find(connection, digest, now)[0]


def accept(connection: Connection, digest: str, by: Acceptance) -> Accepted:
    """Accept an invitation by the digest of its token, once.

    UnknownInvitationError, SignInFirstError, OtherMemberError, EmailTakenError where two accept at the same moment.
    """
    offer, known = _find(connection, digest, by.now)
    if by.principal is not None and (known is None or known.id != by.principal.id):
        raise OtherMemberError(offer.invitation.email)
    if by.principal is None and offer.needs_sign_in:
        raise SignInFirstError(offer.invitation.email)
    if connection.execute(delete(invitations).where(invitations.c.digest == digest)).rowcount == 0:
        raise UnknownInvitationError  # somebody else has accepted it since it was read
    email, is_mailed, revoked = offer.invitation.email, offer.invitation.is_mailed, None
    if known is None:
        proven_at = by.now if is_mailed else None
        create_member(connection, msgspec.structs.replace(by.newcomer, email=email, proven_at=proven_at))
    elif is_mailed and known.is_unproven:
        revoked = prove(connection, known.id, by.now)
    member_id = by.newcomer.id if known is None else known.id
    _give_role(connection, offer, member_id, by.now)
    # In this transaction: whoever proves the address at the same moment revokes this session or is waited for.
    begins = by.session is not None and (by.principal is None or revoked is not None)
    if by.session is not None and begins:
        begin_session(connection, msgspec.structs.replace(by.session, member_id=member_id), by.sessions_max)
    row = connection.execute(select_members().where(members.c.id == member_id)).mappings().one()
    session_id = by.session.id if by.session is not None and begins else None
    return Accepted(offer, principal_of(connection, row, session_id), known is None, begins, revoked)


def has_expired(connection: Connection, now: int) -> bool:
    """Whether there are invitations that can no longer be accepted."""
    return (
        connection.execute(select(invitations.c.id).where(invitations.c.expires_at <= now).limit(1)).first() is not None
    )


def forget_expired(connection: Connection, now: int) -> int:
    """Delete the invitations that can no longer be accepted; returns how many."""
    return connection.execute(delete(invitations).where(invitations.c.expires_at <= now)).rowcount


def _find(connection: Connection, digest: str, now: int) -> tuple[Offer, Member | None]:
    """An open invitation, and the member with its address; UnknownInvitationError."""
    found = (
        select(*_SHOWN, invitations.c.workspace_id, workspaces.c.name.label("workspace"))
        .join(workspaces, workspaces.c.id == invitations.c.workspace_id)
        .where(
            invitations.c.digest == digest,
            invitations.c.expires_at > now,
            workspaces.c.delete_at.is_(None),
            _is_backed(),
        )
    )
    row = connection.execute(found).mappings().first()
    if row is None:
        raise UnknownInvitationError
    invitation = _record(row)
    member_id = connection.scalar(select(members.c.id).where(members.c.email == invitation.email))
    known = None if member_id is None else find_member(connection, member_id)
    # A mailed link is as good a proof as the first one was; but one who is bound to a provider signs in there.
    proves = invitation.is_mailed and known is not None and not known.has_single_sign_on
    offer = Offer(invitation, row["workspace_id"], row["workspace"], known is not None and not proves)
    return offer, known


def _is_backed() -> ColumnElement[bool]:
    """The condition for invitations whose inviter may still give a role there."""
    owns = exists().where(
        memberships.c.member_id == invitations.c.inviter_id,
        memberships.c.workspace_id == invitations.c.workspace_id,
        memberships.c.role == Role.OWNER,
    )
    operates = exists().where(members.c.id == invitations.c.inviter_id, members.c.is_operator)
    return invitations.c.inviter_id.is_(None) | owns | operates


def _give_role(connection: Connection, offer: Offer, member_id: str, now: int) -> None:
    """Give the role of an offer to a member, unless it has more there already."""
    mine = (memberships.c.workspace_id == offer.workspace_id) & (memberships.c.member_id == member_id)
    before = connection.scalar(select(memberships.c.role).where(mine))
    if before is None or is_more(offer.invitation.role, Role(before)):
        set_role(connection, offer.workspace_id, member_id, offer.invitation.role, now)


def _record(row: RowMapping) -> InvitationRecord:
    return InvitationRecord(
        row["id"], row["email"], Role(row["role"]), bool(row["is_mailed"]), row["inviter"], row["created_at"],
        row["expires_at"],
    )  # fmt: skip
