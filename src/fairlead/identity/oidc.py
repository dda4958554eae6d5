"""Signing people in at an OpenID Connect provider: authorization code with PKCE, state and nonce.

Authlib makes the requests of the flow and compares an ID token's claims with the sign-in (OpenID Connect Core 1.0; RFC
6749, 7636). The requests go through our own HTTP client, within its bounds, and the ID token is verified first like any
other token, by the keys that the provider publishes.
"""

import base64
import time
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

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
_BASIC: Final = "client_secret_basic"
_POST: Final = "client_secret_post"


class ProviderError(Exception):
    """The provider does not answer, or its answer cannot be trusted. The text is for a log, and has no secret."""


class OidcProvider(msgspec.Struct, frozen=True):
    """A provider and this installation as its client; without a secret the client is a public one."""

    issuer: str
    client_id: str
    client_secret: str | None
    scopes: str
    groups_claim: str = "groups"


class Metadata(msgspec.Struct, frozen=True):
    """The metadata of a provider that are used here."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: tuple[str, ...] = (_BASIC,)
    authorization_response_iss_parameter_supported: bool = False


class Identity(msgspec.Struct, frozen=True):
    """Who has signed in: the subject at the issuer, the e-mail address where that is verified, and the groups."""

    issuer: str
    subject: str
    email: str | None
    groups: frozenset[str] = frozenset()


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str


class OidcClient:
    """A client of one provider."""

    def __init__(self, provider: OidcProvider, leeway: float = 30) -> None:
        from authlib.oauth2 import OAuth2Client  # noqa: PLC0415 -- a server without single sign-on must not pay for it

        self._provider = provider
        self._leeway = leeway
        self._transport = Transport()
        self._flow = OAuth2Client(
            None,
            provider.client_id,
            provider.client_secret,
            scope=provider.scopes,
            code_challenge_method="S256",
        )
        self._flow.register_client_auth_method((_BASIC, _authorize_basic))
        self._known: tuple[float, Metadata, TokenVerifier] | None = None

    async def authorization_url(self, redirect_uri: str, state: str, nonce: str, verifier: str) -> str:
        """Where a browser goes to sign in; ProviderError."""
        metadata, _ = await self._metadata()
        try:
            url, _ = self._flow.create_authorization_url(
                metadata.authorization_endpoint, state, verifier, nonce=nonce, redirect_uri=redirect_uri
            )
        except ValueError as error:
            raise ProviderError("the provider's page has an address that cannot be read") from error
        return str(url)

    async def identify(
        self, code: str, redirect_uri: str, nonce: str, verifier: str, issuer: str | None = None
    ) -> Identity:
        """Who has signed in, from the code and the issuer that the browser came back with; ProviderError.

        A code that another provider has given is sent nowhere (RFC 9207).
        """
        metadata, tokens = await self._metadata()
        _check_issuer(metadata, issuer)
        id_token = await self._exchange(metadata, code, redirect_uri, verifier)
        try:
            said = await tokens.verify_payload(id_token)
        except (InvalidTokenError, KeysUnavailableError) as error:
            raise ProviderError(f"the ID token is not good: {error}") from error
        self._check_sign_in(said, nonce)
        groups = _groups(said.get(self._provider.groups_claim))
        return Identity(metadata.issuer, _subject(said), _verified_email(said), groups)

    async def close(self) -> None:
        """Close the connections."""
        if self._known is not None:
            await self._known[2].close()
        await self._transport.close()

    async def _metadata(self) -> tuple[Metadata, TokenVerifier]:
        """The provider's metadata, read again once an hour, and the verifier of its tokens."""
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

    def _check_sign_in(self, said: Mapping[str, object], nonce: str) -> None:
        """Compare a verified ID token with its sign-in; ProviderError."""
        from authlib.oidc.core import CodeIDToken  # noqa: PLC0415 -- see __init__
        from joserfc.errors import ClaimError  # noqa: PLC0415 -- same

        claims = CodeIDToken(said, {}, params={"nonce": nonce, "client_id": self._provider.client_id})
        try:
            claims.validate(leeway=int(self._leeway))
        except ClaimError as error:
            raise ProviderError(f"the ID token is not of this sign-in: its {error.claim!r} is wrong") from error

    async def _exchange(self, metadata: Metadata, code: str, redirect_uri: str, verifier: str) -> str:
        """The ID token for a code."""
        from authlib.oauth2.rfc6749.parameters import prepare_token_request  # noqa: PLC0415 -- see __init__

        body = prepare_token_request("authorization_code", "", redirect_uri, code=code, code_verifier=verifier)
        method = _client_auth_method(self._provider, metadata)
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        auth: Any = self._flow.client_auth(method)
        url, headers, body = auth.prepare("POST", metadata.token_endpoint, headers, body)
        return (await self._ask("POST", url, headers, body.encode(), _Tokens)).id_token

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


def _check_issuer(metadata: Metadata, named: str | None) -> None:
    """Compare the issuer that a browser came back with, as text (RFC 9207, 2.4); ProviderError."""
    if named is None and metadata.authorization_response_iss_parameter_supported:
        raise ProviderError("the browser has come back without the name of its provider")
    if named is not None and named != metadata.issuer:
        raise ProviderError("the browser has come back from another provider")


def _client_auth_method(provider: OidcProvider, metadata: Metadata) -> str:
    if provider.client_secret is None:
        return "none"
    methods = metadata.token_endpoint_auth_methods_supported
    return _POST if _POST in methods and _BASIC not in methods else _BASIC


def _authorize_basic(client: Any, _method: str, url: str, headers: dict[str, str], body: str) -> tuple[Any, ...]:
    """Name the client in a header.

    Authlib's own way joins id and secret without encoding them first (RFC 6749, 2.3.1), so that a provider misreads
    them where they hold a colon or a letter beyond ASCII.
    """
    pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
    headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return url, headers, body


def _subject(said: Mapping[str, object]) -> str:
    subject = said.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _TEXT_MAX or not subject.isprintable():
        raise ProviderError("the ID token has no usable subject")
    return subject


def _verified_email(said: Mapping[str, object]) -> str | None:
    """The e-mail address, if the provider says that it is verified: otherwise anybody could claim a member's."""
    email = said.get("email")
    is_verified = said.get("email_verified") is True
    return email.lower() if is_verified and isinstance(email, str) and len(email) <= _TEXT_MAX else None


def _groups(said: object) -> frozenset[str]:
    """The groups that a claim names: a list of texts, or one text; none for anything else."""
    named = said if isinstance(said, list) else [said]
    return frozenset(one for one in named if isinstance(one, str))
