"""The router's reading routes: catalog, detail, schema document, public snapshot. They translate and decide nothing."""

from collections.abc import Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.headers import SCHEMA_CACHING
from fairlead.api.http.representations import answer_tagged
from fairlead.api.http.route import caller_of
from fairlead.api.router.generations import generation_of
from fairlead.api.router.runs import model_id_of
from fairlead.api.router.wire import (
    PricesAsked,
    asks_for_prices,
    detail_response,
    list_response,
    page_query,
    read_query,
)
from fairlead.domain.accounts.callers import ROUTER_GATE, Caller, refuse_gate
from fairlead.domain.catalog.models import Model
from fairlead.domain.catalog.schema import strong_etag
from fairlead.domain.faults import FaultError, ModelNotFound
from fairlead.operations.catalog import CatalogKeeper

_encode = msgspec.json.Encoder().encode


class Handlers(msgspec.Struct, frozen=True):
    """Answers the reading routes of both generations."""

    catalog: CatalogKeeper
    is_configured: Callable[[str], bool]
    base_urls: BaseUrls

    async def list_models(self, request: Request) -> Response:
        """`GET /models`: a page of the catalog (R-02), with an entity tag."""
        caller = self._caller(request)
        asked = page_query(request.url.query.encode("ascii", "replace"))
        catalog = self.catalog.current
        page = self.catalog.page(caller, asked.limit, asked.build, asked.after, asked.wanted)
        content = _encode(list_response(page, catalog.build, self._priced(caller, has_prices=asked.has_prices)))
        return answer_tagged(request, content, strong_etag(content), SCHEMA_CACHING)

    async def show_model(self, request: Request) -> Response:
        """`GET /models/{provider}/{model}`: one model (R-05)."""
        caller = self._caller(request)
        model = self._find(request, caller)
        url = f"{self.base_urls.of(request.scope)}{generation_of(request.scope).prefix}/models/{model.id}/openapi.json"
        has_prices = asks_for_prices(read_query(request.url.query.encode("ascii", "replace")))
        detail = detail_response(model, url, self.is_configured, self._priced(caller, has_prices=has_prices))
        return Response(_encode(detail), media_type="application/json")

    async def show_schema(self, request: Request) -> Response:
        """`GET …/openapi.json`: the document calls are validated against (R-07, R-08)."""
        caller = self._caller(request)
        document = self._find(request, caller).openapi
        return answer_tagged(request, document.content, document.etag, SCHEMA_CACHING)

    async def show_snapshot(self, request: Request) -> Response:
        """`GET /router-schemas/{provider}/{model}.json`: an authored schema as it is now, without a key (R-09)."""
        name = request.path_params["model"]
        model_id = model_id_of(request.path_params["provider"], name.removesuffix(".json"))
        found = self.catalog.current.models.get(model_id)
        if found is None or found.input_schema is None or not name.endswith(".json"):
            raise FaultError(ModelNotFound(model_id))
        return Response(found.openapi.content, media_type="application/json")

    def _caller(self, request: Request) -> Caller:
        caller = caller_of(request)
        if fault := refuse_gate(caller, ROUTER_GATE, "The model router"):
            raise FaultError(fault)
        return caller

    def _priced(self, caller: Caller, *, has_prices: bool) -> PricesAsked | None:
        return PricesAsked(self.catalog.today(), caller.markup) if has_prices else None

    def _find(self, request: Request, caller: Caller) -> Model:
        return self.catalog.model(model_id_of(request.path_params["provider"], request.path_params["model"]), caller)
