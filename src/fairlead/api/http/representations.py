"""Which part of a representation a request asks for, and whether its caller has it already (RFC 9110, 13 and 14)."""

import re
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

_SINGLE: Final = re.compile(r"bytes[ \t]*=[ \t]*(?:([0-9]{1,19})-([0-9]{0,19})|-([0-9]{1,19}))[ \t]*", re.IGNORECASE)


class Part(msgspec.Struct, frozen=True):
    """The bytes from `start` up to `end`, not included."""

    start: int
    end: int


class UnsatisfiableRangeError(Exception):
    """None of the bytes asked for exist."""


def part_of(header: str | None, size: int) -> Part | None:
    """Read a Range header for `size` bytes; None means the whole: it is absent, malformed, or asks for several parts.

    UnsatisfiableRangeError when the range is well-formed and begins behind the end.
    """
    if header is None or (match := _SINGLE.fullmatch(header)) is None:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        start, end = max(0, size - int(suffix)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size:
        raise UnsatisfiableRangeError
    return Part(start, end)


def is_known(request: Request, etag: str) -> bool:
    """Whether the caller has the representation with this tag."""
    lines = request.headers.getlist("if-none-match")  # several are one list (RFC 9110, 5.3)
    tags = [tag.strip() for line in lines for tag in line.split(",")]
    return "*" in tags or any(tag.removeprefix("W/") == etag for tag in tags)


def answer_tagged(request: Request, content: bytes, etag: str, caching: str) -> Response:
    """A JSON document with its tag, or 304 when the caller has it. `caching` says how long it may be kept."""
    headers = {"ETag": etag, "Cache-Control": caching}
    if is_known(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)
