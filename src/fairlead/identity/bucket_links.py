"""Links straight to an object of an S3-compatible store: signed by AWS Signature Version 4, in the query.

The signature is an HMAC over a text that both sides make of the request, so it takes no call. The store then answers
with the type and the disposition that the link names, until the link expires.
"""

import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec

SECONDS_MAX: Final = 604_800
"""The longest validity of such a link: seven days, by the rules of S3."""
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SERVICE: Final = "s3"


class BucketKey(msgspec.Struct, frozen=True):
    """A credential of a store; `token` is that of a session, where it is one of those. Its repr has no secret."""

    id: str
    secret: str
    token: str | None = None

    def __repr__(self) -> str:
        return f"BucketKey({self.id!r})"


class BucketLinks:
    """Signs links to the objects of one bucket. `endpoint` is where callers reach the store, `prefix` may be empty."""

    def __init__(
        self, endpoint: str, region: str, bucket: str, prefix: str, key: BucketKey, now_ns: Callable[[], int]
    ) -> None:
        parts = urlsplit(endpoint)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
        self._folder = "/".join(part for part in (parts.path.strip("/"), bucket, prefix) if part)
        self._region = region
        self._key = key
        self._now_ns = now_ns

    def sign(self, name: str, seconds: int, content_type: str, disposition: str) -> str:
        """A link to GET an object, good for `seconds`, or seven days where that is more."""
        at = datetime.fromtimestamp(self._now_ns() // 1_000_000_000, UTC)
        stamp, day = at.strftime("%Y%m%dT%H%M%SZ"), at.strftime("%Y%m%d")
        scope = f"{day}/{self._region}/{_SERVICE}/aws4_request"
        fields = {
            "X-Amz-Algorithm": _ALGORITHM,
            "X-Amz-Credential": f"{self._key.id}/{scope}",
            "X-Amz-Date": stamp,
            "X-Amz-Expires": str(min(max(seconds, 1), SECONDS_MAX)),
            "X-Amz-SignedHeaders": "host",
            "response-content-disposition": disposition,
            "response-content-type": content_type,
        }
        if self._key.token is not None:
            fields["X-Amz-Security-Token"] = self._key.token
        query = "&".join(f"{_quote(field)}={_quote(fields[field])}" for field in sorted(fields))
        path = "/" + quote(f"{self._folder}/{name}", safe="/-_.~")
        request = f"GET\n{path}\n{query}\nhost:{self._host}\n\nhost\nUNSIGNED-PAYLOAD"
        text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.new(self._signing_key(day), text.encode(), hashlib.sha256).hexdigest()
        return f"{self._origin}{path}?{query}&X-Amz-Signature={signature}"

    def _signing_key(self, day: str) -> bytes:
        key = f"AWS4{self._key.secret}".encode()
        for part in (day, self._region, _SERVICE, "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key


def _quote(text: str) -> str:
    return quote(text, safe="-_.~")
