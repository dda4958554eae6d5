"""The registry's routes (docs/registry.md): reading takes no credential."""

from typing import Annotated, Final

import msgspec

from fairlead.api.http.route import (
    FILE_ANSWERS,
    RANGE,
    Access,
    Answer,
    Body,
    Parameter,
    Route,
)
from fairlead.api.http.schemas import Upload
from fairlead.api.registry.handlers import LIMIT_MAX, RegistryHandlers
from fairlead.api.registry.wire import (
    ShownNode,
    ShownNodes,
    ShownPublisher,
    ShownVersion,
)
from fairlead.domain.registry import NodeEntry, PublisherChange, PublisherEntry, VersionEntry

_PAGE: Final = (
    Parameter("limit", "How many at most; 20 where it is absent.", Annotated[int, msgspec.Meta(ge=1, le=LIMIT_MAX)]),
    Parameter("cursor", "Where the page before ended, as its link or its `next_cursor` says."),
)
_NUMBER: Final = Parameter("page", "Which page, from 1 on, in place of a cursor.", Annotated[int, msgspec.Meta(ge=1)])
_SEARCH: Final = Parameter("search", "Words that a node must have.")

ROUTES: Final = (
    Route(
        "GET",
        "/publishers",
        RegistryHandlers.list_publishers,
        "List publishers",
        {200: Answer("A page.", list[ShownPublisher], headers=("link",))},
        (400,),
        _PAGE,
        access=Access.NOTHING,
    ),
    Route(
        "POST",
        "/publishers",
        RegistryHandlers.create_publisher,
        "Create a publisher",
        {201: Answer("The publisher.", ShownPublisher)},
        (400, 409, 413),
        body=Body(PublisherEntry),
    ),
    Route(
        "GET",
        "/publishers/{publisher_id}",
        RegistryHandlers.show_publisher,
        "Show a publisher",
        {200: Answer("The publisher.", ShownPublisher)},
        (404,),
        access=Access.NOTHING,
    ),
    Route(
        "PUT",
        "/publishers/{publisher_id}",
        RegistryHandlers.change_publisher,
        "Change what a publisher says of itself",
        {200: Answer("The publisher.", ShownPublisher)},
        (400, 404, 413),
        body=Body(PublisherChange),
    ),
    Route(
        "DELETE",
        "/publishers/{publisher_id}",
        RegistryHandlers.delete_publisher,
        "Delete a publisher and its nodes",
        {204: Answer("It is deleted.")},
        (404,),
    ),
    Route(
        "GET",
        "/publishers/{publisher_id}/nodes",
        RegistryHandlers.list_nodes_of_publisher,
        "List a publisher's nodes",
        {200: Answer("A page.", list[ShownNode], headers=("link",))},
        (400, 404),
        _PAGE,
        access=Access.NOTHING,
    ),
    Route(
        "POST",
        "/publishers/{publisher_id}/nodes",
        RegistryHandlers.create_node,
        "Create a node",
        {201: Answer("The node.", ShownNode)},
        (400, 404, 409, 413),
        body=Body(NodeEntry),
    ),
    Route(
        "DELETE",
        "/publishers/{publisher_id}/nodes/{node_id}",
        RegistryHandlers.delete_node,
        "Delete a node",
        {204: Answer("It is deleted.")},
        (404,),
    ),
    Route(
        "POST",
        "/publishers/{publisher_id}/nodes/{node_id}/versions",
        RegistryHandlers.publish_version,
        "Publish a version of a node",
        {201: Answer("The version.", ShownVersion)},
        (400, 404, 409, 413),
        body=Body(VersionEntry),
        access=Access.BODY,
        description=(
            "A command line sends `node`, `node_version` and `personal_access_token` instead, and is answered with"
            " `node_version` and `signedUrl`, to which it puts the archive."
        ),
    ),
    Route(
        "GET",
        "/nodes",
        RegistryHandlers.list_nodes,
        "List or search nodes",
        {200: Answer("A page.", ShownNodes)},
        (400,),
        (*_PAGE, _NUMBER, _SEARCH),
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        "/nodes/{node_id}",
        RegistryHandlers.show_node,
        "Show a node",
        {200: Answer("The node.", ShownNode)},
        (404,),
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        "/nodes/{node_id}/versions",
        RegistryHandlers.list_versions,
        "List a node's versions, the newest first",
        {200: Answer("A page.", list[ShownVersion], headers=("link",))},
        (400, 404),
        _PAGE,
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        "/nodes/{node_id}/install",
        RegistryHandlers.install_node,
        "Tell where a version of a node is downloaded from, and count an installation",
        {200: Answer("The version.", ShownVersion)},
        (404,),
        (Parameter("version", "Which one; the one published last where it is absent."),),
        access=Access.NOTHING,
    ),
    Route(
        "GET",
        "/archives/{archive_id}",
        RegistryHandlers.show_archive,
        "Download the archive of a version",
        FILE_ANSWERS,
        (404, 416),
        RANGE,
        access=Access.NOTHING,
    ),
    Route(
        "PUT",
        "/archives/{archive_id}",
        RegistryHandlers.receive_archive,
        "Send the archive of an announced version, by the link that was answered",
        {200: Answer("It is published.")},
        (400, 403, 404, 409, 413),
        (
            Parameter("expires", "Until when the link is good.", is_required=True),
            Parameter("disposition", "What the link is for.", is_required=True),
            Parameter("name", "Whose archive it is.", is_required=True),
            Parameter("signature", "What makes the link good.", is_required=True),
        ),
        Body(Upload, "application/octet-stream"),
        access=Access.NOTHING,
    ),
)
