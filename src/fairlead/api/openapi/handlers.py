"""`/openapi.json`: the document is made when it is first asked for, and never again."""

from functools import cached_property

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.headers import HeaderNames
from fairlead.api.http.representations import answer_tagged
from fairlead.domain.catalog.schema import strong_etag


class Served(msgspec.Struct, frozen=True):
    """How headers are spelled, and which APIs and surfaces are served."""

    names: HeaderNames
    version: str
    serves_workflows: bool = True
    has_open_jobs: bool = False
    registry_prefix: str = ""


_CACHING = "public, max-age=300, must-revalidate"


class DocumentHandlers:
    """Answers `/openapi.json`."""

    def __init__(self, served: Served) -> None:
        self._served = served

    async def show_document(self, request: Request) -> Response:
        """`GET /openapi.json`: every API in one OpenAPI document, for everybody."""
        content, etag = self._document
        return answer_tagged(request, content, etag, _CACHING)

    @cached_property
    def _document(self) -> tuple[bytes, str]:
        # The schemas of everything that travels: a megabyte, of which most servers are never asked.
        from fairlead.api.openapi.document import openapi_document  # noqa: PLC0415 -- see above

        content = msgspec.json.encode(openapi_document(self._served))
        return content, strong_etag(content)
