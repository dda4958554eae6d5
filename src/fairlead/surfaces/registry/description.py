"""What is said of the registry's routes (docs/registry.md)."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Final

import msgspec

from fairlead.domain.registry import NodeEntry, PublisherChange, PublisherEntry, VersionEntry
from fairlead.surfaces.openapi.description import (
    FILE_ANSWERS,
    RANGE,
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
from fairlead.surfaces.registry.wire import (
    ShownError,
    ShownNode,
    ShownNodes,
    ShownPage,
    ShownPublisher,
    ShownVersion,
)
from fairlead.surfaces.schemas import Upload

_PAGE: Final = (
    Parameter("limit", "How many at most; 20 where it is absent.", Annotated[int, msgspec.Meta(ge=1, le=LIMIT_MAX)]),
    Parameter("cursor", "The `next_cursor` of the page before."),
)
_NUMBER: Final = Parameter(
    "page", "Which page, from 1 on, in the place of a cursor.", Annotated[int, msgspec.Meta(ge=1)]
)
_SEARCH: Final = Parameter("search", "Words that a node must have.")

_READING: Final = {
    "list_publishers": Operation("List publishers", {200: Answer("A page.", ShownPage[ShownPublisher])}, (400,), _PAGE),
    "show_publisher": Operation("Show a publisher", {200: Answer("The publisher.", ShownPublisher)}, (404,)),
    "list_nodes_of_publisher": Operation(
        "List a publisher's nodes", {200: Answer("A page.", ShownPage[ShownNode])}, (400, 404), _PAGE
    ),
    "list_nodes": Operation(
        "List or search nodes", {200: Answer("A page.", ShownNodes)}, (400,), (*_PAGE, _NUMBER, _SEARCH)
    ),
    "show_node": Operation("Show a node", {200: Answer("The node.", ShownNode)}, (404,)),
    "install_node": Operation(
        "Tell where a version of a node is downloaded from, and count an installation",
        {200: Answer("The version.", ShownVersion)},
        (404,),
        (Parameter("version", "Which one; the one published last where it is absent."),),
    ),
    "show_archive": Operation("Download the archive of a version", FILE_ANSWERS, (404, 416), RANGE),
    "receive_archive": Operation(
        "Send the archive of an announced version, by the link that was answered",
        {200: Answer("It is published.")},
        (400, 403, 404, 409, 413),
        (
            Parameter("expires", "Until when the link is good.", required=True),
            Parameter("disposition", "What the link is for.", required=True),
            Parameter("name", "Whose archive it is.", required=True),
            Parameter("signature", "What makes the link good.", required=True),
        ),
        Body(Upload, "application/octet-stream"),
    ),
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
        description=(
            "A command line sends `node`, `node_version` and `personal_access_token` instead, and is answered with"
            " `node_version` and `signedUrl`, to which it puts the archive."
        ),
    ),
}

OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {**{name: replace(operation, access=Access.NOTHING) for name, operation in _READING.items()}, **_CHANGING}
)
"""By the names of the handlers, as the table of routes has them."""

_PATH: Final = {
    "publisher_id": Parameter("publisher_id", "The id of a publisher.", where="path"),
    "node_id": Parameter("node_id", "The id of a node.", where="path"),
    "archive_id": Parameter("archive_id", "The id of a version: its node, `@`, and its number.", where="path"),
}


def describe_registry(prefix: str = "") -> Description:
    """The registry, whose paths begin with a prefix."""
    routes = [route._replace(path=prefix + route.path) for route in ROUTES]
    return Description(
        name="registry",
        title="Registry",
        summary="Publishers, and the nodes that they have published.",
        error=ShownError,
        routes=describe_routes("registry", routes, OPERATIONS),
        path_parameters=_PATH,
        refusals={Access.CREDENTIAL: (401, 403, 429, 500, 503), Access.NOTHING: (500, 503)},
        headers_of={416: ("content-range!",), 429: ("retry-after!",), 503: ("retry-after",)},
    )
