"""The classes of nodes there are (C-01): one big document, sent compressed, and only to callers that lack it."""

import asyncio
import gzip
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.representations import is_known
from fairlead.operations.jobs.nodes import NodeCatalog, ObjectInfo

_CACHING: Final = "private, no-cache"
"""Clients keep the document, and ask each time whether it has changed, which costs a few bytes."""
_LEVEL: Final = 6
_encode: Final = msgspec.json.Encoder().encode


class NodeHandlers:
    """Answers `/api/object_info`."""

    def __init__(self, nodes: NodeCatalog) -> None:
        self._nodes = nodes
        self._packed: tuple[str, bytes] = ("", b"")

    async def show_object_info(self, request: Request) -> Response:
        """`GET /object_info`: every class, by name."""
        info = await self._nodes.object_info()
        headers = {"ETag": info.etag, "Cache-Control": _CACHING, "Vary": "Accept-Encoding"}
        if is_known(request, info.etag):
            return Response(status_code=304, headers=headers)
        content = info.document
        if _takes_gzip(request):
            content = await self._pack(info)
            headers["Content-Encoding"] = "gzip"
        return Response(content, media_type="application/json", headers=headers)

    async def show_node_class(self, request: Request) -> Response:
        """`GET /object_info/{class}`: one class under its name; an empty object if there is none, as clients expect."""
        info = await self._nodes.object_info()
        name = request.path_params["class_name"]
        found = info.by_class.get(name)
        content = b"{}" if found is None else b"{%b:%b}" % (_encode(name), found)
        return Response(content, media_type="application/json", headers={"Cache-Control": _CACHING})

    async def _pack(self, info: ObjectInfo) -> bytes:
        """The compressed document; it is compressed once as long as it stays the same."""
        if self._packed[0] != info.etag:
            self._packed = info.etag, await asyncio.to_thread(gzip.compress, info.document, _LEVEL, mtime=0)
        return self._packed[1]


def _takes_gzip(request: Request) -> bool:
    """Whether the caller takes gzip; of the weights that it gives (`q`), only 0 matters."""
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = part.strip().partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
