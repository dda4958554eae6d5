"""Who is calling: from a credential to a Caller, or 401."""

import hashlib
import time
from collections import OrderedDict
from typing import Final, TypeAlias

import msgspec

from fairlead.domain.accounts.callers import Caller, Patterns
from fairlead.domain.faults import FaultError, Forbidden, ServiceUnavailable, Unauthorized
from fairlead.identity.key_sets import KeysUnavailableError
from fairlead.identity.tokens import InvalidTokenError, TokenVerifier, TokenVerifiers
from fairlead.storage.accounts import workspaces
from fairlead.storage.db.database import Database, DatabaseUnavailableError

_CACHE_MAX: Final = 10_000
_CACHE_SECONDS: Final = 1.0
"""How long a caller's rights may lag behind a change. Money never does: admission looks at the key again."""
_PAYER: Final = "work that was begun"


class ApiKey(msgspec.Struct, frozen=True):
    """An API key as it was sent."""

    text: str


class Token(msgspec.Struct, frozen=True):
    """A JSON Web Token as it was sent."""

    text: str


Credential: TypeAlias = ApiKey | Token


class Authenticator:
    """Looks callers up and remembers them for a moment, by the digest of what they sent."""

    def __init__(self, database: Database, verifier: TokenVerifier | TokenVerifiers | None) -> None:
        self._database = database
        self._verifier = verifier
        self._known: OrderedDict[tuple[str, str], tuple[float, Caller]] = OrderedDict()
        self._forgettings = 0

    def remembered(self, credential: Credential | None) -> Caller | None:
        """The caller of an API key looked up a moment ago, without waiting for anything."""
        if not isinstance(credential, ApiKey):
            return None
        entry = self._known.get(("key", _digest(credential.text)))
        return entry[1] if entry is not None and entry[0] > time.monotonic() else None

    @property
    def takes_tokens(self) -> bool:
        """Whether there is an issuer whose tokens are believed."""
        return self._verifier is not None

    def forget(self, workspace_id: str) -> None:
        """Look the callers of a workspace up again, in this process: something of theirs has just been changed."""
        self._forgettings += 1
        for key in [key for key, (_, caller) in self._known.items() if caller.workspace_id == workspace_id]:
            del self._known[key]

    async def authenticate(self, credential: Credential | None) -> Caller:
        """The caller behind a credential; FaultError with Unauthorized, Forbidden or ServiceUnavailable."""
        match credential:
            case None:
                raise FaultError(Unauthorized())
            case ApiKey(text):
                return await self._by_key(text)
            case Token(text):
                return await self._by_token(text)

    async def caller_of_key(self, key_id: str) -> Caller:
        """The caller behind a living key, by the key's id: work that was begun with it goes on. FaultError."""
        caller = await self._look_up(("id", key_id), lambda c: workspaces.caller_by_key_id(c, key_id))
        if caller is None:
            raise FaultError(Unauthorized("This API key is not valid any more."))
        return caller

    async def payer(self, payer_id: str, workspace_id: str) -> Caller:
        """The caller that pays for started work of a workspace, by its `Caller.payer_id`. FaultError."""
        if payer_id == workspace_id:
            return await self.caller_of_workspace(workspace_id, _PAYER)
        return await self.caller_of_key(payer_id)

    async def caller_of_workspace(self, name: str, subject: str) -> Caller:
        """A caller without a credential that acts for a workspace, by the workspace's name or id. FaultError."""
        caller = await self._look_up(
            (f"workspace for {subject}", name), lambda c: workspaces.caller_by_workspace(c, name, subject, Patterns())
        )
        if caller is None:
            raise FaultError(Forbidden(f"The workspace {name} does not exist here."))
        return caller

    async def _by_key(self, text: str) -> Caller:
        digest = _digest(text)
        caller = await self._look_up(("key", digest), lambda c: workspaces.caller_by_key(c, digest))
        if caller is None:
            raise FaultError(Unauthorized("This API key is not valid."))
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
            ("token", _digest(text)),
            lambda c: workspaces.caller_by_workspace(
                c, claims.workspace, claims.subject, Patterns(claims.models), claims.kind
            ),
        )
        if caller is None:
            raise FaultError(Forbidden("The workspace this token names does not exist here."))
        return caller

    async def _look_up(self, key: tuple[str, str], work: workspaces.FindCaller) -> Caller | None:
        now = time.monotonic()
        known = self._known.get(key)
        if known is not None:
            if known[0] > now:
                return known[1]
            # One call renews; those that arrive meanwhile go on with what is known instead of asking all at once.
            self._known[key] = (now + _CACHE_SECONDS, known[1])
        forgettings = self._forgettings
        try:
            caller = await self._database.read(work)
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("Credentials cannot be checked right now.")) from error
        self._known.pop(key, None)
        # What was read while something was changed may be older than the change, and is not remembered.
        if caller is not None and forgettings == self._forgettings:
            self._known[key] = (now + _CACHE_SECONDS, caller)
            if len(self._known) > _CACHE_MAX:
                self._known.popitem(last=False)
        return caller


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
