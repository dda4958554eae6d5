"""The registry's answers, made from domain records (docs/registry.md)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from starlette.responses import Response

from fairlead.api.http.cursors import make_cursor
from fairlead.api.http.schemas import as_time
from fairlead.domain.registry import (
    NodeEntry,
    NodeVersion,
    PublishedNode,
    Publisher,
    PublisherEntry,
    VersionEntry,
    archive_id,
)
from fairlead.operations.registry.publishing import CountedPage

_HEADERS: Final = {"Cache-Control": "no-store"}
_encode: Final = msgspec.json.Encoder().encode


class ShownPublisher(PublisherEntry, frozen=True, kw_only=True, omit_defaults=True):
    """A publisher as everybody may see it, without its owner."""

    created_at: str
    updated_at: str


class ShownVersion(VersionEntry, frozen=True, kw_only=True, omit_defaults=False):
    """A version as everybody may see it; its address has two names, ours and that of released clients."""

    id: str
    downloadUrl: str  # noqa: N815 -- as released clients read it
    created_at: str


class ShownNode(NodeEntry, frozen=True, kw_only=True, omit_defaults=False):
    """A node as everybody may see it; what its publisher has not said is empty.

    `latest_version` is absent before the first version: released command lines read every one that is there,
    and a null one made them refuse the whole list.
    """

    publisher_id: str
    latest_version: ShownVersion | msgspec.UnsetType = msgspec.UNSET
    installs: int
    created_at: str
    updated_at: str


class ShownPublication(msgspec.Struct, frozen=True):
    """A version that waits for its archive, and the link that the archive is uploaded to."""

    node_version: ShownVersion
    signedUrl: str  # noqa: N815 -- as released clients read it


class ShownNodes(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of nodes; `next_cursor` is absent on the last one.

    With what released clients read: its number, how many pages there are, and how many nodes.
    """

    data: Sequence[ShownNode]
    has_more: bool
    limit: int
    nodes: Sequence[ShownNode]
    total: int
    page: int
    totalPages: int  # noqa: N815 -- as released clients read it
    next_cursor: str | None = None


ErrorName: TypeAlias = Literal[
    "banned", "body_too_large", "client_disconnected", "forbidden", "id_taken", "internal_error", "invalid_request",
    "method_not_allowed", "not_found", "rate_limited", "storage_full", "too_many", "unauthorized", "unavailable",
    "version_taken",
]  # fmt: skip


class ShownError(msgspec.Struct, frozen=True):
    """Why a call has failed (G-02): a name from a closed list, and a sentence."""

    error: ErrorName
    message: str


def answer(document: object, status: int = 200, more: Mapping[str, str] | None = None) -> Response:
    """A document as it is sent, with more headers where there are some."""
    return Response(_encode(document), status, {**_HEADERS, **(more or {})}, "application/json")


def shown_publisher(publisher: Publisher) -> ShownPublisher:
    """A publisher as it is sent."""
    made, changed = as_time(publisher.created_at), as_time(publisher.changed_at)
    return ShownPublisher(id=publisher.id, created_at=made, updated_at=changed, **publisher.document)


def shown_node(node: PublishedNode, base: str) -> ShownNode:
    """A node as it is sent; archives that are kept here have addresses that begin with `base`."""
    return ShownNode(
        id=node.id,
        publisher_id=node.publisher_id,
        latest_version=msgspec.UNSET if node.latest is None else shown_version(node.latest, base),
        installs=node.installs,
        created_at=as_time(node.created_at),
        updated_at=as_time(node.changed_at),
        **node.document,
    )


def shown_version(version: NodeVersion, base: str) -> ShownVersion:
    """A version as it is sent; an archive that is kept here has an address that begins with `base`."""
    id_ = archive_id(version.node_id, version.version)
    address = version.document.get("download_url") or f"{base}/archives/{id_}"
    said = {name: value for name, value in version.document.items() if name != "download_url"}
    made = as_time(version.created_at)
    return ShownVersion(
        id=id_, version=version.version, download_url=address, downloadUrl=address, created_at=made, **said
    )


def shown_nodes(page: CountedPage, shown: Callable[[PublishedNode], ShownNode], which: str, limit: int) -> ShownNodes:
    """A page of nodes as it is sent; its cursor names the list (`which`), and is refused by any other."""
    nodes = [shown(node) for node in page.entries]
    return ShownNodes(
        data=nodes,
        has_more=page.after is not None,
        limit=limit,
        next_cursor=None if page.after is None else make_cursor(which, page.after),
        nodes=nodes,
        total=page.total,
        page=page.before // limit + 1,
        totalPages=-(-page.total // limit),
    )
