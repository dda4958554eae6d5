"""Our credentials with partners, and the headers each becomes.

A partner may be given several credentials with weights; they are taken in turn by weight. A caller's own credential
(BYOK, R-17) becomes headers in the same way, and is never kept here.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from fairlead.providers.answers import ReplyRedactor
from fairlead.providers.request_signatures import OutgoingRequest, tc3_headers
from fairlead.providers.spec import Auth, Provider, Scheme

_LABEL_LENGTH: Final = 12
_RENEW_BEFORE: Final = 60
_NOT_BEFORE_SLACK: Final = 5


class BadCredentialError(Exception):
    """A credential does not have the form that its partner requires; the message never repeats it."""


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A credential as an operator gave it, and its weight among the others."""

    text: str
    weight: int = 1


class _ServiceAccount(msgspec.Struct, frozen=True):
    client_email: str
    private_key: str
    private_key_id: str | None = None


@dataclass(slots=True, repr=False)
class Credential:
    """One credential of one partner. `label` names it in the ledger and metrics without revealing anything of it."""

    label: str
    auth: Auth
    text: str
    weight: int = 1
    credit: int = 0
    fixed: Mapping[str, str] | None = field(init=False, default=None)
    """The headers that show it, where they are the same for every request."""
    _token: str = ""
    _token_until: float = field(default=0.0)

    def __post_init__(self) -> None:
        if self.auth.scheme in (Scheme.HEADER, Scheme.NONE):
            self.fixed = self.headers(0.0)

    def headers(self, now: float, request: OutgoingRequest | None = None) -> dict[str, str]:
        """The headers that show it; `now` is in seconds since 1970. BadCredentialError.

        Without the request they belong to, a scheme that signs requests only checks the form of the credential.
        """
        names, prefix = self.auth.headers, self.auth.prefix
        match self.auth.scheme:
            case Scheme.HEADER:
                return {names[0]: prefix + self.text}
            case Scheme.NONE:
                return {}
            case Scheme.PAIR:
                return {names[0]: prefix + self._part(0), names[1]: self._part(1)}
            case Scheme.JWT:
                return {names[0]: prefix + self._sign(now)}
            case Scheme.TC3:
                return self._signing(now, request)

    def secrets(self) -> tuple[str, ...]:
        """What must be removed from the partner's answers: the text, its parts, and the signatures of tokens.

        Of a token only the signature is secret: its head is the same for all tokens, and its claims prove nothing
        alone. The private key of a service account is never sent.
        """
        if self.auth.scheme is Scheme.JWT and self.auth.algorithm == "RS256":
            return (self._token.rpartition(".")[2],)
        return (self.text, *self.text.split(":", 1), self._token.rpartition(".")[2])

    def _signing(self, now: float, request: OutgoingRequest | None) -> dict[str, str]:
        """The headers that sign one request."""
        secret_id, secret_key = self._part(0), self._part(1)
        if not all(text.isascii() and text.isprintable() for text in (secret_id, secret_key)):
            raise BadCredentialError("this provider's credential is made of printable ASCII")
        if request is None:
            return {}
        service = self.auth.service
        return dict(tc3_headers(request, secret_id=secret_id, secret_key=secret_key, service=service, now=now))

    def _part(self, number: int) -> str:
        parts = self.text.partition(":")
        if not parts[2]:
            raise BadCredentialError("this provider's credential has two parts, joined by a colon")
        return parts[0] if number == 0 else parts[2]

    def _sign(self, now: float) -> str:
        """A token of ours, renewed a minute before the last one expires."""
        if now < self._token_until:
            return self._token
        claims: dict[str, object] = {"nbf": int(now) - _NOT_BEFORE_SLACK, "exp": int(now) + self.auth.lifetime}
        if self.auth.audience is not None:
            claims["aud"] = self.auth.audience
        self._token = self._by_account(claims, now) if self.auth.algorithm == "RS256" else self._by_secret(claims)
        self._token_until = now + self.auth.lifetime - _RENEW_BEFORE
        return self._token

    def _by_secret(self, claims: dict[str, object]) -> str:
        return _encode({"iss": self._part(0), **claims}, self._part(1), "HS256", None)

    def _by_account(self, claims: dict[str, object], now: float) -> str:
        try:
            account = msgspec.json.decode(self.text, type=_ServiceAccount)
            claims = {"iss": account.client_email, "sub": account.client_email, "iat": int(now), **claims}
            headers = None if account.private_key_id is None else {"kid": account.private_key_id}
            return _encode(claims, account.private_key, "RS256", headers)
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise BadCredentialError("this provider's credential is the JSON of a service account") from error


class Credentials:
    """Every credential we have, by partner. `now` is in seconds since 1970."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        secrets: Mapping[str, Sequence[Secret]],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._now = now
        self._readers: dict[str, Credential] = {}
        self._auth = {name: provider.auth for name, provider in providers.items()}
        self._known = {name: _credentials_of(provider, secrets.get(name, ())) for name, provider in providers.items()}
        self._redactors: dict[str, tuple[tuple[str, ...], ReplyRedactor]] = {}

    def all(self, provider: str) -> Sequence[Credential]:
        """Those of a partner; a partner that requires none has one without headers."""
        return self._known.get(provider, ())

    def redactor(self, provider: str, credential: Credential) -> ReplyRedactor:
        """Removes the credential of a call, and all of ours at this partner, from its answer.

        It is cached as long as these are the same; one for a caller's own credential is not.
        """
        known = self._redactors.get(provider)
        if known is not None and credential.fixed is not None and credential.label != OWN:
            return known[1]
        ours = tuple(text for one in self.all(provider) for text in one.secrets())
        if credential.label == OWN:
            return ReplyRedactor((*ours, *credential.secrets()))
        if known is None or known[0] != ours:  # tokens are renewed, and with them what is secret
            known = self._redactors[provider] = (ours, ReplyRedactor(ours))
        return known[1]

    def next(self, provider: str, may: Callable[[Credential], bool] | None = None) -> Credential | None:
        """Take the next of those that may be taken, in turn by weight; None when there is none.

        Each gains its weight and the one with the most pays for all: smooth even with uneven weights.
        """
        usable = self._known.get(provider, ())
        if len(usable) == 1:
            return usable[0] if may is None or may(usable[0]) else None
        usable = [one for one in usable if may is None or may(one)]
        if not usable:
            return None
        for one in usable:
            one.credit += one.weight
        chosen = max(usable, key=lambda one: one.credit)
        chosen.credit -= sum(one.weight for one in usable)
        return chosen

    def find_by_label(self, provider: str, label: str) -> Credential | None:
        """The credential that work was taken under; any other of the partner where that one was removed."""
        known = self._known.get(provider, ())
        return next((one for one in known if one.label == label), known[0] if known else None)

    def own(self, provider: str, text: str) -> Credential:
        """A caller's own, for one run."""
        return Credential(OWN, self._auth[provider], text)

    def headers(self, credential: Credential, request: OutgoingRequest | None = None) -> dict[str, str]:
        """The headers that show a credential with a request now; BadCredentialError."""
        return credential.headers(self._now(), request)

    def storage_headers(self, provider: Provider) -> dict[str, str]:
        """The headers with which the storage that a partner writes to is read; BadCredentialError."""
        reader = self._readers.get(provider.name)
        if reader is None:
            known = self.all(provider.name)
            if provider.storage is None or not known:
                raise BadCredentialError("nothing is known to read this provider's storage with")
            auth = replace(provider.auth, audience=provider.storage.audience or provider.auth.audience)
            reader = self._readers[provider.name] = Credential("storage", auth, known[0].text)
        return self.headers(reader)

    def check(self) -> Iterable[tuple[str, str]]:
        """The partners whose credentials do not have the form they want, and what is wrong; for the start."""
        for provider, known in self._known.items():
            for one in known:
                try:
                    one.headers(self._now())
                except BadCredentialError as error:
                    yield provider, str(error)


OWN: Final = "own"


def _credentials_of(provider: Provider, secrets: Sequence[Secret]) -> list[Credential]:
    if provider.auth.scheme is Scheme.NONE:
        return [Credential("none", provider.auth, "")]
    return [Credential(_label(one.text), provider.auth, one.text, one.weight) for one in secrets]


def _encode(claims: dict[str, object], key: str, algorithm: str, headers: dict[str, Any] | None) -> str:
    """Sign a token; ValueError for a key it cannot be signed with."""
    import jwt  # noqa: PLC0415 -- a server whose partners want no tokens must not pay 9 MB for PyJWT

    try:
        return jwt.encode(claims, key, algorithm=algorithm, headers=headers)
    except jwt.PyJWTError as error:
        raise ValueError("the key cannot sign") from error


def _label(text: str) -> str:
    """A name for a credential: a part of its digest, which reveals nothing of it and survives a restart."""
    return hashlib.sha256(b"credential label:" + text.encode()).hexdigest()[:_LABEL_LENGTH]
