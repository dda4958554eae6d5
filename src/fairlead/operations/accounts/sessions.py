"""Sessions of members: begun with a key or by single sign-on, and proven by a cookie.

A session ends with its key, by hand, twelve hours after it began, or an hour after its last use. This module also finds
out who calls the administration API, with any kind of credential.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from fairlead.clock import Clock, new_id
from fairlead.domain.accounts.key_terms import Address, allows
from fairlead.domain.accounts.rights import Actor, Membership, Principal, Role
from fairlead.domain.faults import FaultError, Forbidden, Unauthorized
from fairlead.operations.accounts.authenticate import NOTED_EVERY_MS, ApiKey, Authenticator, digest_of
from fairlead.operations.accounts.keys import make_secret
from fairlead.storage.accounts import personal_keys, sessions
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.accounts.members import Member, withdraw_invitations_of
from fairlead.storage.accounts.personal_keys import KeyPrincipal
from fairlead.storage.accounts.sessions import Lifetime, NewSession, NoSessionError, Session
from fairlead.storage.db.database import Database, Transaction

__all__ = ["NoSessionError", "Session"]

SESSIONS_MAX: Final = 50
"""How many sessions a member may have; beyond that the oldest ends."""
_AGENT_MAX: Final = 200


class PersonalKey(msgspec.Struct, frozen=True):
    """A personal key as it was sent, and the address that it came from, None where that is unknown."""

    text: str
    address: Address | None = None


class SessionCookie(msgspec.Struct, frozen=True):
    """The cookie of a session, sent by a page of ours; the caller of this module has checked that."""

    text: str


AdminCredential: TypeAlias = PersonalKey | SessionCookie | ApiKey


class Origin(msgspec.Struct, frozen=True):
    """Where a person signs in from: an address, and the browser's name."""

    address: str | None
    agent: str | None


class BegunSession(msgspec.Struct, frozen=True):
    """A session that has just begun: its member, and the text of the cookie, which is shown only now."""

    principal: Principal
    cookie: str


class Sessions:
    """Begins, finds, lists and ends sessions, and authenticates callers. Every method may raise FaultError."""

    def __init__(self, database: Database, authenticator: Authenticator, clock: Clock) -> None:
        self._database = database
        self._authenticator = authenticator
        self._clock = clock

    async def principal(self, credential: AdminCredential) -> Principal:
        """The principal of a credential; FaultError with Unauthorized, Forbidden or ServiceUnavailable."""
        match credential:
            case PersonalKey():
                return (await self._by_personal_key(credential)).principal
            case SessionCookie(text):
                return await self._by_cookie(text)
            case ApiKey():
                caller = await self._authenticator.authenticate(credential)
                membership = Membership(caller.workspace_id, caller.workspace, Role.CALLER)
                name = f"API key of {caller.workspace}"
                return Principal("key", caller.key_id or "", name, None, is_operator=False, memberships=(membership,))

    async def begin(self, key: PersonalKey, origin: Origin) -> BegunSession:
        """Sign a person in with a personal key; FaultError with Unauthorized or Forbidden.

        A session has all rights of its member, so a key that has not begins none.
        """
        found = await self._by_personal_key(key)
        if found.principal.rights is not None:
            raise FaultError(Forbidden("This key may do less than its member: nobody is signed in with it."))
        return await self.begin_for(found.principal, origin, found.key_id)

    async def begin_for(self, principal: Principal, origin: Origin, key_id: str | None = None) -> BegunSession:
        """Sign in a member whose identity is proven; with a `key_id` the session ends when that key is revoked."""
        new, cookie = self.prepare(principal.id, origin, key_id)
        by = "single sign-on" if key_id is None else "key"
        act = Act("session.created", target=principal.email or principal.name, detail={"by": by})
        actor = principal.actor(origin.address)
        await self._database.write(
            with_entry(lambda c: sessions.begin_session(c, new, SESSIONS_MAX), actor, lambda _: act, new.created_at)
        )
        begun = msgspec.structs.replace(principal, session_id=new.id, key_id=None, is_of_session=True)
        return BegunSession(begun, cookie)

    def prepare(self, member_id: str, origin: Origin, key_id: str | None = None) -> tuple[NewSession, str]:
        """A session to be stored, and the text of its cookie."""
        now, cookie = self._clock.now_ms(), make_secret()
        agent = None if origin.agent is None else origin.agent[:_AGENT_MAX]
        new = NewSession(
            new_id(), origin.address, agent, now, now, member_id=member_id, digest=digest_of(cookie), key_id=key_id
        )
        return new, cookie

    async def list_all(self, member_id: str) -> Sequence[Session]:
        """The sessions of a member, the newest first."""
        return await self._database.read(lambda c: sessions.list_sessions(c, member_id, self._lifetime()))

    async def end(self, member_id: str, session_id: str, by: Actor) -> None:
        """End a session of a member; NoSessionError."""
        act, now = Act("session.ended", detail={"id": session_id}), self._clock.now_ms()
        work = with_entry(lambda c: sessions.end_session(c, member_id, session_id), by, lambda _: act, now)
        await self._database.write(work)

    async def end_all(self, member: Member, by: Actor, *, keeps_keys: bool = False) -> None:
        """End every session of a member, and revoke the keys that were made in sessions; LastOperatorError.

        The open invitations of the member are withdrawn, too. `keeps_keys` leaves keys and invitations.
        """
        now = self._clock.now_ms()

        def work(connection: Transaction) -> dict[str, int]:
            ended = sessions.end_sessions(connection, member.id)
            if keeps_keys:
                return {"sessions": ended}
            revoked = personal_keys.delete_keys_of_sessions(connection, member.id, now)
            return {"sessions": ended, "keys": revoked, "invitations": withdraw_invitations_of(connection, member.id)}

        def describe(done: dict[str, int]) -> Act:
            return Act("session.all_ended", target=member.email or member.name, detail=done)

        await self._database.write(with_entry(work, by, describe, now))

    async def _by_personal_key(self, key: PersonalKey) -> KeyPrincipal:
        digest, now = digest_of(key.text), self._clock.now_ms()
        found = await self._database.read(lambda c: personal_keys.principal_by_key(c, digest, now))
        if found is None:
            raise FaultError(Unauthorized("This key is not valid."))
        if not allows(found.networks, key.address):
            raise FaultError(Forbidden("This key may not be used from this address."))
        self._authenticator.uses.note(found.key_id)
        return found

    async def _by_cookie(self, text: str) -> Principal:
        digest, lifetime = digest_of(text), self._lifetime()
        found = await self._database.read(lambda c: sessions.find_session(c, digest, lifetime))
        if found is None:
            raise FaultError(Unauthorized("The session has ended; sign in again."))
        principal, seen_at = found
        now = self._clock.now_ms()
        if now - seen_at >= NOTED_EVERY_MS:
            await self._database.write(lambda c: sessions.note_seen(c, digest, now), durable=False)
        return principal

    def _lifetime(self) -> Lifetime:
        return Lifetime.at(self._clock.now_ms())


def csrf_token(cookie: str) -> str:
    """The token that pages send with every change, in addition to the cookie; other origins cannot know it."""
    return hmac.digest(cookie.encode(), b"fairlead csrf token 1", hashlib.sha256).hex()
