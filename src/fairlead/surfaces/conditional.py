"""Documents with entity tags: anyone who has one already is told so (RFC 9110, If-None-Match by weak comparison)."""

from starlette.requests import Request
from starlette.responses import Response


def is_known(request: Request, etag: str) -> bool:
    """Whether the caller has the representation with this tag."""
    lines = request.headers.getlist("if-none-match")  # several are one list (RFC 9110, 5.3)
    tags = [tag.strip() for line in lines for tag in line.split(",")]
    return "*" in tags or any(tag.removeprefix("W/") == etag for tag in tags)


def tagged(request: Request, content: bytes, etag: str, caching: str) -> Response:
    """A JSON document with its tag, or 304 when the caller has it. `caching` says how long it may be kept."""
    headers = {"ETag": etag, "Cache-Control": caching}
    if is_known(request, etag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)
