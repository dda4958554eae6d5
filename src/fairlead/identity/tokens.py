"""Verification of JSON Web Tokens: issuer, audience, expiry, and the claims about the caller (R-37).

PyJWT checks signatures only. The claims are checked here, by our clock and in a fixed order, so that every refusal has
one reason that is fit for a log.
"""

import base64
import binascii
import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jiter
import msgspec

from fairlead.domain.accounts.token_issuers import TokenKind
from fairlead.identity.key_sets import KeySource, VerificationKey

_TOKEN_BYTES_MAX: Final = 8 * 1024
_WORKSPACE_CHARACTERS_MAX: Final = 64
_MODELS_MAX: Final = 100
_TIME_MAX: Final = 253_402_300_799  # the end of the year 9999: a time in milliseconds is a mistake
_CACHE_ENTRIES_MAX: Final = 4096
_CACHE_SECONDS: Final = 60.0
_FORM: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)")


class InvalidTokenError(Exception):
    """A token that is not valid. The text is a reason for the log, and never repeats the token."""


class Claims(msgspec.Struct, frozen=True):
    """The claims of a verified token: its subject, workspace, models (`None`: all), and expiry in seconds.

    `kind` is the kind of its issuer's tokens.
    """

    subject: str
    workspace: str
    models: tuple[str, ...] | None
    expires_at: int
    kind: TokenKind = TokenKind.SESSION


class TokenIssuer(msgspec.Struct, frozen=True):
    """A trusted issuer: its name in tokens (`iss`), the audience they are meant for (`aud`), and the keys.

    Each is needed. Without an issuer, keys that sign for several would open this server to all of them; without an
    audience, a token that was made for another service would open this one. ValueError for an empty name.
    """

    issuer: str
    audience: str
    keys: KeySource
    kind: TokenKind = TokenKind.SESSION

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience:
            raise ValueError("tokens are believed only of a named issuer and for a named audience")


class TokenVerifier:
    """Verifies the tokens of one issuer.

    The signature of a verified token is not checked again for at most a minute, and never past its expiry; so a key
    that its issuer withdraws goes on working that long for tokens already seen.
    """

    def __init__(
        self,
        issuer: TokenIssuer,
        *,
        leeway: float = 30,
        workspace_claim: str = "workspace",
        models_claim: str = "models",
        now: Callable[[], float] = time.time,
    ) -> None:
        from jwt.api_jws import PyJWS  # noqa: PLC0415 -- a server without tokens must not pay for PyJWT

        self._signatures = PyJWS(algorithms=sorted(issuer.keys.algorithms))
        self._issuer = issuer
        self._keys = issuer.keys
        self._leeway = leeway
        self._workspace_claim = workspace_claim
        self._models_claim = models_claim
        self._now = now
        self._verified: dict[bytes, tuple[float, Claims]] = {}

    async def verify(self, token: str) -> Claims:
        """Return the claims of a token; InvalidTokenError when it is not valid, KeysUnavailableError."""
        if len(token) > _TOKEN_BYTES_MAX:
            raise InvalidTokenError("the token is too long")
        if (form := _FORM.fullmatch(token)) is None:
            raise InvalidTokenError("the token does not have the form of one")
        # Digests are cached: a cache of tokens would be a collection of credentials.
        digest = hashlib.sha256(token.encode()).digest()
        if (claims := self._recall(digest)) is not None:
            return claims
        claims = self._read_claims(await self._verify_form(token, form))
        self._remember(digest, claims)
        return claims

    async def verify_payload(self, token: str) -> Mapping[str, object]:
        """Return the claims of a token of any kind, such as an ID token; InvalidTokenError, KeysUnavailableError.

        Its signature, times, issuer and audience are verified. Nothing is cached.
        """
        if len(token) > _TOKEN_BYTES_MAX or (form := _FORM.fullmatch(token)) is None:
            raise InvalidTokenError("the token does not have the form of one")
        payload = await self._verify_form(token, form)
        self._check_party(payload)
        return payload

    async def _verify_form(self, token: str, form: re.Match[str]) -> dict[str, object]:
        header, payload, _ = (_decode(segment) for segment in form.groups())
        await self._check_signature(token, _read_object(header, "header"))
        return _read_object(payload, "payload")

    def is_named_by(self, payload: Mapping[str, object]) -> bool:
        """Whether claims name this issuer, and an audience of ours."""
        return payload.get("iss") == self._issuer.issuer and _is_meant_for(self._issuer.audience, payload.get("aud"))

    async def close(self) -> None:
        """Release what the source of keys holds."""
        await self._keys.close()

    async def _check_signature(self, token: str, header: Mapping[str, object]) -> None:
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._keys.algorithms:
            raise InvalidTokenError("the algorithm is not accepted")
        # An extension that is not understood must not be ignored (RFC 7515, section 4.1.11).
        if "crit" in header:
            raise InvalidTokenError("the header demands an extension")
        if not isinstance(kid, str | None):
            raise InvalidTokenError("the name of the key is not text")
        found = await self._keys.find(algorithm, kid)
        if not found:
            raise InvalidTokenError("the key is unknown")
        if not any(self._is_signed_with(key, token) for key in found):
            raise InvalidTokenError("the signature is wrong")

    def _is_signed_with(self, key: VerificationKey, token: str) -> bool:
        from jwt import PyJWTError  # noqa: PLC0415 -- a server without tokens must not pay for PyJWT

        try:
            self._signatures.decode_complete(token, key.material, algorithms=[key.algorithm])
        except PyJWTError:
            return False
        return True

    def _read_claims(self, payload: Mapping[str, object]) -> Claims:
        expires_at = self._check_party(payload)
        subject = _text(payload, "sub")
        workspace = _text(payload, self._workspace_claim)
        if len(workspace) > _WORKSPACE_CHARACTERS_MAX:
            raise InvalidTokenError("the name of the workspace is too long")
        return Claims(subject, workspace, _models(payload, self._models_claim), expires_at, self._issuer.kind)

    def _check_party(self, payload: Mapping[str, object]) -> int:
        """The expiry of a token that is valid now, of the issuer, and meant for us."""
        expires_at = self._check_times(payload)
        if payload.get("iss") != self._issuer.issuer:
            raise InvalidTokenError("the issuer is another")
        if not _is_meant_for(self._issuer.audience, payload.get("aud")):
            raise InvalidTokenError("the token is meant for another audience")
        return expires_at

    def _check_times(self, payload: Mapping[str, object]) -> int:
        now = self._now()
        expires_at = _time(payload, "exp")
        if expires_at is None:
            raise InvalidTokenError("the token never expires")
        if now >= expires_at + self._leeway:
            raise InvalidTokenError("the token has expired")
        for claim in ("nbf", "iat"):
            begins_at = _time(payload, claim)
            if begins_at is not None and begins_at > now + self._leeway:
                raise InvalidTokenError("the token is not valid yet")
        return int(expires_at)

    def _recall(self, digest: bytes) -> Claims | None:
        until, claims = self._verified.get(digest, (0.0, None))
        if claims is not None and self._now() >= until:
            del self._verified[digest]
            return None
        return claims

    def _remember(self, digest: bytes, claims: Claims) -> None:
        self._verified.pop(digest, None)
        if len(self._verified) >= _CACHE_ENTRIES_MAX:
            # A dict keeps the order of its additions, so this is the oldest one.
            del self._verified[next(iter(self._verified))]
        until = min(claims.expires_at + self._leeway, self._now() + _CACHE_SECONDS)
        self._verified[digest] = (until, claims)


class TokenVerifiers:
    """Verifies the tokens of several issuers and audiences, each by the keys of the issuer that it names."""

    def __init__(self, verifiers: Sequence[TokenVerifier]) -> None:
        self._verifiers = verifiers

    async def verify(self, token: str) -> Claims:
        """As by a TokenVerifier. The issuer that a token names is used only to choose the keys to try."""
        if len(self._verifiers) == 1:
            return await self._verifiers[0].verify(token)
        if len(token) > _TOKEN_BYTES_MAX or (form := _FORM.fullmatch(token)) is None:
            raise InvalidTokenError("the token does not have the form of one")
        payload = _read_object(_decode(form[2]), "payload")
        found = next((one for one in self._verifiers if one.is_named_by(payload)), None)
        if found is None:
            raise InvalidTokenError("the issuer is another, or the audience")
        return await found.verify(token)


def _decode(segment: str) -> bytes:
    """Decode base64url strictly: one text for one value, or a token could be altered and still be good."""
    try:
        data = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except binascii.Error:
        data = b""
    if base64.urlsafe_b64encode(data).rstrip(b"=") != segment.encode():
        raise InvalidTokenError("the token is not encoded as one")
    return data


def _read_object(text: bytes, part: str) -> dict[str, object]:
    try:
        document = jiter.from_json(text, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        raise InvalidTokenError(f"the {part} is not JSON") from error
    if not isinstance(document, dict):
        raise InvalidTokenError(f"the {part} is not a JSON object")
    return document


def _time(payload: Mapping[str, object], claim: str) -> float | None:
    """Read a time in seconds since 1970; None when the token has none."""
    if claim not in payload:
        return None
    value = payload[claim]
    # To Python the `true` of JSON is an integer.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _TIME_MAX:
        raise InvalidTokenError(f"the claim {claim} is not a time")
    return value


def _is_meant_for(audience: str, claimed: object) -> bool:
    return claimed == audience or (isinstance(claimed, list) and audience in claimed)


def _text(payload: Mapping[str, object], claim: str) -> str:
    """Read a claim that must be there and that ends up in logs and queries: no control characters."""
    value = payload.get(claim)
    if not isinstance(value, str) or not value or not value.isprintable():
        raise InvalidTokenError(f"the claim {claim} is missing or no printable text")
    return value


def _models(payload: Mapping[str, Any], claim: str) -> tuple[str, ...] | None:
    if claim not in payload:
        return None
    match payload[claim]:
        case [*names] if len(names) <= _MODELS_MAX and all(isinstance(name, str) for name in names):
            return tuple(names)
        case _:
            raise InvalidTokenError(f"the claim {claim} is not a list of at most {_MODELS_MAX} names")
