"""Signs members in at an OpenID Connect provider, from the redirect to the provider to the one back.

What must match at both ends (state, nonce, verifier) is kept in the browser, sealed and for ten minutes, so that any
server of an installation can continue. A member is found by the subject of earlier sign-ins, or the first time by an
e-mail address that the provider has verified; keys and sessions that were made before anybody had proven that address
are revoked then (T-04). Signing in makes nobody a member.
"""

import hmac
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import SERVER, Principal
from fairlead.identity.oidc import OidcClient, ProviderError
from fairlead.identity.sealing import CannotOpenError, Sealer
from fairlead.observing.observations import Observer, SignInFailed
from fairlead.operations.accounts.keys import make_secret
from fairlead.operations.accounts.sessions import BegunSession, Origin, Sessions
from fairlead.storage.accounts import members
from fairlead.storage.accounts.audit_log import Act, with_entry
from fairlead.storage.accounts.members import Revoked, SignedIn
from fairlead.storage.db.database import Database

WAITS_MS: Final = 600_000
"""How long a person may take to sign in at the provider."""
_SEALED_AS: Final = "sign-in"
_SUBJECT_MAX: Final = 512


class SignInRefusedError(Exception):
    """The sign-in is refused; the text is one of a few reasons that pages know."""


class LeavingBrowser(msgspec.Struct, frozen=True):
    """The address at which the browser signs in, and the cookie that it keeps until it is back."""

    url: str
    kept: str


class _Waiting(msgspec.Struct, frozen=True):
    state: str
    nonce: str
    verifier: str
    return_to: str
    until: int


class SingleSignOn:
    """Signs members in at one provider, which people know by a name.

    With a `group`, only who is in it there is signed in; a member who is not loses every session and key.
    """

    def __init__(
        self,
        client: OidcClient,
        name: str,
        sealer: Sealer,
        sessions: Sessions,
        database: Database,
        clock: Clock,
        observe: Observer,
        group: str | None = None,
    ) -> None:
        self.name = name
        self._group = group
        self._client = client
        self._sealer = sealer
        self._sessions = sessions
        self._database = database
        self._clock = clock
        self._observe = observe

    async def start(self, redirect_uri: str, return_to: str) -> LeavingBrowser:
        """The address for a browser that is to return to `return_to` afterwards; SignInRefusedError."""
        waiting = _Waiting(make_secret(), make_secret(), make_secret(), return_to, self._clock.now_ms() + WAITS_MS)
        try:
            url = await self._client.authorization_url(redirect_uri, waiting.state, waiting.nonce, waiting.verifier)
        except ProviderError as error:
            raise self._refuse("unavailable", str(error)) from error
        sealed = self._sealer.seal("", _SEALED_AS, msgspec.json.encode(waiting).decode())
        return LeavingBrowser(url, sealed.hex())

    async def finish(
        self,
        code: str | None,
        state: str | None,
        issuer: str | None,
        kept: str | None,
        redirect_uri: str,
        origin: Origin,
    ) -> tuple[BegunSession, str]:
        """Begin a session for a browser that is back, and return the path it asked to return to; SignInRefusedError.

        `code`, `state` and `issuer` are what the provider has sent it back with, `kept` is its cookie.
        """
        waiting = self._open(kept)
        if waiting is None or not hmac.compare_digest((state or "").encode(), waiting.state.encode()):
            raise self._refuse("expired", "the browser came back too late, or without having left")
        if code is None:
            raise self._refuse("cancelled", "the provider sent the browser back without a code")
        try:
            identity = await self._client.identify(code, redirect_uri, waiting.nonce, waiting.verifier, issuer)
        except ProviderError as error:
            raise self._refuse("unavailable", str(error)) from error
        subject = f"{identity.issuer} {identity.subject}"
        if self._group is not None and self._group not in identity.groups:
            await self._shut_out(subject, identity.email)
            raise self._refuse("not_in_group", "a person is not in the group whose members may sign in")
        principal = None if len(subject) > _SUBJECT_MAX else await self._member(subject, identity.email)
        if principal is None:
            raise self._refuse("unknown_member", "no member has this verified e-mail address")
        return await self._sessions.begin_for(principal, origin), waiting.return_to

    async def _member(self, subject: str, email: str | None) -> Principal | None:
        def describe(found: SignedIn) -> Act | None:
            if found.principal is None or found.revoked is None:
                return None
            revoked = {"revoked_keys": found.revoked.keys, "ended_sessions": found.revoked.sessions}
            return Act("member.linked", target=found.principal.email, detail={"subject": subject, **revoked})

        now = self._clock.now_ms()
        work = with_entry(lambda c: members.sign_in_as(c, subject, email, now), SERVER, describe, now)
        return (await self._database.write(work)).principal

    async def _shut_out(self, subject: str, email: str | None) -> None:
        """Revoke what somebody has who may not sign in any more."""

        def describe(found: tuple[str | None, Revoked]) -> Act | None:
            target, revoked = found
            if revoked == Revoked(0, 0):
                return None
            return Act("member.shut_out", target=target, detail={
                "subject": subject, "revoked_keys": revoked.keys, "ended_sessions": revoked.sessions,
            })  # fmt: skip

        work = with_entry(lambda c: members.shut_out(c, subject, email), SERVER, describe, self._clock.now_ms())
        await self._database.write(work)

    def _open(self, kept: str | None) -> _Waiting | None:
        """The state that was kept in the browser; None if it is not ours, or too old."""
        try:
            text = self._sealer.open("", _SEALED_AS, bytes.fromhex(kept or ""))
        except (ValueError, CannotOpenError):
            return None
        waiting = msgspec.json.decode(text, type=_Waiting)
        return waiting if waiting.until > self._clock.now_ms() else None

    def _refuse(self, why: str, reason: str) -> SignInRefusedError:
        self._observe(SignInFailed(reason))
        return SignInRefusedError(why)
