"""`/api/view` and the signed links it leads to (C-06)."""

import re
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.assets import content_response, signed_query, store_location
from fairlead.api.cloud.errors import error_document
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.representations import UnsatisfiableRangeError
from fairlead.api.http.route import caller_of
from fairlead.domain.jobs.faults import BadFile, JobFaultError
from fairlead.operations.assets.results import AssetReader, ServedAsset
from fairlead.operations.assets.views import FileViews, Rendering, ViewedFile, Wanted

_THUMBNAIL_EDGES: Final = (64, 1024)
_THUMBNAIL_QUALITY: Final = 85
_PREVIEW: Final = re.compile(r"(?P<format>webp|jpeg)(?:;(?P<quality>[0-9]{1,3}))?")
_EDGE: Final = re.compile(r"[0-9]{2,4}")
_QUALITY_MAX: Final = 100
_DEFAULT_PREVIEW: Final = Rendering("webp")
# Another upload may take the name at any time, and each caller must show a credential.
_REDIRECTED: Final = {"Cache-Control": "private, no-cache", "Vary": "X-API-Key, Authorization"}


class ViewHandlers:
    """Answers `/view` and `/files/{file_id}`. `reader` follows signed links to files."""

    def __init__(self, views: FileViews, reader: AssetReader, base_urls: BaseUrls) -> None:
        self._views = views
        self._reader = reader
        self._base_urls = base_urls

    async def view(self, request: Request) -> Response:
        """`GET /api/view`: 302 to a signed link to the file, here or at the store, or a picture made of it."""
        caller = caller_of(request)
        seen = await self._views.view(caller, _read_query(request))
        if not isinstance(seen, ViewedFile):
            response = await self._content(request, seen)
            response.headers["Vary"] = _REDIRECTED["Vary"]
            return response
        location = store_location(seen.asset, self._reader) or self._base_urls.of(request.scope) + seen.path
        return Response(status_code=302, headers={"Location": location, **_REDIRECTED})

    async def show_file(self, request: Request) -> Response:
        """`GET` and `HEAD /files/{file_id}`: what a signed link leads to; the signature is the only credential."""
        return await self._content(
            request, await self._reader.find(request.path_params["file_id"], **signed_query(request))
        )

    async def _content(self, request: Request, served: ServedAsset) -> Response:
        try:
            return await content_response(request, served, self._reader)
        except UnsatisfiableRangeError:
            body = error_document("invalid_range", f"The file has {served.size} bytes.")
            headers = {"Content-Range": f"bytes */{served.size}", "Access-Control-Allow-Origin": "*"}
            return Response(msgspec.json.encode(body), 416, headers, "application/json")


def _read_query(request: Request) -> Wanted:
    """The file that a query asks for; JobFaultError where it asks for no such file."""
    query = request.query_params
    filename = query.get("filename")
    if not filename:
        raise JobFaultError(BadFile("Name the file as filename in the query."))
    rendering, whole = None, False
    if (edge := query.get("res")) is not None:
        rendering = Rendering("thumbnail", _THUMBNAIL_QUALITY, _edge(edge))
    elif channel := query.get("channel"):
        rendering, whole = _channel(channel), channel == "rgba"
    if rendering is None and not whole and (preview := query.get("preview")) is not None:
        rendering = _preview(preview)
    return Wanted(filename, query.get("type") or "output", rendering, whole)


def _edge(text: str) -> int:
    least, most = _THUMBNAIL_EDGES
    if _EDGE.fullmatch(text) is None or not least <= int(text) <= most:
        raise JobFaultError(BadFile(f"res must be a whole number from {least} to {most}."))
    return int(text)


def _channel(text: str) -> Rendering | None:
    match text:
        case "rgba":
            return None
        case "rgb":
            return Rendering("rgb")
        case "a":
            return Rendering("a")
        case _:
            raise JobFaultError(BadFile("channel must be rgb, a or rgba."))


def _preview(text: str) -> Rendering:
    """How editors ask for a small picture, such as `webp;90`; a value that cannot be read means WebP, as in ComfyUI."""
    found = _PREVIEW.fullmatch(text)
    if found is None:
        return _DEFAULT_PREVIEW
    quality = int(found["quality"] or _DEFAULT_PREVIEW.quality)
    return Rendering("webp" if found["format"] == "webp" else "jpeg", min(max(quality, 1), _QUALITY_MAX))
