"""Signatures over whole requests, for partners that want every request signed with the credential."""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import msgspec

_TC3: Final = "TC3-HMAC-SHA256"
_TC3_SCOPE_END: Final = "tc3_request"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class OutgoingRequest(msgspec.Struct, frozen=True):
    """What a signature covers: the request as it will be sent. `content_type` is absent where none is sent."""

    method: str
    url: str
    content_type: str | None
    body: bytes


def tc3_headers(
    request: OutgoingRequest, *, secret_id: str, secret_key: str, service: str, now: float
) -> Mapping[str, str]:
    """The headers that sign a request for version 3 of Tencent Cloud's API; `now` is in seconds since 1970.

    Source: "Signature v3" (TC3-HMAC-SHA256) of the Tencent Cloud API reference. The partner takes a signature for
    five minutes from its timestamp on. Of the headers, the content type and the host are signed.
    """
    timestamp = int(now)
    parts = urlsplit(request.url)
    signed = {"host": _authority(request.url)}
    if request.content_type is not None:
        signed = {"content-type": request.content_type, **signed}
    names = ";".join(signed)
    canonical = "\n".join(
        (
            request.method,
            parts.path or "/",
            parts.query,
            "".join(f"{name}:{value.strip().lower()}\n" for name, value in signed.items()),
            names,
            hashlib.sha256(request.body).hexdigest(),
        )
    )
    date = datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d")
    scope = f"{date}/{service}/{_TC3_SCOPE_END}"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = b"TC3" + secret_key.encode()
    for part in (date, service, _TC3_SCOPE_END):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, "\n".join((_TC3, str(timestamp), scope, digest)).encode(), "sha256").hex()
    credential = f"Credential={secret_id}/{scope}"
    return {
        "Authorization": f"{_TC3} {credential}, SignedHeaders={names}, Signature={signature}",
        "X-TC-Timestamp": str(timestamp),
    }


def _authority(url: str) -> str:
    """The host as the header `Host` names it: with its port where that is not the scheme's own."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    named = f"[{host}]" if ":" in host else host
    return named if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f"{named}:{parts.port}"
