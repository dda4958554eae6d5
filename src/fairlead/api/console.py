"""The console's pages: built files of the package, which say nothing about the installation and need no credential.

Every address of a page is answered with the same document, whose script finds out what to show. What a browser may do
with it is bounded by its Content-Security-Policy: its own scripts and styles, nothing inline, nothing from elsewhere.
"""

import asyncio
import gzip
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.representations import is_known
from fairlead.domain.catalog.schema import strong_etag
from fairlead.domain.faults import FaultError, RequestNotFound

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' data: blob:; connect-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Results of models are shown from `blob:` and `data:`, which never leave the browser; 3D models are read from them."""
_SAFE: Final = MappingProxyType({"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer"})
_TYPES: Final = MappingProxyType(
    {
        ".css": "text/css; charset=utf-8",
        ".html": "text/html; charset=utf-8",
        ".js": "text/javascript; charset=utf-8",
        ".svg": "image/svg+xml",
        ".webp": "image/webp",
        ".woff2": "font/woff2",
    }
)
_INDEX: Final = "index.html"
_NAMED_BY_CONTENT: Final = "assets/"
"""Files whose names have a digest of their bytes, so that they can be kept for as long as a browser likes."""


class _File(msgspec.Struct, frozen=True):
    content: bytes
    compressed: bytes
    etag: str


class ConsoleHandlers:
    """Answers the console's addresses with the files of a folder, read and compressed when first asked for."""

    def __init__(self, folder: Path) -> None:
        paths = (path for path in folder.rglob("*") if path.suffix in _TYPES)
        self._paths: Mapping[str, Path] = {path.relative_to(folder).as_posix(): path for path in paths}
        self._read: dict[str, _File] = {}

    async def show_console(self, request: Request) -> Response:
        """`GET /`: the document of every page."""
        return await self._answer(request, _INDEX)

    async def show_console_file(self, request: Request) -> Response:
        """`GET /console/{file}`: a file, or the document of the page with this address; FaultError(RequestNotFound)."""
        name = request.path_params["file"]
        if name.startswith(_NAMED_BY_CONTENT) and name not in self._paths:
            raise FaultError(RequestNotFound())  # of another version: a document would be taken for a script
        return await self._answer(request, name if name in self._paths else _INDEX)

    async def _answer(self, request: Request, name: str) -> Response:
        if name not in self._paths:
            raise FaultError(RequestNotFound())  # built without its console
        found = self._read.get(name)
        if found is None:
            found = await asyncio.to_thread(self._load, name)
        is_kept = name.startswith(_NAMED_BY_CONTENT)
        headers = {
            **_SAFE,
            "ETag": found.etag,
            "Vary": "Accept-Encoding",
            "Cache-Control": "public, max-age=31536000, immutable" if is_kept else "no-cache",
        }
        if is_known(request, found.etag):
            return Response(status_code=304, headers=headers)
        content = found.content
        if "gzip" in request.headers.get("accept-encoding", ""):
            content, headers["Content-Encoding"] = found.compressed, "gzip"
        return Response(content, headers=headers, media_type=_TYPES[self._paths[name].suffix])

    def _load(self, name: str) -> _File:
        content = self._paths[name].read_bytes()
        found = self._read[name] = _File(content, gzip.compress(content, mtime=0), strong_etag(content))
        return found
