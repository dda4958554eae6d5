"""Invitations: a link that gives its holder a role in a workspace, once, when the holder accepts (T-04).

The link is mailed where there is a mail server and the installation knows its own address: only the mailbox has it
then, so accepting proves the address. Otherwise the inviter passes it on, and accepting proves nothing. The token
stands behind the `#` of the link, which no server or proxy sees, and is kept as a digest.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.rights import NAME_MAX, Actor, ActorKind, Principal, Role
from fairlead.mail import Mailer, MailError
from fairlead.operations.accounts.authenticate import digest_of
from fairlead.operations.accounts.keys import make_secret
from fairlead.operations.accounts.members import check_email, check_name
from fairlead.operations.accounts.sessions import SESSIONS_MAX, BegunSession, Origin, Sessions
from fairlead.storage.accounts import invitations
from fairlead.storage.accounts.audit_log import Act, record_act, with_entry
from fairlead.storage.accounts.invitations import (
    Acceptance,
    Accepted,
    InvitationRecord,
    NewInvitation,
    Offer,
    OtherMemberError,
    SignInFirstError,
    TooManyInvitationsError,
    UnknownInvitationError,
)
from fairlead.storage.accounts.members import NewMember
from fairlead.storage.db.database import Database, Transaction

__all__ = [
    "InvitationRecord", "Offer", "OtherMemberError", "SignInFirstError", "TooManyInvitationsError",
    "UnknownInvitationError",
]  # fmt: skip

OPEN_MAX: Final = 200
"""How many open invitations a workspace may have."""
_PAGE: Final = "/console#invitation="
_SUBJECT: Final = "You are invited to the workspace {}"
_LETTER: Final = """\
You are invited to the workspace {workspace} at {base}, as {role}.

Open this link within {days}, and accept there:

{link}

Whoever has the link can accept, once. If you do not expect an invitation, do nothing: it expires by itself.
"""
_HOUR_MS: Final = 3_600_000
_DAY_HOURS: Final = 24


class NotMailedError(Exception):
    """The mail server has not taken the letter; the text says why, in a word."""


class IssuedInvitation(msgspec.Struct, frozen=True):
    """A new invitation. `link` is shown only now, and is None where it was mailed."""

    record: InvitationRecord
    link: str | None


class AcceptedInvitation(msgspec.Struct, frozen=True):
    """What was accepted by whom; `session` is the one that began by it, None where the member signs in otherwise."""

    offer: Offer
    principal: Principal
    session: BegunSession | None


class Invitations:
    """Makes, lists and withdraws invitations.

    `mailed_from` is the address of the installation in links that are mailed. It is the operator's word alone: a host
    that a call names could lead the reader of a letter, and so the proof, to somebody else.
    """

    def __init__(
        self, database: Database, clock: Clock, lasts_ms: int, mailer: Mailer | None, mailed_from: str | None
    ) -> None:
        self._database = database
        self._clock = clock
        self._lasts_ms = lasts_ms
        self._mailer = mailer
        self._mailed_from = mailed_from

    async def invite(
        self, workspace: tuple[str, str], email: str, role: Role, by: Actor, *, base_url: str, by_hand: bool = False
    ) -> IssuedInvitation:
        """Invite an address to a workspace, by id and name; the invitation before it for the address ends.

        `base_url` begins a link that is passed on by hand. BadMemberError, TooManyInvitationsError, NotMailedError.
        """
        check_email(email)
        now, token, (workspace_id, name) = self._clock.now_ms(), make_secret(), workspace
        mailed_from = None if by_hand or self._mailer is None else self._mailed_from
        new = NewInvitation(
            new_id(),
            email.lower(),
            role,
            mailed_from is not None,
            by.name,
            now,
            now + self._lasts_ms,
            workspace_id=workspace_id,
            digest=digest_of(token),
            inviter_id=by.id if by.kind is ActorKind.MEMBER else None,
        )
        act = _act("invitation.created", new, workspace_id, {"is_mailed": new.is_mailed})
        make = partial(invitations.create_invitation, new=new, most=OPEN_MAX)
        await self._database.write(with_entry(make, by, lambda _: act, now))
        if self._mailer is None or mailed_from is None:
            return IssuedInvitation(new, base_url + _PAGE + token)
        letter = _LETTER.format(
            workspace=name, base=mailed_from, role=role, link=mailed_from + _PAGE + token, days=_span(self._lasts_ms)
        )
        try:
            await self._mailer.send(new.email, _SUBJECT.format(name), letter, f"invitation-{new.id}")
        except MailError as error:
            await self.withdraw(workspace_id, new.id, by)
            raise NotMailedError(f"{error.word} ({error.code})" if error.code else error.word) from error
        return IssuedInvitation(new, None)

    async def list_open(self, workspace_id: str, after: str | None, limit: int) -> list[InvitationRecord]:
        """Up to `limit` invitations of a workspace that can be accepted, the oldest first, after a given one."""
        now = self._clock.now_ms()
        return await self._database.read(lambda c: invitations.list_invitations(c, workspace_id, now, after, limit))

    async def withdraw(self, workspace_id: str, invitation_id: str, by: Actor) -> None:
        """Delete an invitation of a workspace, so that its link leads nowhere; UnknownInvitationError."""
        work = partial(invitations.delete_invitation, workspace_id=workspace_id, invitation_id=invitation_id)
        await self._database.write(
            with_entry(work, by, lambda found: _act("invitation.withdrawn", found, workspace_id), self._clock.now_ms())
        )


class AcceptingInvitations:
    """Shows invitations to those who have their links, and accepts them.

    Accepting signs the holder in, by a session of its own, where `begins_sessions`.
    """

    def __init__(self, database: Database, sessions: Sessions, clock: Clock, *, begins_sessions: bool = True) -> None:
        self._database = database
        self._sessions = sessions
        self._clock = clock
        self._begins_sessions = begins_sessions

    async def show(self, token: str) -> Offer:
        """What the holder of a token is offered; UnknownInvitationError."""
        digest, now = digest_of(token), self._clock.now_ms()
        return await self._database.read(lambda c: invitations.find_offer(c, digest, now))

    async def accept(
        self, token: str, name: str | None, principal: Principal | None, origin: Origin
    ) -> AcceptedInvitation:
        """Accept as the member who has signed in, or as nobody yet, who is called `name` from then on.

        BadMemberError, UnknownInvitationError, SignInFirstError, OtherMemberError.
        """
        digest, now = digest_of(token), self._clock.now_ms()
        if name is None:
            name = (await self.show(token)).invitation.email[:NAME_MAX]
        check_name(name)
        newcomer = NewMember(new_id(), name, None, now)
        session, cookie = self._sessions.prepare(newcomer.id, origin)
        by = Acceptance(principal, newcomer, session if self._begins_sessions else None, SESSIONS_MAX, now)

        def work(connection: Transaction) -> Accepted:
            done = invitations.accept(connection, digest, by)
            record_act(connection, done.principal.actor(origin.address), _acceptance(done), now)
            return done

        done = await self._database.write(work)
        begun = BegunSession(done.principal, cookie) if done.has_session else None
        return AcceptedInvitation(done.offer, done.principal, begun)


def _acceptance(done: Accepted) -> Act:
    """An acceptance as the audit log has it: who became a member, was signed in, or lost keys by it is in one entry."""
    of = done.revoked
    revoked = {} if of is None else {"revoked_keys": of.keys, "ended_sessions": of.sessions}
    detail = {"is_new": done.is_new, "is_mailed": done.offer.invitation.is_mailed, "has_session": done.has_session}
    return _act("invitation.accepted", done.offer.invitation, done.offer.workspace_id, {**detail, **revoked})


def _act(action: str, of: InvitationRecord, workspace_id: str, detail: Mapping[str, object] | None = None) -> Act:
    return Act(action, workspace_id, of.email, {"id": of.id, "role": of.role, **(detail or {})})


def _span(lasts_ms: int) -> str:
    """How long a link is good, for a reader: in days, or in hours where that is less than two days."""
    hours = max(1, lasts_ms // _HOUR_MS)
    days = hours // _DAY_HOURS
    return f"{days} days" if days > 1 else f"{hours} hours" if hours > 1 else "an hour"
