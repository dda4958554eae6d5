"""Who is calling: from a credential to a Caller, or 401."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller, Patterns
from fairlead.domain.accounts.key_terms import Address, allows
from fairlead.domain.accounts.rights import Right, has_right
from fairlead.domain.faults import FaultError, Forbidden, ServiceUnavailable, Unauthorized
from fairlead.identity.key_sets import KeysUnavailableError
from fairlead.identity.tokens import InvalidTokenError, TokenVerifier, TokenVerifiers
from fairlead.operations.accounts.key_uses import KeyUses
from fairlead.storage.accounts import sessions, workspaces
from fairlead.storage.accounts.sessions import Lifetime, NoSessionError
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Transaction

_CACHE_MAX: Final = 10_000
_CACHE_SECONDS: Final = 1.0
"""How long a caller's rights may lag behind a change. Money never lags: admission checks the key again."""
NOTED_EVERY_MS: Final = 60_000
"""How often the use of a session is recorded."""
_PAYER: Final = "work that was begun"


def _unknown() -> None:
    """The address of nobody."""


class ApiKey(msgspec.Struct, frozen=True):
    """An API key as it was sent, and how to find the address that it came from; it is looked at where it matters."""

    text: str
    find_address: Callable[[], Address | None] = _unknown


class Token(msgspec.Struct, frozen=True):
    """A JSON Web Token as it was sent."""

    text: str


class WorkspaceSession(msgspec.Struct, frozen=True):
    """The cookie of a member's session, sent by a page of ours to read or change something in a workspace."""

    text: str
    workspace: str
    is_change: bool


Credential: TypeAlias = ApiKey | Token | WorkspaceSession


class Authenticator:
    """Looks callers up and caches them for a moment, by the digest of their credential."""

    def __init__(
        self, database: Database, verifier: TokenVerifier | TokenVerifiers | None, clock: Clock | None = None
    ) -> None:
        self._clock = clock or Clock()
        self._database = database
        self._verifier = verifier
        self.uses = KeyUses(database, self._clock)
        """When keys were last used, as far as it is not written yet."""
        self._known: OrderedDict[tuple[str, str], tuple[float, Caller]] = OrderedDict()
        self._forgettings = 0

    def recall(self, credential: Credential | None) -> Caller | None:
        """The caller of an API key that was looked up a moment ago; never waits for anything."""
        if not isinstance(credential, ApiKey):
            return None
        entry = self._known.get(("key", digest_of(credential.text)))
        if entry is None or entry[0] <= time.monotonic() or entry[1].is_suspended:
            return None
        caller = entry[1]
        return caller if not caller.networks or allows(caller.networks, credential.find_address()) else None

    @property
    def takes_tokens(self) -> bool:
        """Whether there is an issuer whose tokens are accepted."""
        return self._verifier is not None

    def forget(self, workspace_id: str) -> None:
        """Drop the cached callers of a workspace in this process, because something of theirs has just changed."""
        self._forgettings += 1
        for key in [key for key, (_, caller) in self._known.items() if caller.workspace_id == workspace_id]:
            del self._known[key]

    async def authenticate(self, credential: Credential | None) -> Caller:
        """The caller behind a credential; FaultError with Unauthorized, Forbidden or ServiceUnavailable."""
        return _refuse_suspended(await self._find(credential))

    async def _find(self, credential: Credential | None) -> Caller:
        match credential:
            case None:
                raise FaultError(Unauthorized())
            case ApiKey():
                return await self._by_key(credential)
            case Token(text):
                return await self._by_token(text)
            case WorkspaceSession():
                return await self._by_session(credential)

    async def caller_of_key(self, key_id: str) -> Caller:
        """The caller of a live key, by the key's id, to continue work that was begun with it; FaultError."""
        now = self._clock.now_ms()
        caller = await self._look_up(("id", key_id), lambda c: workspaces.caller_by_key_id(c, key_id, now))
        if caller is None:
            raise FaultError(Unauthorized("This API key is not valid any more."))
        return caller

    async def payer(self, payer_id: str, workspace_id: str) -> Caller:
        """The caller that pays for started work of a workspace, by `Caller.payer_id`, even if suspended. FaultError."""
        if payer_id == workspace_id:
            return await self._of_workspace(workspace_id, _PAYER)
        return await self.caller_of_key(payer_id)

    async def caller_of_workspace(self, name: str, subject: str) -> Caller:
        """A caller without a credential that acts for a workspace, given by name or id; FaultError."""
        return _refuse_suspended(await self._of_workspace(name, subject))

    async def _of_workspace(self, name: str, subject: str) -> Caller:
        caller = await self._look_up(
            (f"workspace for {subject}", name), lambda c: workspaces.caller_by_workspace(c, name, subject, Patterns())
        )
        if caller is None:
            raise FaultError(Forbidden(f"The workspace {name} does not exist here."))
        return caller

    async def _by_key(self, key: ApiKey) -> Caller:
        digest, now = digest_of(key.text), self._clock.now_ms()
        caller = await self._look_up(("key", digest), lambda c: workspaces.caller_by_key(c, digest, now))
        if caller is None or caller.key_id is None:
            raise FaultError(Unauthorized("This API key is not valid."))
        self.uses.note(caller.key_id)
        if caller.networks and not allows(caller.networks, key.find_address()):
            raise FaultError(Forbidden("This key may not be used from this address."))
        return caller

    async def _by_token(self, text: str) -> Caller:
        if self._verifier is None:
            raise FaultError(Unauthorized("This server takes API keys only; no token issuer is configured."))
        try:
            claims = await self._verifier.verify(text)
        except InvalidTokenError as error:
            raise FaultError(Unauthorized("This token is not valid.")) from error
        except KeysUnavailableError as error:
            raise FaultError(ServiceUnavailable("The keys of the token issuer cannot be read right now.")) from error
        caller = await self._look_up(
            ("token", digest_of(text)),
            lambda c: workspaces.caller_by_workspace(
                c, claims.workspace, claims.subject, Patterns(claims.models), claims.kind
            ),
        )
        if caller is None:
            raise FaultError(Forbidden("The workspace this token names does not exist here."))
        return caller

    async def _by_session(self, session: WorkspaceSession) -> Caller:
        digest, now = digest_of(session.text), self._clock.now_ms()
        last_seen: list[int] = []

        def find(connection: Transaction) -> Caller | None:
            found = sessions.caller_by_session(connection, digest, session.workspace, Lifetime.at(now))
            last_seen.append(found.seen_at)
            return found.caller

        try:
            caller = await self._look_up(("session", f"{digest} {session.workspace}"), find)
        except NoSessionError as error:
            raise FaultError(Unauthorized("The session has ended; sign in again.")) from error
        if last_seen and now - last_seen[0] >= NOTED_EVERY_MS:
            await self._note_seen(digest, now)
        if caller is None or caller.role is None:
            raise FaultError(Forbidden(f"You have no role in a workspace {session.workspace}."))
        if session.is_change and not has_right(caller.role, Right.RUN):
            raise FaultError(Forbidden(f"Your role does not allow {Right.RUN.value}."))
        return caller

    async def _note_seen(self, digest: str, now: int) -> None:
        """Record that a session is used. If the database is unavailable, its next call records it."""
        with suppress(DatabaseUnavailableError):
            await self._database.write(lambda c: sessions.note_seen(c, digest, now), durable=False)

    async def _look_up(self, key: tuple[str, str], work: workspaces.FindCaller) -> Caller | None:
        now = time.monotonic()
        known = self._known.get(key)
        if known is not None:
            if known[0] > now:
                return known[1]
            # One call renews; calls that arrive meanwhile use the cached caller instead of asking all at once.
            self._known[key] = (now + _CACHE_SECONDS, known[1])
        forgettings = self._forgettings
        try:
            caller = await self._database.read(work)
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("Credentials cannot be checked right now.")) from error
        self._known.pop(key, None)
        # What was read during a change may be older than the change, so it is not cached.
        if caller is not None and forgettings == self._forgettings:
            self._known[key] = (now + _CACHE_SECONDS, caller)
            if len(self._known) > _CACHE_MAX:
                self._known.popitem(last=False)
        return caller


def digest_of(secret: str) -> str:
    """The stored form of a secret that was given out: its SHA-256. The secret is random enough to need no salt."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _refuse_suspended(caller: Caller) -> Caller:
    """The caller, unless its workspace may not begin anything; FaultError(Forbidden)."""
    if caller.is_suspended:
        raise FaultError(Forbidden(f"The workspace {caller.workspace} is suspended."))
    return caller
