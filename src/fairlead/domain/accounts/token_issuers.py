"""The token issuers that an operator trusts, as a list of records (J-09, R-37).

Each record is `{issuer, audience, keys, kind}`: the issuer that a token names (`iss`), the audience or audiences it may
be meant for (`aud`), a file or URL with its key set, and the kind of its tokens: of a session, or of OAuth.
"""

import enum
from collections.abc import Sequence
from typing import Final

import msgspec

_ISSUERS_MAX: Final = 20
_AUDIENCES_MAX: Final = 20
_TEXT_MAX: Final = 2_000


class TokenKind(enum.StrEnum):
    """The kind of a token."""

    SESSION = "session"
    """Of a person who has signed in."""
    OAUTH = "oauth"
    """Of an application that a person has allowed to act for them."""


class IssuerRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An issuer as an operator names it."""

    issuer: str
    audience: str | tuple[str, ...]
    keys: str
    kind: TokenKind = TokenKind.SESSION

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences its tokens may be meant for."""
        return (self.audience,) if isinstance(self.audience, str) else self.audience


def read_issuers(text: str | bytes) -> Sequence[IssuerRecord]:
    """Read a list of issuers from JSON; ValueError with what is wrong, which repeats nothing of it."""
    try:
        found = msgspec.json.decode(text, type=list[IssuerRecord])
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ValueError(f"must be a JSON array of objects with issuer, audience, keys and kind: {error}") from error
    if not 1 <= len(found) <= _ISSUERS_MAX:
        raise ValueError(f"must name 1 to {_ISSUERS_MAX} issuers")
    for number, one in enumerate(found, 1):
        texts = (one.issuer, one.keys, *one.audiences)
        if not one.audiences or len(one.audiences) > _AUDIENCES_MAX or not all(0 < len(t) <= _TEXT_MAX for t in texts):
            raise ValueError(f"issuer {number} needs an issuer, 1 to {_AUDIENCES_MAX} audiences and keys")
    pairs = [(one.issuer, audience) for one in found for audience in one.audiences]
    if len(set(pairs)) < len(pairs):
        raise ValueError("names an issuer twice for the same audience")
    return tuple(found)
