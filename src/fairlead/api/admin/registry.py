"""The registry for operators: bans, and the record of what was done there."""

from collections.abc import Mapping
from typing import Final, TypedDict

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of
from fairlead.api.admin.bodies import PAGE, FieldError, answer, limit_of, number_after, page_of
from fairlead.api.admin.documents import Page
from fairlead.api.http.route import Access, Answer, Parameter, Route
from fairlead.api.http.schemas import Time, as_time
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Right
from fairlead.domain.registry import Kind
from fairlead.operations.outages import AnsweringDatabase
from fairlead.operations.registry import publishing as operations

_DONE: Final = 204
_WHICH: Final = "registry acts"
_ID_MAX: Final = 100


class RegistryActShown(TypedDict):
    """Something that was done to a publisher or a node."""

    at: Time
    act: str
    publisher: str
    node: str | None
    workspace_id: str
    key_id: str | None
    subject: str | None


class RegistryHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of bans."""

    database: AnsweringDatabase
    clock: Clock

    async def ban_entry(self, request: Request) -> Response:
        """`PUT /registry-bans/{kind}/{entry_id}`: hide it, and let nobody change it."""
        await self._set_banned(request, banned=True)
        return Response(status_code=_DONE)

    async def unban_entry(self, request: Request) -> Response:
        """`DELETE /registry-bans/{kind}/{entry_id}`: show it again, unless it is deleted."""
        await self._set_banned(request, banned=False)
        return Response(status_code=_DONE)

    async def list_registry_acts(self, request: Request) -> Response:
        """`GET /registry-acts`: who has made, changed, deleted or banned what, the newest first."""
        publisher, limit = request.query_params.get("publisher"), limit_of(request)
        if publisher is not None and not 0 < len(publisher) <= _ID_MAX:
            raise FieldError("publisher", f"This has 1 to {_ID_MAX} characters.")
        found = await operations.list_acts(self.database, publisher, limit + 1, number_after(request, _WHICH))
        after = str(found[limit - 1]["id"]) if len(found) > limit else None
        return answer(page_of([_show(row) for row in found[:limit]], _WHICH, after))

    async def _set_banned(self, request: Request, *, banned: bool) -> None:
        kinds = {kind.value: kind for kind in (Kind.PUBLISHER, Kind.NODE)}
        kind = kinds.get(request.path_params["kind"])
        if kind is None:
            raise FieldError("kind", "Bans are of a publisher or of a node.")
        entry_id, by = request.path_params["entry_id"], actor_of(request)
        await operations.set_banned(self.database, kind, entry_id, self.clock, banned=banned, by=by)


def _show(row: Mapping[str, object]) -> RegistryActShown:
    at, node, key_id, subject = row["at"], row["node_id"], row["key_id"], row["subject"]
    return {
        "at": as_time(at if isinstance(at, int) else 0),
        "act": str(row["act"]),
        "publisher": str(row["publisher_id"]),
        "node": None if node is None else str(node),
        "workspace_id": str(row["workspace_id"]),
        "key_id": None if key_id is None else str(key_id),
        "subject": None if subject is None else str(subject),
    }


_PATH: Final = "/registry-bans/{kind}/{entry_id}"
ROUTES: Final = (
    Route(
        "PUT",
        _PATH,
        RegistryHandlers.ban_entry,
        "Ban a publisher with its nodes, or one node",
        {204: Answer("It is banned.")},
        (404, 422),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "DELETE",
        _PATH,
        RegistryHandlers.unban_entry,
        "End a ban",
        {204: Answer("It is not banned any more.")},
        (404, 422),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "GET",
        "/registry-acts",
        RegistryHandlers.list_registry_acts,
        "List what was done in the registry",
        {200: Answer("The last of them first.", Page[RegistryActShown])},
        (400, 422),
        (Parameter("publisher", "The id of a publisher: only what was done to it and its nodes."), *PAGE),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
)
