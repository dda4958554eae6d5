"""Signing people in at an OpenID Connect provider: authorization code with PKCE, state and nonce.

What the provider says of itself is read from its discovery document, the code is exchanged by us, and the ID token is
verified as any other token, by the keys the provider publishes (OpenID Connect Core 1.0; RFC 7636).
"""

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from fairlead.http_client.transport import Transport, TransportError
from fairlead.identity.key_sets import KeysUnavailableError, KeyUrl
from fairlead.identity.tokens import InvalidTokenError, TokenIssuer, TokenVerifier

T = TypeVar("T")

_DISCOVERY: Final = "/.well-known/openid-configuration"
_SECONDS: Final = 10.0
_ANSWER_MAX: Final = 256 * 1024
_METADATA_SECONDS: Final = 3600.0
_SUCCESS: Final = 200
_TEXT_MAX: Final = 254
_POST: Final = "client_secret_post"


class ProviderError(Exception):
    """The provider cannot be asked, or says what cannot be believed. The text is for a log, and has no secret."""


class OidcProvider(msgspec.Struct, frozen=True):
    """A provider and this installation as its client; without a secret the client is a public one."""

    issuer: str
    client_id: str
    client_secret: str | None
    scopes: str


class Metadata(msgspec.Struct, frozen=True):
    """What a provider says of itself, as far as it matters here."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class Identity(msgspec.Struct, frozen=True):
    """Who has signed in: the subject at the issuer, and the e-mail address where the provider has verified it."""

    issuer: str
    subject: str
    email: str | None


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str


class OidcClient:
    """Talks to one provider."""

    def __init__(self, provider: OidcProvider, leeway: float = 30) -> None:
        self._provider = provider
        self._leeway = leeway
        self._transport = Transport()
        self._known: tuple[float, Metadata, TokenVerifier] | None = None

    async def authorization_url(self, redirect_uri: str, state: str, nonce: str, verifier: str) -> str:
        """Where a browser goes to sign in; ProviderError."""
        metadata, _ = await self._metadata()
        query = {
            "response_type": "code",
            "client_id": self._provider.client_id,
            "redirect_uri": redirect_uri,
            "scope": self._provider.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        separator = "&" if urlsplit(metadata.authorization_endpoint).query else "?"
        return f"{metadata.authorization_endpoint}{separator}{urlencode(query)}"

    async def identify(self, code: str, redirect_uri: str, nonce: str, verifier: str) -> Identity:
        """Who has signed in, from the code that the browser came back with; ProviderError."""
        metadata, tokens = await self._metadata()
        id_token = await self._exchange(metadata, code, redirect_uri, verifier)
        try:
            said = await tokens.verify_payload(id_token)
        except (InvalidTokenError, KeysUnavailableError) as error:
            raise ProviderError(f"the ID token is not good: {error}") from error
        audience, party = said.get("aud"), said.get("azp")
        if (isinstance(audience, list) and len(audience) > 1 and party is None) or (
            party not in (None, self._provider.client_id)
        ):
            raise ProviderError("the ID token was made for another client")
        if not hmac.compare_digest(str(said.get("nonce", "")).encode(), nonce.encode()):
            raise ProviderError("the ID token is of another sign-in")
        return Identity(metadata.issuer, _subject(said), _verified_email(said))

    async def close(self) -> None:
        """Close the connections."""
        if self._known is not None:
            await self._known[2].close()
        await self._transport.close()

    async def _metadata(self) -> tuple[Metadata, TokenVerifier]:
        """What the provider says of itself, asked again once an hour; and what verifies its tokens."""
        if self._known is not None and self._known[0] > time.monotonic():
            return self._known[1], self._known[2]
        issuer = self._provider.issuer.rstrip("/")
        metadata = await self._ask("GET", issuer + _DISCOVERY, {}, None, Metadata)
        if metadata.issuer.rstrip("/") != issuer:
            raise ProviderError("the discovery document is of another issuer")
        for url in (metadata.authorization_endpoint, metadata.token_endpoint, metadata.jwks_uri):
            if urlsplit(url).scheme not in ("https", urlsplit(issuer).scheme):
                raise ProviderError("the discovery document names an address without TLS")
        before = self._known
        if before is not None and before[1].jwks_uri == metadata.jwks_uri:
            tokens = before[2]
        else:
            keys = KeyUrl(metadata.jwks_uri)
            tokens = TokenVerifier(TokenIssuer(metadata.issuer, self._provider.client_id, keys), leeway=self._leeway)
        self._known = time.monotonic() + _METADATA_SECONDS, metadata, tokens
        return metadata, tokens

    async def _exchange(self, metadata: Metadata, code: str, redirect_uri: str, verifier: str) -> str:
        """The ID token for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
            "client_id": self._provider.client_id,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        secret, methods = self._provider.client_secret, metadata.token_endpoint_auth_methods_supported
        if secret is not None and _POST in methods and "client_secret_basic" not in methods:
            form["client_secret"] = secret
        elif secret is not None:
            # Both are form-encoded before they are joined (RFC 6749, 2.3.1).
            pair = f"{quote(self._provider.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        content = urlencode(form).encode()
        return (await self._ask("POST", metadata.token_endpoint, headers, content, _Tokens)).id_token

    async def _ask(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None, form: type[T]) -> T:
        try:
            reply = await self._transport.send(
                method, url, {"Accept": "application/json", **headers}, content, seconds=_SECONDS, limit=_ANSWER_MAX
            )
        except TransportError as error:
            raise ProviderError(f"the provider cannot be asked: {type(error).__name__}") from error
        if reply.status != _SUCCESS:
            raise ProviderError(f"the provider answered with status {reply.status}")
        try:
            return msgspec.json.decode(reply.content, type=form)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ProviderError("the provider's answer cannot be read") from error


def challenge_of(verifier: str) -> str:
    """What is shown of a verifier before the code is exchanged (RFC 7636, S256)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _subject(said: Mapping[str, object]) -> str:
    subject = said.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _TEXT_MAX or not subject.isprintable():
        raise ProviderError("the ID token has no usable subject")
    return subject


def _verified_email(said: Mapping[str, object]) -> str | None:
    """The e-mail address, where the provider says that it is verified: else anybody could claim a member's."""
    email = said.get("email")
    is_verified = said.get("email_verified") is True
    return email.lower() if is_verified and isinstance(email, str) and len(email) <= _TEXT_MAX else None
