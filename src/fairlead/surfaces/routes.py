"""The routes that belong to no API: links that are their own credential, what is public, what operators' tools ask."""

from typing import Final, NamedTuple


class Route(NamedTuple):
    """One route; the handler is a method of one of the classes of handlers that the application has."""

    method: str
    path: str
    handler: str


ROUTES: Final = (
    Route("GET", "/assets/{asset_id}", "show_asset"),
    Route("GET", "/router-schemas/{provider}/{model}", "show_snapshot"),
    Route("GET", "/openapi.json", "show_document"),
    Route("GET", "/healthz", "healthz"),
    Route("GET", "/readyz", "readyz"),
    Route("GET", "/metrics", "metrics_page"),
)
