"""The routes that belong to no API: links that are their own credential, public pages, and operators' tools."""

from typing import Final, Literal, NotRequired, TypedDict

from fairlead.api.assets import AssetHandlers
from fairlead.api.console import ConsoleHandlers
from fairlead.api.http.route import (
    FILE_ANSWERS,
    IF_NONE_MATCH,
    KNOWN,
    RANGE,
    Access,
    Answer,
    Api,
    Parameter,
    Route,
    path_parameters,
)
from fairlead.api.http.schemas import AnyObject
from fairlead.api.openapi.handlers import DocumentHandlers
from fairlead.api.operator import OperatorHandlers
from fairlead.api.router.documents import RouterError
from fairlead.api.router.handlers import Handlers


class Alive(TypedDict):
    """The process answers."""

    status: Literal["ok"]


class EngineConfinement(TypedDict):
    """How code of node packs is confined: which mechanisms hold, and, where no pack is loaded, the reason."""

    mode: Literal["required", "available", "off"]
    mechanisms: dict[str, bool]
    node_packs_refused: NotRequired[str]


class Readiness(TypedDict):
    """Whether calls can be taken, and what is missing; where workflows are executed, also how they are confined."""

    status: Literal["starting", "ready", "degraded", "unready", "draining"]
    problems: NotRequired[list[str]]
    engine_confinement: NotRequired[EngineConfinement]


_HEADERS: Final = ("etag!", "cache-control!")
_HTML: Final = "text/html"
_PAGE: Final = Answer("The document of every page.", str, (_HTML,), _HEADERS)
_FILES: Final = (_HTML, "text/css", "text/javascript", "image/svg+xml", "image/webp")
_FILE: Final = Answer("The document of every page, or a file.", str, _FILES, _HEADERS)

OPERATOR_ROUTES: Final = (
    Route(
        "GET",
        "/healthz",
        OperatorHandlers.healthz,
        "Ask whether the process answers",
        {200: Answer("It does.", Alive)},
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        "/readyz",
        OperatorHandlers.readyz,
        "Ask whether calls can be taken",
        {200: Answer("They can.", Readiness), 503: Answer("They cannot.", Readiness)},
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        "/metrics",
        OperatorHandlers.metrics_page,
        "Fetch what the server counts",
        {200: Answer("Prometheus's text format.", str, ("text/plain",))},
        access=Access.NOTHING,
    ),
)
"""The routes for operators' tools, of servers and of workers."""
ROUTES: Final = (
    Route(
        "GET",
        "/",
        ConsoleHandlers.show_console,
        "Open the console",
        {200: _PAGE, 304: KNOWN},
        (404,),
        (IF_NONE_MATCH,),
        access=Access.NOTHING,
        aliases=("/console",),
    ),
    Route(
        "GET",
        "/console/{file:path}",
        ConsoleHandlers.show_console_file,
        "Open a page of the console, or fetch a file of it",
        {200: _FILE, 304: KNOWN},
        (404,),
        (IF_NONE_MATCH,),
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        "/assets/{asset_id}",
        AssetHandlers.show_asset,
        "Fetch an asset of a run's result by its signed link",
        FILE_ANSWERS,
        (403, 404, 410, 416),
        (
            Parameter("expires", "Until when the link is good.", is_required=True),
            Parameter("disposition", "Whether to show or to save.", is_required=True),
            Parameter("name", "What the file is called.", is_required=True),
            Parameter("signature", "What makes the link good.", is_required=True),
            *RANGE,
        ),
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        "/router-schemas/{provider}/{model}",
        Handlers.show_snapshot,
        "Fetch the public snapshot of a model's schema",
        {200: Answer("An OpenAPI document of this one model.", AnyObject)},
        (404,),
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        "/openapi.json",
        DocumentHandlers.show_document,
        "Fetch this document",
        {200: Answer("This document.", AnyObject, headers=("etag!", "cache-control!")), 304: KNOWN},
        parameters=(IF_NONE_MATCH,),
        access=Access.NOTHING,
    ),
    *OPERATOR_ROUTES,
)


API: Final = Api(
    name="service",
    title="Service",
    summary="Signed links, what is public, and what the tools of an operator ask.",
    error=RouterError,
    routes=ROUTES,
    path_parameters=path_parameters(
        asset_id="The id of an asset.",
        file="A file of the console, or the address of a page.",
        provider="The first part of a model's id.",
        model="The second part of a model's id, and `.json`.",
    ),
    refusals={Access.NOTHING: (500, 503)},
    error_headers=("error_type!",),
    headers_of={416: ("content-range!",), 503: ("retry-after",)},
)
"""Its errors look as the router's."""
