"""The OpenAPI descriptions of the routes that belong to no API."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NotRequired, TypedDict

from fairlead.surfaces.openapi.description import (
    FILE_ANSWERS,
    IF_NONE_MATCH,
    KNOWN,
    RANGE,
    Access,
    Answer,
    Description,
    Operation,
    Parameter,
    describe_routes,
)
from fairlead.surfaces.router.documents import RouterError
from fairlead.surfaces.routes import ROUTES
from fairlead.surfaces.schemas import AnyObject


class Alive(TypedDict):
    """The process answers."""

    status: Literal["ok"]


class EngineConfinement(TypedDict):
    """How code of node packs is confined: which mechanisms hold, and why no pack is loaded where none is."""

    mode: Literal["required", "available", "off"]
    mechanisms: dict[str, bool]
    node_packs_refused: NotRequired[str]


class Readiness(TypedDict):
    """Whether runs can be taken, and what is missing; of a server that executes workflows, how it confines them."""

    status: Literal["ready", "not ready"]
    problems: NotRequired[list[str]]
    engine_confinement: NotRequired[EngineConfinement]


OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {
        "show_asset": Operation(
            "Fetch an asset of a run's result by its signed link",
            FILE_ANSWERS,
            (403, 404, 410, 416),
            (
                Parameter("expires", "Until when the link is good.", required=True),
                Parameter("disposition", "Whether to show or to save.", required=True),
                Parameter("name", "What the file is called.", required=True),
                Parameter("signature", "What makes the link good.", required=True),
                *RANGE,
            ),
            access=Access.NOTHING,
        ),
        "show_snapshot": Operation(
            "Fetch the public snapshot of a model's schema",
            {200: Answer("An OpenAPI document of this one model.", AnyObject)},
            (404,),
            access=Access.NOTHING,
        ),
        "show_document": Operation(
            "Fetch this document",
            {200: Answer("This document.", AnyObject, headers=("etag!", "cache-control!")), 304: KNOWN},
            parameters=(IF_NONE_MATCH,),
            access=Access.NOTHING,
        ),
        "healthz": Operation(
            "Ask whether the process answers", {200: Answer("It does.", Alive)}, access=Access.NOTHING
        ),
        "readyz": Operation(
            "Ask whether runs can be taken",
            {200: Answer("They can.", Readiness), 503: Answer("They cannot.", Readiness)},
            access=Access.NOTHING,
        ),
        "metrics_page": Operation(
            "Fetch what the server counts",
            {200: Answer("Prometheus's text format.", str, ("text/plain",))},
            access=Access.NOTHING,
        ),
    }
)
"""By the names of the handlers, as the table of routes has them."""

_PATH: Final = {
    "asset_id": Parameter("asset_id", "The id of an asset.", where="path"),
    "provider": Parameter("provider", "The first part of a model's id.", where="path"),
    "model": Parameter("model", "The second part of a model's id, and `.json`.", where="path"),
}


def describe_service_routes() -> Description:
    """The routes beside those of the APIs; their errors look as the router's."""
    return Description(
        name="service",
        title="Service",
        summary="Signed links, what is public, and what the tools of an operator ask.",
        error=RouterError,
        routes=describe_routes("service", ROUTES, OPERATIONS),
        path_parameters=_PATH,
        refusals={Access.NOTHING: (500, 503)},
        error_headers=("error_type!",),
        headers_of={416: ("content-range!",), 503: ("retry-after",)},
    )
