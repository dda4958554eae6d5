"""Answers the registry's routes: reading is everybody's, changing takes a credential (G-01)."""

from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.assets import content_response, signed_query
from fairlead.api.http.asgi import read_small_json
from fairlead.api.http.credentials import CredentialReader
from fairlead.api.http.cursors import make_cursor, read_cursor
from fairlead.api.http.forms import read_body
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.representations import UnsatisfiableRangeError
from fairlead.api.http.route import caller_of
from fairlead.api.registry.wire import (
    ShownError,
    ShownNode,
    ShownPublication,
    answer,
    shown_node,
    shown_nodes,
    shown_publisher,
    shown_version,
)
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.registry import (
    BadEntry,
    NodeEntry,
    Publication,
    PublishedNode,
    PublisherChange,
    PublisherEntry,
    RegistryFaultError,
    VersionEntry,
)
from fairlead.operations.accounts.authenticate import Authenticator
from fairlead.operations.accounts.rate_windows import RateWindows
from fairlead.operations.assets.results import AssetReader
from fairlead.operations.registry.archives import NodeArchives
from fairlead.operations.registry.publishing import Registry, RegistryPage

BODY_MAX: Final = 64 * 1024
_LIMIT_DEFAULT: Final = 20
LIMIT_MAX: Final = 100
_KEPT: Final = 200
_CREATED: Final = 201
_UNSATISFIABLE: Final = 416
_PAGE_DIGITS: Final = 6
_CREDENTIALS: Final = ("x-api-key", "authorization")
_DELETED: Final = 204
T = TypeVar("T")


class _Probe(msgspec.Struct):
    node_version: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class RegistryHandlers(msgspec.Struct, frozen=True):
    """Answers the routes; the docstring of each method names its route."""

    authenticator: Authenticator
    windows: RateWindows
    registry: Registry
    archives: NodeArchives
    reader: AssetReader
    base_urls: BaseUrls
    credentials: CredentialReader
    prefix: str = ""

    async def authorize(self, request: Request) -> Caller:
        """The caller by its headers."""
        return await self._caller(request)

    async def list_publishers(self, request: Request) -> Response:
        """`GET /publishers`: all of them, by id."""
        which, limit = "publishers", _limit(request)
        page = await self.registry.publishers(_after(request, which), limit)
        return self._list(request, page, shown_publisher, which)

    async def create_publisher(self, request: Request) -> Response:
        """`POST /publishers`: make a publisher that belongs to the caller's workspace."""
        caller = caller_of(request)
        entry = await _read(request, PublisherEntry)
        return answer(shown_publisher(await self.registry.create_publisher(caller, entry)), _CREATED)

    async def show_publisher(self, request: Request) -> Response:
        """`GET /publishers/{publisher_id}`: one of them."""
        return answer(shown_publisher(await self.registry.publisher(_publisher_id(request))))

    async def change_publisher(self, request: Request) -> Response:
        """`PUT /publishers/{publisher_id}`: replace its description; what is left out is removed."""
        caller, publisher_id = caller_of(request), _publisher_id(request)
        entry = await _read(request, PublisherChange)
        entry = entry if entry.id else msgspec.structs.replace(entry, id=publisher_id)
        return answer(shown_publisher(await self.registry.change_publisher(caller, publisher_id, entry)))

    async def delete_publisher(self, request: Request) -> Response:
        """`DELETE /publishers/{publisher_id}`: delete it with its nodes."""
        caller = caller_of(request)
        await self.registry.delete_publisher(caller, _publisher_id(request))
        return Response(status_code=_DELETED)

    async def list_nodes_of_publisher(self, request: Request) -> Response:
        """`GET /publishers/{publisher_id}/nodes`: its nodes, by id."""
        publisher_id, limit = _publisher_id(request), _limit(request)
        which = f"nodes of {publisher_id[:LIMIT_MAX]}"
        page = await self.registry.nodes_of(publisher_id, _after(request, which), limit)
        return self._list(request, page, self._shower(request), which)

    async def create_node(self, request: Request) -> Response:
        """`POST /publishers/{publisher_id}/nodes`: make a node, which has no versions yet."""
        caller = caller_of(request)
        entry = await _read(request, NodeEntry)
        created = await self.registry.create_node(caller, _publisher_id(request), entry)
        return answer(shown_node(created, self._base(request)), _CREATED)

    async def delete_node(self, request: Request) -> Response:
        """`DELETE /publishers/{publisher_id}/nodes/{node_id}`: delete this node only (G-01)."""
        caller = caller_of(request)
        await self.registry.delete_node(caller, _publisher_id(request), _node_id(request))
        return Response(status_code=_DELETED)

    async def publish_version(self, request: Request) -> Response:
        """`POST /publishers/{publisher_id}/nodes/{node_id}/versions`: publish a version of a node.

        A command line also sends a description of the node, may have its token in the body, and sends the archive
        afterwards.
        """
        has_header = any(name in request.headers for name in _CREDENTIALS)
        caller = await self._caller(request) if has_header else None
        content = await read_small_json(request, BODY_MAX)
        publication = _decode(content, Publication) if _is_publication(content) else None
        if caller is None:
            caller = await self._caller(request, None if publication is None else publication.personal_access_token)
        base = self._base(request)
        if publication is None:
            entry = _decode(content, VersionEntry)
            published = await self.registry.publish_version(caller, _publisher_id(request), _node_id(request), entry)
            return answer(shown_version(published, base), _CREATED)
        announced = await self.archives.announce(
            caller, _publisher_id(request), *publication.entries(_node_id(request))
        )
        return answer(ShownPublication(shown_version(announced.version, base), base + announced.link), _CREATED)

    async def receive_archive(self, request: Request) -> Response:
        """`PUT /archives/{archive_id}`: the archive of an announced version, by signed link."""
        archive_id: str = request.path_params["archive_id"]
        await self.archives.receive(archive_id, signed_query(request), lambda sink: read_body(request, sink))
        return Response(status_code=_KEPT)

    async def show_archive(self, request: Request) -> Response:
        """`GET /archives/{archive_id}`: the archive of a version, or a part of it."""
        archive = await self.archives.find(request.path_params["archive_id"])
        try:
            return await content_response(request, archive, self.reader)
        except UnsatisfiableRangeError:
            headers = {"Content-Range": f"bytes */{archive.size}"}
            message = f"The archive has {archive.size} bytes."
            return answer(ShownError("invalid_request", message), _UNSATISFIABLE, headers)

    async def install_node(self, request: Request) -> Response:
        """`GET /nodes/{node_id}/install`: where a version is downloaded from; counts as an installation (K-08)."""
        version, caller = request.query_params.get("version") or None, self.base_urls.caller_of(request.scope)
        installed = await self.registry.install(_node_id(request), version, caller)
        return answer(shown_version(installed, self._base(request)))

    async def list_nodes(self, request: Request) -> Response:
        """`GET /nodes`: all of them, or those that have every word of `search`, by id; after a cursor, or by page."""
        which, limit = "nodes", _limit(request)
        search, after = request.query_params.get("search", ""), _after(request, which)
        offset = 0 if after is not None else (_page(request) - 1) * limit
        page = await self.registry.nodes(search, after, limit, offset)
        return answer(shown_nodes(page, self._shower(request), which, limit))

    async def show_node(self, request: Request) -> Response:
        """`GET /nodes/{node_id}`: one of them."""
        return answer(shown_node(await self.registry.node(_node_id(request)), self._base(request)))

    async def list_versions(self, request: Request) -> Response:
        """`GET /nodes/{node_id}/versions`: all of them, the newest first."""
        node_id, limit = _node_id(request), _limit(request)
        which = f"versions of {node_id[:LIMIT_MAX]}"
        page = await self.registry.versions(node_id, _after(request, which), limit)
        base = self._base(request)
        return self._list(request, page, lambda version: shown_version(version, base), which)

    def _list(self, request: Request, page: RegistryPage[T], shown: Callable[[T], object], which: str) -> Response:
        """A plain array, as released clients read it, and a link (RFC 8288) to the page after it where there is one.

        The cursor of the link names the list (`which`), and is refused by any other.
        """
        entries = [shown(entry) for entry in page.entries]
        if page.after is None:
            return answer(entries)
        query = urlencode({**request.query_params, "cursor": make_cursor(which, page.after)})
        address = f"{self.base_urls.of(request.scope)}{request.scope['path']}?{query}"
        return answer(entries, more={"Link": f'<{address}>; rel="next"'})

    def _base(self, request: Request) -> str:
        return self.base_urls.of(request.scope) + self.prefix

    def _shower(self, request: Request) -> Callable[[PublishedNode], ShownNode]:
        base = self._base(request)
        return lambda node: shown_node(node, base)

    async def _caller(self, request: Request, token: str | None = None) -> Caller:
        """The caller by its headers, or by the token of its body."""
        credential = self.credentials.of_call(request.scope) or self.credentials.of_text(token, request.scope)
        remembered = self.authenticator.recall(credential)
        caller = remembered or await self.authenticator.authenticate(credential)
        self.windows.count(caller.workspace_id, caller.rate_limits)
        return caller


def _publisher_id(request: Request) -> str:
    publisher_id: str = request.path_params["publisher_id"]
    return publisher_id


def _node_id(request: Request) -> str:
    node_id: str = request.path_params["node_id"]
    return node_id


async def _read(request: Request, entry: type[T]) -> T:
    return _decode(await read_small_json(request, BODY_MAX), entry)


def _is_publication(content: bytes) -> bool:
    """Whether a body also describes the node, as a command line's does."""
    try:
        return msgspec.json.decode(content, type=_Probe).node_version is not msgspec.UNSET
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False  # the caller of which refuses it


def _decode(content: bytes, entry: type[T]) -> T:
    """A body of JSON; RegistryFaultError, which says where it is wrong and repeats nothing else of it."""
    try:
        return msgspec.json.decode(content, type=entry)
    except RecursionError as error:
        raise RegistryFaultError(BadEntry("The body is nested too deeply.")) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RegistryFaultError(BadEntry(f"The body cannot be used: {error}.")) from error


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(_LIMIT_DEFAULT))
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LIMIT_MAX)) and 1 <= int(text) <= LIMIT_MAX):
        raise FaultError(InvalidInput(f"limit must be a whole number from 1 to {LIMIT_MAX}."))
    return int(text)


def _page(request: Request) -> int:
    text = request.query_params.get("page", "1")
    if not (text.isascii() and text.isdigit() and len(text) <= _PAGE_DIGITS and int(text) >= 1):
        raise FaultError(InvalidInput("page must be a whole number from 1 on."))
    return int(text)


def _after(request: Request, which: str) -> str | None:
    """The position after which a page begins, None at the beginning; FaultError for a cursor of another list."""
    text = request.query_params.get("cursor")
    if text is None:
        return None
    made_for, after = read_cursor(text)
    if made_for != which:
        raise FaultError(InvalidInput("The cursor belongs to another list."))
    return after
