"""Budgets of a workspace, the channels that alerts are sent to, and the alerts."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, workspace_of
from fairlead.api.admin.bodies import (
    PAGE,
    FieldError,
    after_of,
    answer,
    limit_of,
    number_after,
    page_of,
    read_body,
    read_time,
)
from fairlead.api.admin.documents import Page
from fairlead.api.admin.money_documents import (
    AdditionShown,
    AlertShown,
    BudgetChange,
    BudgetShown,
    ChannelShown,
    NewAddition,
    NewBudget,
    NewChannel,
    TellingShown,
)
from fairlead.api.http.route import Access, Answer, Body, Route
from fairlead.api.http.schemas import as_time
from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Right
from fairlead.domain.catalog.identifiers import is_model_id
from fairlead.domain.ledger.alerts import message_of_alert
from fairlead.domain.ledger.budgets import Budget, BudgetScope, additions_in_force
from fairlead.domain.ledger.money import NotAnAmountError, as_dollars, from_dollars
from fairlead.domain.time_zones import NotATimeOfDayError, minute_text, read_minute
from fairlead.operations.catalog import CatalogKeeper, check_models
from fairlead.operations.ledger import budgets as operations
from fairlead.operations.ledger.alerts import AlertChannels, Channel, ToldAlert
from fairlead.operations.ledger.budgets import AdditionDraft, BudgetChanges, BudgetDraft, BudgetRecord
from fairlead.operations.outages import AnsweringDatabase

_CREATED: Final = 201
_ACCEPTED: Final = 202
_DELETED: Final = 204


class BudgetHandlers(msgspec.Struct, frozen=True):
    """Answers what is asked about budgets and alerts."""

    database: AnsweringDatabase
    catalog: CatalogKeeper
    channels: AlertChannels
    clock: Clock

    async def list_budgets(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/budgets`: each with what is spent of it, the newest first."""
        workspace, limit = workspace_of(request), limit_of(request)
        which = f"budgets of {workspace.id}"
        found = await operations.list_budgets(
            self.database, workspace.id, self.clock, after_of(request, which), limit + 1
        )
        after = found[limit - 1].id if len(found) > limit else None
        return answer(page_of([self._show(one) for one in found[:limit]], which, after))

    async def create_budget(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/budgets`: a budget, which begins with what its period has cost so far."""
        body, workspace = await read_body(request, NewBudget), workspace_of(request)
        terms = BudgetChanges(
            time_zone=body.time_zone, reset_minute=_minute(body.reset_time), reset_weekday=body.reset_weekday
        )
        budget = terms.of(Budget(_amount("limit", body.limit), body.period))
        draft = BudgetDraft(body.scope, body.subject or "", budget, body.thresholds, body.is_enforced)
        if body.scope is BudgetScope.MODEL and is_model_id(draft.subject):
            today = self.catalog.today()
            await check_models(self.database, self.catalog.current, workspace.id, "subject", [draft.subject], today)
        made = await operations.create_budget(self.database, workspace.id, draft, actor_of(request), self.clock)
        return answer(self._show(made), _CREATED)

    async def change_budget(self, request: Request) -> Response:
        """`PATCH /workspaces/{workspace}/budgets/{budget_id}`: other figures; runs that were admitted go on."""
        body, workspace = await read_body(request, BudgetChange), workspace_of(request)
        limit = None if body.limit is None else _amount("limit", body.limit)
        minute = _minute(body.reset_time)
        reset = body.time_zone, minute, body.reset_weekday
        changes = BudgetChanges(limit, body.period, body.thresholds, body.is_enforced, *reset)
        budget_id = request.path_params["budget_id"]
        changed = await operations.change_budget(
            self.database, workspace.id, budget_id, changes, actor_of(request), self.clock
        )
        return answer(self._show(changed))

    async def delete_budget(self, request: Request) -> Response:
        """`DELETE /workspaces/{workspace}/budgets/{budget_id}`: it no longer refuses runs."""
        workspace, budget_id = workspace_of(request), request.path_params["budget_id"]
        await operations.delete_budget(self.database, workspace.id, budget_id, actor_of(request), self.clock)
        return Response(status_code=_DELETED)

    async def add_to_budget(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/budgets/{budget_id}/additions`: a larger budget, until a time."""
        body, workspace = await read_body(request, NewAddition), workspace_of(request)
        draft = AdditionDraft(_amount("amount", body.amount), read_time("until", body.until), body.reason)
        budget_id = request.path_params["budget_id"]
        changed = await operations.add_to_budget(
            self.database, workspace.id, budget_id, draft, actor_of(request), self.clock
        )
        return answer(self._show(changed), _CREATED)

    async def withdraw_addition(self, request: Request) -> Response:
        """`DELETE /workspaces/{workspace}/budgets/{budget_id}/additions/{addition_id}`: it ends before its time."""
        workspace, ids = workspace_of(request), request.path_params
        await operations.withdraw_addition(
            self.database, workspace.id, ids["budget_id"], ids["addition_id"], actor_of(request), self.clock
        )
        return Response(status_code=_DELETED)

    async def list_channels(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/alert-channels`: the channels that alerts are sent to, at most twenty."""
        found = await self.channels.list_channels(workspace_of(request).id)
        return answer(page_of([_shown_channel(one) for one in found], "channels", None))

    async def create_channel(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/alert-channels`: a further channel, which gets every alert of the workspace."""
        body, workspace = await read_body(request, NewChannel), workspace_of(request)
        made = await self.channels.add(workspace.id, body.kind, body.target, actor_of(request))
        return answer(_shown_channel(made), _CREATED)

    async def delete_channel(self, request: Request) -> Response:
        """`DELETE /workspaces/{workspace}/alert-channels/{channel_id}`: it gets no further alerts."""
        workspace, channel_id = workspace_of(request), request.path_params["channel_id"]
        await self.channels.delete(workspace.id, channel_id, actor_of(request))
        return Response(status_code=_DELETED)

    async def test_channel(self, request: Request) -> Response:
        """`POST /workspaces/{workspace}/alert-channels/{channel_id}/test`: a test, which is listed with the alerts."""
        workspace, channel_id = workspace_of(request), request.path_params["channel_id"]
        await self.channels.test(workspace.id, channel_id, actor_of(request))
        return Response(status_code=_ACCEPTED)

    async def list_alerts(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/alerts`: the alerts that were sent, the newest first."""
        workspace, limit = workspace_of(request), limit_of(request)
        which = f"alerts of {workspace.id}"
        found = await self.channels.list_alerts(workspace.id, number_after(request, which), limit + 1)
        last = str(found[limit - 1].alert.id) if len(found) > limit else None
        return answer(page_of([_shown_alert(one) for one in found[:limit]], which, last))

    def _show(self, one: BudgetRecord) -> BudgetShown:
        now = self.clock.now_ms()
        additions: list[AdditionShown] = [
            {
                "id": each.id,
                "amount": as_dollars(each.amount),
                "until": as_time(each.until),
                "reason": each.reason,
                "by": each.by,
                "created_at": as_time(each.created_at),
            }
            for each in additions_in_force(one.additions, now)
        ]
        return {
            "id": one.id,
            "scope": one.scope.value,
            "subject": one.subject or None,
            "period": one.budget.period.value,
            "time_zone": one.budget.reset.time_zone,
            "reset_time": minute_text(one.budget.reset.minute),
            "reset_weekday": one.budget.weekday,
            "since": one.since,
            "resets_at": None if one.resets_at is None else as_time(one.resets_at),
            "limit": as_dollars(one.budget.limit),
            "limit_in_force": as_dollars(one.limit_at(now)),
            "spent": as_dollars(one.spent),
            "held": as_dollars(one.held),
            "thresholds": one.thresholds,
            "is_enforced": one.is_enforced,
            "additions": additions,
            "created_at": as_time(one.created_at),
        }


def _amount(name: str, text: str) -> int:
    try:
        return from_dollars(text)
    except NotAnAmountError as error:
        raise FieldError(name, f"{error}.") from error


def _minute(text: str | None) -> int | None:
    try:
        return None if text is None else read_minute(text)
    except NotATimeOfDayError as error:
        raise FieldError("reset_time", str(error)) from error


def _shown_channel(one: Channel) -> ChannelShown:
    return {"id": one.id, "kind": one.kind.value, "target": one.shown, "created_at": as_time(one.created_at)}


def _shown_alert(told: ToldAlert) -> AlertShown:
    deliveries: list[TellingShown] = [
        {
            "channel": one.channel_id,
            "kind": one.kind,
            "target": one.shown,
            "tries": one.tries,
            "status": one.result.status,
            "error": one.result.error,
            "delivered_at": None if one.result.delivered_at is None else as_time(one.result.delivered_at),
            "gave_up_at": None if one.result.gave_up_at is None else as_time(one.result.gave_up_at),
        }
        for one in told.deliveries
    ]
    return {
        "id": told.alert.id,
        "at": as_time(told.alert.at),
        "kind": told.alert.kind.value,
        "budget": told.budget_id,
        "message": message_of_alert(told.alert),
        "delivered": deliveries,
    }


_BUDGETS: Final = "/workspaces/{workspace}/budgets"
_CHANNELS: Final = "/workspaces/{workspace}/alert-channels"

ROUTES: Final = (
    Route(
        "GET",
        _BUDGETS,
        BudgetHandlers.list_budgets,
        "List the budgets of a workspace",
        {200: Answer("A page, the newest first.", Page[BudgetShown])},
        (400, 404, 422),
        PAGE,
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "POST",
        _BUDGETS,
        BudgetHandlers.create_budget,
        "Make a budget",
        {201: Answer("The budget.", BudgetShown)},
        (400, 404, 409, 413, 422),
        body=Body(NewBudget),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "PATCH",
        f"{_BUDGETS}/{{budget_id}}",
        BudgetHandlers.change_budget,
        "Change a budget",
        {200: Answer("The budget.", BudgetShown)},
        (400, 404, 409, 413, 422),
        body=Body(BudgetChange),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "DELETE",
        f"{_BUDGETS}/{{budget_id}}",
        BudgetHandlers.delete_budget,
        "Delete a budget",
        {204: Answer("It is deleted.")},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "POST",
        f"{_BUDGETS}/{{budget_id}}/additions",
        BudgetHandlers.add_to_budget,
        "Add to a budget until a time",
        {201: Answer("The budget, with what is added to it.", BudgetShown)},
        (400, 404, 409, 413, 422),
        body=Body(NewAddition),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "DELETE",
        f"{_BUDGETS}/{{budget_id}}/additions/{{addition_id}}",
        BudgetHandlers.withdraw_addition,
        "End an addition to a budget before its time",
        {204: Answer("It has ended.")},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "GET",
        _CHANNELS,
        BudgetHandlers.list_channels,
        "List the alert channels of a workspace",
        {200: Answer("The channels.", Page[ChannelShown])},
        (404,),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "POST",
        _CHANNELS,
        BudgetHandlers.create_channel,
        "Add an alert channel",
        {201: Answer("The channel.", ChannelShown)},
        (400, 404, 413, 422),
        body=Body(NewChannel),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "DELETE",
        f"{_CHANNELS}/{{channel_id}}",
        BudgetHandlers.delete_channel,
        "Delete an alert channel",
        {204: Answer("It is deleted.")},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "POST",
        f"{_CHANNELS}/{{channel_id}}/test",
        BudgetHandlers.test_channel,
        "Try an alert channel",
        {202: Answer("A test is on its way.")},
        (404,),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
    Route(
        "GET",
        "/workspaces/{workspace}/alerts",
        BudgetHandlers.list_alerts,
        "List the alerts of a workspace",
        {200: Answer("A page, the newest first.", Page[AlertShown])},
        (400, 404, 422),
        PAGE,
        access=Access.MEMBER,
        right=Right.READ,
    ),
)
