"""Workspaces over HTTP: callers see their own; operators make, fund, limit, suspend and delete them."""

from collections.abc import Callable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, reach_of, workspace_of
from fairlead.api.admin.bodies import (
    IDEMPOTENCY_KEY,
    PAGE,
    FieldError,
    after_of,
    answer,
    idempotency_key_of,
    limit_of,
    page_of,
    read_body,
)
from fairlead.api.admin.documents import Page
from fairlead.api.admin.workspace_documents import (
    LimitsChange,
    NewCredit,
    NewWorkspace,
    UnderWayShown,
    WorkspaceChange,
    WorkspaceShown,
)
from fairlead.api.http.route import Access, Answer, Body, Route
from fairlead.api.http.schemas import as_time
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Gate, is_organization_id
from fairlead.domain.accounts.rights import Right
from fairlead.domain.accounts.storage_limits import StorageLimits
from fairlead.domain.ledger.markups import read_percent
from fairlead.domain.ledger.money import NotAnAmountError, as_dollars, from_dollars
from fairlead.domain.runs.replays import key_id
from fairlead.operations.accounts import workspaces as operations
from fairlead.operations.accounts.workspaces import Tiers, WorkspaceRecord
from fairlead.operations.outages import AnsweringDatabase

_WHICH: Final = "workspaces"
_CREATED: Final = 201
_GATES: Final = ("router", "estimate")


class WorkspaceHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of workspaces.

    `storage` is the limit of workspaces without one of their own; `changed` is called with the id of each changed
    workspace; a deleted one can be restored for `grace_ms`.
    """

    database: AnsweringDatabase
    tiers: Tiers
    storage: StorageLimits
    changed: Callable[[str], None]
    grace_ms: int
    clock: Clock

    async def list_workspaces(self, request: Request) -> Response:
        """`GET /workspaces`: those the caller may see, by name."""
        limit = limit_of(request)
        within, after = reach_of(request).workspace_ids, after_of(request, _WHICH)
        found = await operations.list_records(self.database, within, after, limit + 1)
        last = found[limit - 1].name if len(found) > limit else None
        return answer(page_of([self._show(one) for one in found[:limit]], _WHICH, last))

    async def show_workspace(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}`: its balance, limits and rights."""
        return await self._answer(workspace_of(request).id)

    async def create_workspace(self, request: Request) -> Response:
        """`POST /workspaces`: a workspace with an empty book."""
        body = await read_body(request, NewWorkspace)
        changes = self._changes(body)
        changes = {**self.tiers.subscription(operations.usual_subscription(self.tiers)), **changes}
        new = msgspec.structs.replace(operations.NewWorkspace(name=body.name), **changes)
        by, storage = actor_of(request), _storage(body)
        workspace_id = await operations.create_workspace(self.database, new, self.clock, by, storage)
        return await self._answer(workspace_id, _CREATED)

    async def change_workspace(self, request: Request) -> Response:
        """`PATCH /workspaces/{workspace}`: other limits, rights, switches or billing."""
        body, workspace = await read_body(request, WorkspaceChange), workspace_of(request)
        changes, storage, by = self._changes(body), _storage(body), actor_of(request)
        if changes or storage:
            await operations.change_workspace(self.database, workspace.id, changes, self.clock, by, storage)
        return await self._answer_after_change(workspace.id)

    async def credit_workspace(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/credit`: book money in, or a correction out; once for each idempotency key."""
        key, workspace = idempotency_key_of(request), workspace_of(request)
        body = await read_body(request, NewCredit)
        key = None if key is None else key_id(workspace.id, key)
        new = operations.NewCredit(amount_of("amount", body.amount), body.reason, key)
        await operations.credit(self.database, workspace.id, new, self.clock, actor_of(request))
        return await self._answer_after_change(workspace.id)

    async def suspend_workspace(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/suspend`: it begins no further work."""
        workspace_id = workspace_of(request).id
        await operations.suspend_workspace(self.database, workspace_id, self.clock, actor_of(request))
        return await self._answer_after_change(workspace_id)

    async def resume_workspace(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/resume`: it may begin work again."""
        workspace_id = workspace_of(request).id
        await operations.resume_workspace(self.database, workspace_id, self.clock, actor_of(request))
        return await self._answer_after_change(workspace_id)

    async def delete_workspace(self, request: Request) -> Response:
        """`DELETE /workspaces/{workspace}`: it begins no further work, and is removed after the grace period."""
        workspace_id = workspace_of(request).id
        await operations.delete_workspace(self.database, workspace_id, self.grace_ms, self.clock, actor_of(request))
        return await self._answer_after_change(workspace_id)

    async def restore_workspace(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/restore`: take its deletion back."""
        workspace_id = workspace_of(request).id
        await operations.restore_workspace(self.database, workspace_id, self.clock, actor_of(request))
        return await self._answer_after_change(workspace_id)

    async def _answer_after_change(self, workspace_id: str) -> Response:
        self.changed(workspace_id)
        return await self._answer(workspace_id)

    async def _answer(self, workspace_id: str, status: int = 200) -> Response:
        return answer(self._show(await operations.find_record(self.database, workspace_id)), status)

    def _changes(self, body: WorkspaceChange) -> dict[str, object]:
        """A body as the operation takes it; a limit that is given wins over that of the tier. FieldError."""
        changes = _markup(body.markup)
        if body.tier is not msgspec.UNSET:
            changes |= self.tiers.limits_of(body.tier)
        if body.subscription is not msgspec.UNSET:
            changes |= self.tiers.subscription(body.subscription)
        if body.cap is not msgspec.UNSET:
            changes["cap"] = amount_of("cap", body.cap, least=0)
        if body.switches is not msgspec.UNSET:
            changes["gates"] = {_gate(name): Gate(state) for name, state in body.switches.items()}
        if body.organization is not msgspec.UNSET:
            changes["organization_id"] = organization_of(body.organization)
        for name in ("models", "providers"):
            if (names := getattr(body, name)) is not msgspec.UNSET:
                changes[name] = None if names is None else tuple(names)
        for name in ("billing", "sso_required"):
            if (value := getattr(body, name)) is not msgspec.UNSET:
                changes[name] = value
        return changes if body.limits is msgspec.UNSET else changes | _limits(body.limits)

    def _show(self, one: WorkspaceRecord) -> WorkspaceShown:
        limits = one.storage.limits(self.storage)
        return {
            "id": one.id,
            "name": one.name,
            "billing": one.billing.value,
            "balance": as_dollars(one.balance),
            "held": as_dollars(one.held),
            "available": as_dollars(one.available),
            "cap": as_dollars(one.cap),
            "state": "deleting" if one.delete_at is not None else "active" if one.suspended_at is None else "suspended",
            "limits": {
                "in_flight": one.in_flight_limit,
                "commitment": None if one.commitment_limit is None else as_dollars(one.commitment_limit),
                "jobs": one.jobs_limit,
                "storage_bytes": limits.bytes,
                "storage_files": limits.files,
            },
            "under_way": _under_way(one),
            "storage": {"bytes": one.storage.bytes, "files": one.storage.files},
            "tier": one.tier,
            "subscription": one.subscription,
            "models": one.models,
            "providers": one.providers,
            "switches": one.gates,
            "organization": one.organization_id,
            "sso_required": one.sso_required,
            "markup": one.markup,
            "created_at": as_time(one.created_at),
            "delete_at": None if one.delete_at is None else as_time(one.delete_at),
        }


def amount_of(field: str, text: str, least: int | None = None) -> int:
    """An amount of dollars in 10^-8; FieldError for what is not an amount, or is less than `least`."""
    try:
        amount = from_dollars(text)
    except NotAnAmountError as error:
        raise FieldError(field, "This is not an amount of dollars with at most eight decimals.") from error
    if least is not None and amount < least:
        raise FieldError(field, "This must not be negative.")
    return amount


def organization_of(text: str | None) -> str | None:
    """The id of an organization, or None; FieldError."""
    if text is not None and not is_organization_id(text):
        raise FieldError("organization", "An organization has 1 to 100 characters, without spaces.")
    return text


def _under_way(one: WorkspaceRecord) -> UnderWayShown:
    return {
        "runs": one.in_flight,
        "waiting": one.waiting,
        "parked": one.parked,
        "jobs": one.jobs_active,
        "jobs_parked": one.jobs_parked,
    }


def _markup(text: str | msgspec.UnsetType | None) -> dict[str, object]:
    if text is None or text is msgspec.UNSET:
        return {} if text is msgspec.UNSET else {"markup": None}
    try:
        return {"markup": f"{read_percent(text):f}"}
    except ValueError as error:
        raise FieldError("markup", f"This {error}.") from error


def _limits(limits: LimitsChange) -> dict[str, object]:
    changes: dict[str, object] = {}
    if limits.in_flight is not msgspec.UNSET:
        changes["in_flight_limit"] = limits.in_flight
    if limits.commitment is not msgspec.UNSET:
        text = limits.commitment
        changes["commitment_limit"] = None if text is None else amount_of("limits.commitment", text, least=0)
    return changes


def _storage(body: WorkspaceChange) -> dict[str, int | None]:
    """The limits of what a workspace keeps that a body has."""
    if body.limits is msgspec.UNSET:
        return {}
    given = {"bytes_limit": body.limits.storage_bytes, "files_limit": body.limits.storage_files}
    return {name: value for name, value in given.items() if value is not msgspec.UNSET}


def _gate(name: str) -> str:
    if name not in _GATES and not name.startswith("provider:"):
        raise FieldError("switches", f"There is no switch {name}: they are router, estimate and provider:NAME.")
    return name


_SHOWN: Final = {200: Answer("The workspace.", WorkspaceShown)}
ROUTES: Final = (
    Route(
        "GET",
        "/workspaces",
        WorkspaceHandlers.list_workspaces,
        "List workspaces",
        {200: Answer("A page, by name.", Page[WorkspaceShown])},
        (400, 422),
        PAGE,
        access=Access.MEMBER,
        right=Right.SEE,
    ),
    Route(
        "POST",
        "/workspaces",
        WorkspaceHandlers.create_workspace,
        "Create a workspace",
        {201: Answer("The workspace.", WorkspaceShown)},
        (400, 409, 413, 422),
        body=Body(NewWorkspace),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "GET",
        "/workspaces/{workspace}",
        WorkspaceHandlers.show_workspace,
        "Show a workspace's balance, limits and rights",
        _SHOWN,
        (404,),
        access=Access.MEMBER,
        right=Right.SEE,
    ),
    Route(
        "PATCH",
        "/workspaces/{workspace}",
        WorkspaceHandlers.change_workspace,
        "Change limits, rights, switches or billing",
        _SHOWN,
        (400, 404, 413, 422),
        body=Body(WorkspaceChange),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "DELETE",
        "/workspaces/{workspace}",
        WorkspaceHandlers.delete_workspace,
        "Delete a workspace, after a time in which it can be restored",
        _SHOWN,
        (404,),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        "/workspaces/{workspace}/credit",
        WorkspaceHandlers.credit_workspace,
        "Book money in, or a correction out",
        _SHOWN,
        (400, 404, 409, 413, 422),
        (IDEMPOTENCY_KEY,),
        body=Body(NewCredit),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    *(
        Route(
            "POST",
            f"/workspaces/{{workspace}}/{verb}",
            handler,
            summary,
            _SHOWN,
            (404,),
            access=Access.MEMBER,
            right=Right.OPERATE,
        )
        for verb, handler, summary in (
            ("suspend", WorkspaceHandlers.suspend_workspace, "Let a workspace begin nothing any more"),
            ("resume", WorkspaceHandlers.resume_workspace, "Let a suspended workspace begin work again"),
            ("restore", WorkspaceHandlers.restore_workspace, "Take the deletion of a workspace back"),
        )
    ),
)
