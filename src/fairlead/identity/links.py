"""Signed links: a URL that is its own credential, for one file, one way of showing it, and a time (R-36, C-06).

The signature is an HMAC-SHA256 over the path, the expiry and the content disposition with its name, as they are
spelled in the link. So nothing in a link can be changed, nor be written in another way.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote, urlencode

import msgspec

ASSET_PATH: Final = "/assets/"
FILE_PATH: Final = "/files/"
ARCHIVE_PATH: Final = "/archives/"
KEY_BYTES_MIN: Final = 32
_PURPOSE: Final = "fairlead asset link 1"
_EXPIRES_CHARACTERS_MAX: Final = 15


class LinkRefusedError(Exception):
    """A link that is not valid: it was altered, was never ours, or has expired (`expired`)."""

    def __init__(self, *, expired: bool) -> None:
        super().__init__("the link has expired" if expired else "the link is not one of ours")
        self.expired = expired


class LinkParts(msgspec.Struct, frozen=True):
    """The parts of a link as they were sent, decoded from the URL and nothing more."""

    id: str
    expires: str
    disposition: str
    name: str
    signature: str


class Links:
    """Signs links below one path and verifies them, with keys of at least 32 bytes that never leave the server.

    Keys may change, so `key` returns the current ones: the first signs, and links that the others signed are valid too.
    """

    def __init__(self, key: bytes | Callable[[], Sequence[bytes]], path: str = ASSET_PATH) -> None:
        self._keys = key if callable(key) else lambda: (key,)
        if any(len(known) < KEY_BYTES_MIN for known in self._keys()):
            raise ValueError(f"the key of signed links has at least {KEY_BYTES_MIN} bytes")
        self._path = path

    def sign(self, id_: str, expires_at: int, name: str, disposition: str) -> str:
        """Path and query of a link that is valid until `expires_at`, in seconds since 1970."""
        signature = self._signature(self._keys()[0], id_, str(expires_at), disposition, name)
        query = {"expires": str(expires_at), "disposition": disposition, "name": name, "signature": signature}
        return f"{self._path}{quote(id_, safe='')}?{urlencode(query)}"

    def verify(self, parts: LinkParts, now: float) -> int:
        """Return when a valid link expires, in seconds since 1970; LinkRefusedError. Takes the same time for any."""
        given = parts.signature.encode("utf-8", "surrogatepass")
        texts = (parts.id, parts.expires, parts.disposition, parts.name)
        good = [hmac.compare_digest(self._signature(key, *texts).encode(), given) for key in self._keys()]
        if not any(good):
            raise LinkRefusedError(expired=False)
        if not parts.expires.isdigit() or len(parts.expires) > _EXPIRES_CHARACTERS_MAX:
            raise LinkRefusedError(expired=False)
        expires_at = int(parts.expires)
        if now >= expires_at:
            raise LinkRefusedError(expired=True)
        return expires_at

    def _signature(self, key: bytes, *parts: str) -> str:
        # A list in JSON has one reading only, so that no text can pass from one part into the next.
        message = msgspec.json.encode(
            [_PURPOSE, self._path, *(part.encode("utf-8", "surrogatepass").hex() for part in parts)]
        )
        digest = hmac.digest(key, message, hashlib.sha256)
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
