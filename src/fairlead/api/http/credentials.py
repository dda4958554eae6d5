"""Which header won (R-37): `X-API-Key` before `Authorization`; a bearer value with our prefix is an API key."""

from typing import Final

from fairlead.api.http.asgi import Scope, header
from fairlead.domain.faults import FaultError, Unauthorized
from fairlead.operations.accounts.authenticate import ApiKey, Credential, Token

CREDENTIAL_MAX: Final = 8 * 1024


def key_or_token(scope: Scope, key_prefix: str) -> Credential | None:
    """The credential of a v2 call; None when it has none. FaultError for one that is not even text."""
    api_key = header(scope, b"x-api-key")
    if api_key is not None:
        return ApiKey(_text(api_key))
    authorization = header(scope, b"authorization")
    text = None if authorization is None else _bearer(authorization)
    if text is None:
        return None
    return ApiKey(text) if text.startswith(key_prefix) else Token(text)


def key_or_token_of(text: str | None, key_prefix: str) -> Credential | None:
    """The credential that a body names; None where it names none. FaultError for one that cannot be one."""
    if not text:
        return None
    known = _text(text.encode("utf-8", "replace"))
    return ApiKey(known) if known.startswith(key_prefix) else Token(known)


def token_only(scope: Scope, key_prefix: str) -> Credential | None:
    """The credential of a v1 call: a bearer token and nothing else (R-40). FaultError for anything else."""
    authorization = header(scope, b"authorization")
    text = None if authorization is None else _bearer(authorization)
    if text is None or text.startswith(key_prefix):
        raise FaultError(Unauthorized("v1 takes a JSON Web Token in Authorization; API keys belong to v2."))
    return Token(text)


def _bearer(value: bytes) -> str | None:
    scheme, _, rest = value.partition(b" ")
    return _text(rest.strip()) if scheme.lower() == b"bearer" and rest.strip() else None


def _text(value: bytes) -> str:
    if len(value) > CREDENTIAL_MAX:
        raise FaultError(Unauthorized("The credential is too long."))
    try:
        return value.decode("ascii")
    except UnicodeDecodeError as error:
        raise FaultError(Unauthorized("The credential has characters no credential has.")) from error
