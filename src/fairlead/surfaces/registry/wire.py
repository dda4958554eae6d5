"""The registry's shapes on the wire, written from domain records (docs/registry.md)."""

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from starlette.responses import Response

from fairlead.domain.registry import (
    NodeEntry,
    NodeVersion,
    PublishedNode,
    Publisher,
    PublisherEntry,
    VersionEntry,
)
from fairlead.operations.registry import RegistryPage
from fairlead.surfaces.cursors import make_cursor
from fairlead.surfaces.router.wire import as_time

_HEADERS: Final = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_encode: Final = msgspec.json.Encoder().encode
T = TypeVar("T")
S = TypeVar("S")


class ShownPublisher(PublisherEntry, frozen=True, kw_only=True, omit_defaults=True):
    """A publisher as everybody may see it: whose it is, is nobody's business."""

    created_at: str
    updated_at: str


class ShownNode(NodeEntry, frozen=True, kw_only=True, omit_defaults=True):
    """A node as everybody may see it; `latest_version` is absent before the first."""

    publisher_id: str
    latest_version: str | None = None
    created_at: str
    updated_at: str


class ShownVersion(VersionEntry, frozen=True, kw_only=True, omit_defaults=True):
    """A version as everybody may see it."""

    created_at: str


class ShownPage(msgspec.Struct, Generic[S], frozen=True, omit_defaults=True):
    """A page of a list; `next_cursor` is absent on the last one."""

    data: Sequence[S]
    has_more: bool
    limit: int
    next_cursor: str | None = None


ErrorName: TypeAlias = Literal[
    "banned", "body_too_large", "client_disconnected", "forbidden", "id_taken", "internal_error", "invalid_request",
    "method_not_allowed", "not_found", "rate_limited", "too_many", "unauthorized", "unavailable", "version_taken",
]  # fmt: skip


class ShownError(msgspec.Struct, frozen=True):
    """Why a call has failed (G-02): a name out of a closed list, and a sentence."""

    error: ErrorName
    message: str


def answer(document: Any, status: int = 200) -> Response:
    """A document as it is sent."""
    return Response(_encode(document), status, _HEADERS, "application/json")


def shown_publisher(publisher: Publisher) -> ShownPublisher:
    """A publisher as it is sent."""
    made, changed = as_time(publisher.created_at), as_time(publisher.changed_at)
    return ShownPublisher(id=publisher.id, created_at=made, updated_at=changed, **publisher.document)


def shown_node(node: PublishedNode) -> ShownNode:
    """A node as it is sent."""
    return ShownNode(
        id=node.id,
        publisher_id=node.publisher_id,
        latest_version=node.latest_version,
        created_at=as_time(node.created_at),
        updated_at=as_time(node.changed_at),
        **node.document,
    )


def shown_version(version: NodeVersion) -> ShownVersion:
    """A version as it is sent."""
    return ShownVersion(version=version.version, created_at=as_time(version.created_at), **version.document)


def shown_page(page: RegistryPage[T], shown: Callable[[T], S], which: str, limit: int) -> ShownPage[S]:
    """A page as it is sent; `which` list it is stands in the cursor, which is of no use in another."""
    cursor = None if page.after is None else make_cursor(which, page.after)
    return ShownPage([shown(entry) for entry in page.entries], cursor is not None, limit, cursor)
