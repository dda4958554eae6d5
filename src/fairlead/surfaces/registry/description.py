"""What is said of the registry's routes (docs/registry.md)."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Final

import msgspec

from fairlead.domain.registry import NodeEntry, PublisherChange, PublisherEntry, VersionEntry
from fairlead.surfaces.openapi.description import (
    Access,
    Answer,
    Body,
    Description,
    Operation,
    Parameter,
    describe_routes,
)
from fairlead.surfaces.registry.handlers import LIMIT_MAX
from fairlead.surfaces.registry.routes import ROUTES
from fairlead.surfaces.registry.wire import ShownError, ShownNode, ShownPage, ShownPublisher, ShownVersion

_PAGE: Final = (
    Parameter("limit", "How many at most; 20 where it is absent.", Annotated[int, msgspec.Meta(ge=1, le=LIMIT_MAX)]),
    Parameter("cursor", "The `next_cursor` of the page before."),
)
_SEARCH: Final = Parameter("search", "Words that a node must have.")

_READING: Final = {
    "list_publishers": Operation("List publishers", {200: Answer("A page.", ShownPage[ShownPublisher])}, (400,), _PAGE),
    "show_publisher": Operation("Show a publisher", {200: Answer("The publisher.", ShownPublisher)}, (404,)),
    "list_nodes_of_publisher": Operation(
        "List a publisher's nodes", {200: Answer("A page.", ShownPage[ShownNode])}, (400, 404), _PAGE
    ),
    "list_nodes": Operation(
        "List or search nodes", {200: Answer("A page.", ShownPage[ShownNode])}, (400,), (*_PAGE, _SEARCH)
    ),
    "show_node": Operation("Show a node", {200: Answer("The node.", ShownNode)}, (404,)),
    "list_versions": Operation(
        "List a node's versions, the newest first", {200: Answer("A page.", ShownPage[ShownVersion])}, (400, 404), _PAGE
    ),
}
_CHANGING: Final = {
    "create_publisher": Operation(
        "Create a publisher",
        {201: Answer("The publisher.", ShownPublisher)},
        (400, 409, 413),
        body=Body(PublisherEntry),
    ),
    "change_publisher": Operation(
        "Change what a publisher says of itself",
        {200: Answer("The publisher.", ShownPublisher)},
        (400, 404, 413),
        body=Body(PublisherChange),
    ),
    "delete_publisher": Operation("Delete a publisher and its nodes", {204: Answer("It is deleted.")}, (404,)),
    "create_node": Operation(
        "Create a node", {201: Answer("The node.", ShownNode)}, (400, 404, 409, 413), body=Body(NodeEntry)
    ),
    "delete_node": Operation("Delete a node", {204: Answer("It is deleted.")}, (404,)),
    "publish_version": Operation(
        "Publish a version of a node",
        {201: Answer("The version.", ShownVersion)},
        (400, 404, 409, 413),
        body=Body(VersionEntry),
    ),
}

OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {**{name: replace(operation, access=Access.NOTHING) for name, operation in _READING.items()}, **_CHANGING}
)
"""By the names of the handlers, as the table of routes has them."""

_PATH: Final = {
    "publisher_id": Parameter("publisher_id", "The id of a publisher.", where="path"),
    "node_id": Parameter("node_id", "The id of a node.", where="path"),
}


def describe_registry() -> Description:
    """The registry."""
    return Description(
        name="registry",
        title="Registry",
        summary="Publishers, and the nodes that they have published.",
        error=ShownError,
        routes=describe_routes("registry", ROUTES, OPERATIONS),
        path_parameters=_PATH,
        refusals={Access.CREDENTIAL: (401, 403, 429, 500, 503), Access.NOTHING: (500, 503)},
        headers_of={429: ("retry-after!",), 503: ("retry-after",)},
    )
