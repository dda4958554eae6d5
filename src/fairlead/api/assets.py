"""`/assets/{asset_id}`: result assets by signed link. The signature is the only credential (R-36)."""

from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairlead.api.http.headers import HeaderNames
from fairlead.api.http.representations import Part, UnsatisfiableRangeError, is_known, part_of
from fairlead.domain.assets.media_types import TEXT
from fairlead.domain.faults import FaultError, Forbidden
from fairlead.operations.assets.results import AssetReader, ServedAsset

_PARAMETERS: Final = ("expires", "disposition", "name", "signature")
# The store's own address expires, so it must not be cached for longer.
_ELSEWHERE: Final = {"Cache-Control": "private, no-store", "Access-Control-Allow-Origin": "*"}
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 !#$&+-.^_`~()[]{}@,=")


class AssetHandlers:
    """Answers the route of assets."""

    def __init__(self, reader: AssetReader, names: HeaderNames) -> None:
        self._reader = reader
        self._names = names

    async def show_asset(self, request: Request) -> Response:
        """`GET` and `HEAD /assets/{asset_id}`: the bytes, a part of them, or 304 where the caller has them."""
        asset = await self._reader.find(request.path_params["asset_id"], **signed_query(request))
        try:
            return await content_response(request, asset, self._reader)
        except UnsatisfiableRangeError:
            return self._unsatisfiable(asset)

    def _unsatisfiable(self, asset: ServedAsset) -> Response:
        """416, with the router's envelope, and the size of the asset for a range that can be satisfied."""
        body = {"detail": f"The asset has {asset.size} bytes.", "error_type": "invalid_input"}
        headers = {
            "Content-Range": f"bytes */{asset.size}",
            "Access-Control-Allow-Origin": "*",
            self._names.error_type.decode(): "invalid_input",
        }
        return Response(msgspec.json.encode(body), 416, headers, "application/json")


async def content_response(request: Request, asset: ServedAsset, reader: AssetReader) -> Response:
    """The bytes, a part of them, or 304 where the caller has them; UnsatisfiableRangeError, FaultError.

    302 where the store serves them itself.
    """
    headers = _headers(asset)
    if is_known(request, headers["ETag"]):
        return Response(status_code=304, headers=_of_304(headers))
    if request.method == "GET" and (location := store_location(asset, reader)) is not None:
        return Response(status_code=302, headers={"Location": location, **_ELSEWHERE})
    part = part_of(_range(request, headers["ETag"]), asset.size)
    whole = part or Part(0, asset.size)
    headers["Content-Length"] = str(whole.end - whole.start)
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{asset.size}"
    status = 200 if part is None else 206
    if request.method == "HEAD":
        await reader.verify(asset)
        return Response(status_code=status, headers=headers)
    content: AsyncIterator[Any] = await reader.read(asset, whole.start, whole.end)
    return StreamingResponse(content, status_code=status, headers=headers)


def store_location(asset: ServedAsset, reader: AssetReader) -> str | None:
    """Where the store itself serves an asset under the headers it has here; None where it does not."""
    headers = _headers(asset)
    return reader.store_link(asset, headers["Content-Type"], headers["Content-Disposition"])


def signed_query(request: Request) -> dict[str, str]:
    """The parts of a signed link in the query, each exactly once and nothing else; FaultError."""
    given = request.query_params.multi_items()
    if sorted(name for name, _ in given) != sorted(_PARAMETERS):
        raise FaultError(Forbidden("This link is not good: it is not whole."))
    return dict(given)


def _headers(asset: ServedAsset) -> dict[str, str]:
    """The headers of every successful answer: browsers must neither guess another type nor run scripts in it."""
    return {
        "Content-Type": f"{TEXT}; charset=utf-8" if asset.content_type == TEXT else asset.content_type,
        "Content-Disposition": content_disposition(asset.disposition, asset.name),
        "ETag": f'"{asset.blob}"',
        "Accept-Ranges": "bytes",
        "Cache-Control": f"private, max-age={asset.seconds_left}",
        "Content-Security-Policy": "sandbox",
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Expose-Headers": "Content-Disposition, Content-Length, Content-Range, ETag",
    }


def _of_304(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in ("Content-Type", "Content-Disposition")}


def content_disposition(disposition: str, name: str) -> str:
    """The header of RFC 6266: a name in ASCII for every client, and the true one where that is not ASCII."""
    kind = "inline" if disposition == "inline" else "attachment"
    bare = name.replace("/", "_").replace("\\", "_")
    plain = "".join(char if char in _PLAIN else "_" for char in bare)
    if plain == bare:
        return f'{kind}; filename="{plain}"'
    encoded = quote(bare.encode("utf-8", "replace"), safe="")
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{encoded}"


def _range(request: Request, etag: str) -> str | None:
    """The Range header where it applies: for GET, and only while the caller's part is of the same bytes (If-Range)."""
    condition = request.headers.get("if-range")
    if request.method != "GET" or (condition is not None and condition.strip() != etag):
        return None
    return request.headers.get("range")
