"""Limits of requests over the administration API: of API keys, and of models."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, workspace_of
from fairlead.api.admin.bodies import PAGE, FieldError, after_of, answer, limit_of, page_of, read_body
from fairlead.api.admin.documents import Page
from fairlead.api.admin.money_documents import NewRateLimit, RateLimitShown
from fairlead.api.http.route import Access, Answer, Body, Route
from fairlead.api.http.schemas import as_time
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Right
from fairlead.domain.catalog.identifiers import is_model_id
from fairlead.operations.accounts import rate_limits as operations
from fairlead.operations.accounts.rate_limits import LimitRecord
from fairlead.operations.catalog import CatalogKeeper, check_models
from fairlead.operations.outages import AnsweringDatabase

_CREATED: Final = 201
_DELETED: Final = 204
_LIMITS: Final = "/workspaces/{workspace}/rate-limits"


class RateLimitHandlers(msgspec.Struct, frozen=True):
    """Answers what is asked about limits of requests."""

    database: AnsweringDatabase
    catalog: CatalogKeeper
    clock: Clock

    async def list_rate_limits(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/rate-limits`: those of its keys, then those of models."""
        workspace, limit = workspace_of(request), limit_of(request)
        which = f"rate limits of {workspace.id}"
        found = await operations.list_limits(self.database, workspace.id, _place(request, which), limit + 1)
        last = found[limit - 1] if len(found) > limit else None
        after = None if last is None else f"{last.scope} {last.subject}"
        return answer(page_of([_show(one) for one in found[:limit]], which, after))

    async def set_rate_limit(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/rate-limits`: set a limit, which replaces the one that the subject has."""
        body, workspace = await read_body(request, NewRateLimit), workspace_of(request)
        if body.scope == "model" and is_model_id(body.subject):
            today = self.catalog.today()
            await check_models(self.database, self.catalog.current, workspace.id, "subject", [body.subject], today)
        made = await operations.set_limit(
            self.database, workspace.id, body.scope, body.subject, body.per_minute, actor_of(request), self.clock
        )
        return answer(_show(made), _CREATED)

    async def delete_rate_limit(self, request: Request) -> Response:
        """`DELETE /workspaces/{workspace}/rate-limits/{limit_id}`: only the quota of the workspace applies again."""
        workspace, limit_id = workspace_of(request), request.path_params["limit_id"]
        await operations.delete_limit(self.database, workspace.id, limit_id, actor_of(request), self.clock)
        return Response(status_code=_DELETED)


def _place(request: Request, which: str) -> tuple[str, str] | None:
    after = after_of(request, which)
    if after is None:
        return None
    scope, space, subject = after.partition(" ")
    if not space:
        raise FieldError("cursor", "The cursor is of another list.")
    return scope, subject


def _show(one: LimitRecord) -> RateLimitShown:
    return {
        "id": one.id,
        "scope": one.scope,
        "subject": one.subject,
        "per_minute": one.per_minute,
        "created_at": as_time(one.created_at),
    }


ROUTES: Final = (
    Route(
        "GET",
        _LIMITS,
        RateLimitHandlers.list_rate_limits,
        "List the limits of requests of a workspace",
        {200: Answer("A page, by scope and subject.", Page[RateLimitShown])},
        (400, 404, 422),
        PAGE,
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "POST",
        _LIMITS,
        RateLimitHandlers.set_rate_limit,
        "Set a limit of requests",
        {201: Answer("The limit.", RateLimitShown)},
        (400, 404, 409, 413, 422),
        body=Body(NewRateLimit),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "DELETE",
        f"{_LIMITS}/{{limit_id}}",
        RateLimitHandlers.delete_rate_limit,
        "Delete a limit of requests",
        {204: Answer("It is deleted.")},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
)
