"""Result files under `/files/{token}/{name}`: whole or one range, and only for so long."""

import re
import secrets
from collections import OrderedDict

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from .media import Media
from .tasks import Clock

FILES_MAX = 20_000
KEEP_SECONDS = 3600.0
KEEP_BYTES_MAX = 256 * 1024 * 1024

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_EXPIRED = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
_UNKNOWN = b"<Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>"


class _File(msgspec.Struct, frozen=True):
    media: Media
    name: str
    expires: float
    status_expired: int


class Files:
    """The files handed out, bounded in number, age and bytes: the oldest is forgotten first."""

    def __init__(self, clock: Clock) -> None:
        """Begin with none."""
        self._clock = clock
        self._files: OrderedDict[str, _File] = OrderedDict()
        self._bytes = 0

    def add(self, media: Media, name: str, *, expired: str | None = None) -> str:
        """Give a file an address and return its path.

        With `expired` not None it has expired already, and answers the status named there, or 403.
        """
        token = secrets.token_urlsafe(18)
        now = self._clock.monotonic()
        expires = now + KEEP_SECONDS if expired is None else 0.0
        self._files[token] = _File(media, name, expires, 404 if expired == "404" else 403)
        self._bytes += len(media.content)
        while len(self._files) > FILES_MAX or (self._bytes > KEEP_BYTES_MAX and len(self._files) > 1):
            _, dropped = self._files.popitem(last=False)
            self._bytes -= len(dropped.media.content)
        return f"/files/{token}/{name}"

    def __len__(self) -> int:
        return len(self._files)

    async def serve(self, request: Request) -> Response:
        """Answer GET and HEAD of a file."""
        file = self._files.get(request.path_params["token"])
        if file is None or file.name != request.path_params["name"]:
            return Response(_UNKNOWN, 404, media_type="application/xml")
        if file.expires <= self._clock.monotonic():
            return Response(_EXPIRED, file.status_expired, media_type="application/xml")
        return _serve_range(file.media, request.headers.get("range", ""))


def _serve_range(media: Media, wanted: str) -> Response:
    headers = {"content-type": media.content_type, "accept-ranges": "bytes"}
    size = len(media.content)
    match = _RANGE.fullmatch(wanted.strip())
    if match is None or match[1] == match[2] == "":
        return Response(media.content, headers=headers)
    first, last = match[1], match[2]
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if start >= size or end < start:
        return Response(status_code=416, headers={"content-range": f"bytes */{size}"})
    headers["content-range"] = f"bytes {start}-{end}/{size}"
    return Response(media.content[start : end + 1], 206, headers)
