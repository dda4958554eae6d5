"""Runs over the administration API: listed, shown in full, cancelled."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of, reach_of
from fairlead.api.admin.bodies import PAGE, FieldError, after_of, answer, limit_of, page_of, text_of, time_of
from fairlead.api.admin.documents import Page
from fairlead.api.admin.run_documents import LedgerEntryShown, RunCancelled, RunDetailShown, RunShown, RunWebhookShown
from fairlead.api.http.route import ANYTHING, JSON, Access, Answer, Parameter, Route
from fairlead.api.http.schemas import as_time
from fairlead.domain.accounts.rights import Right
from fairlead.domain.faults import FaultError, RequestNotFound
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.runs.entries import LABELS_MAX
from fairlead.domain.runs.states import RunState
from fairlead.operations.runs.inspect import ListedRun, RunDetail, RunFilter, RunInspector

_WHICH: Final = "runs"
_INERT: Final = {"Cache-Control": "no-store", "Content-Security-Policy": "sandbox"}
"""A provider's bytes are served from our own address: no script in them may run there."""


class RunHandlers(msgspec.Struct, frozen=True):
    """Answers what is asked about runs."""

    runs: RunInspector

    async def list_runs(self, request: Request) -> Response:
        """`GET /runs`: those that pass the filters, the newest first. A page may be empty and have another one."""
        wanted = msgspec.structs.replace(
            _filter_of(request),
            state=_state(request),
            model_id=text_of(request, "model"),
            provider=text_of(request, "provider"),
            key_id=text_of(request, "key"),
            labels=_labels(request),
            since=time_of(request, "from"),
            until=time_of(request, "to"),
            before=after_of(request, _WHICH),
        )
        page = await self.runs.page(wanted, limit_of(request))
        return answer(page_of([_show(one) for one in page.runs], _WHICH, page.before))

    async def show_run(self, request: Request) -> Response:
        """`GET /runs/{run_id}`: a run with its timeline and its account."""
        return answer(_show_detail(await self.runs.detail(request.path_params["run_id"], _filter_of(request))))

    async def show_result(self, request: Request) -> Response:
        """`GET /runs/{run_id}/result`: the bytes of the run's result, while they are kept."""
        found = await self.runs.result(request.path_params["run_id"], _filter_of(request))
        if found is None:
            raise FaultError(RequestNotFound(detail="No result of this run is kept."))
        return Response(found.content, 200, _INERT, found.content_type)

    async def cancel_run(self, request: Request) -> Response:
        """`POST /runs/{run_id}/cancel`: request a queued run to stop."""
        done = await self.runs.cancel(request.path_params["run_id"], _filter_of(request), actor_of(request))
        told: RunCancelled = {"is_cancelled": done}
        return answer(told)


def _filter_of(request: Request) -> RunFilter:
    reach = reach_of(request)
    return RunFilter(reach.workspace_ids, reach.api_key_id)


def _labels(request: Request) -> list[tuple[str, str]]:
    """The labels that are asked for; FieldError for a text that is no pair, and for too many."""
    pairs = [text.partition("=") for text in request.query_params.getlist("label")]
    if len(pairs) > LABELS_MAX or not all(mark for _, mark, _ in pairs):
        raise FieldError("label", f"Up to {LABELS_MAX} labels are written as name=value.")
    return [(name, value) for name, _, value in pairs]


def _state(request: Request) -> RunState | None:
    text = request.query_params.get("state")
    try:
        return None if text is None else RunState(text)
    except ValueError as error:
        raise FieldError("state", f"A state is one of {', '.join(RunState)}.") from error


def _show(one: ListedRun) -> RunShown:
    return {
        "id": one.id,
        "workspace": one.workspace,
        "model": one.model_id,
        "provider": one.provider,
        "state": one.state,
        "reason": one.reason,
        "key": None if one.key is None else {"id": one.key.id, "label": one.key.label, "hint": one.key.hint},
        "hold": as_dollars(one.hold),
        "charge": None if one.charge is None else as_dollars(one.charge),
        "is_queued": one.is_queued,
        "labels": one.labels,
        "created_at": as_time(one.created_at),
        "finished_at": None if one.finished_at is None else as_time(one.finished_at),
    }


def _show_detail(detail: RunDetail) -> RunDetailShown:
    told = detail.statement
    run = msgspec.convert(_plain(told.run), _Row)
    key_id = run.key_id
    return {
        "id": run.id,
        "workspace": run.workspace,
        "model": run.model_id,
        "provider": run.provider,
        "state": run.state,
        "reason": run.reason,
        "key": None if key_id is None else {"id": key_id, "label": run.key_label or "", "hint": run.key_hint or ""},
        "hold": as_dollars(run.hold),
        "charge": None if run.charge is None else as_dollars(run.charge),
        "is_queued": run.came == "queued",
        "labels": run.labels,
        "created_at": as_time(run.created_at),
        "finished_at": None if run.finished_at is None else as_time(run.finished_at),
        "attempt": run.attempt,
        "operation": run.operation,
        "is_strict": run.strict,
        "is_byok": run.byok,
        "is_redirected": run.redirected,
        "dropped": run.dropped,
        "least": None if run.least is None else as_dollars(run.least),
        "rate_version": run.rate_version,
        "upstream_status": run.upstream_status,
        "cancel_requested_at": None if run.cancel_requested_at is None else as_time(run.cancel_requested_at),
        "timeline": [
            {"at": as_time(one.at), "kind": one.kind, "attempt": one.attempt, "detail": one.detail}
            for one in detail.timeline
        ],
        "ledger": [_show_entry(msgspec.convert(_plain(entry), _Entry)) for entry in told.entries],
        "outputs": detail.outputs,
        "webhook": None if told.webhook is None else _webhook(told.webhook, told.tries),
    }


def _webhook(row: Mapping[str, object], tries: Sequence[Mapping[str, object]]) -> RunWebhookShown:
    webhook = msgspec.convert(_plain(row), _Webhook)
    return {
        "url": webhook.url,
        "next_at": _time(webhook.next_at),
        "delivered_at": _time(webhook.delivered_at),
        "gave_up_at": _time(webhook.gave_up_at),
        "tries": [
            {
                "number": one.number,
                "at": as_time(one.at),
                "milliseconds": one.milliseconds,
                "status": one.status,
                "error": one.error,
            }
            for one in (msgspec.convert(_plain(each), _Try) for each in tries)
        ],
    }


def _time(at: int | None) -> str | None:
    return None if at is None else as_time(at)


def _plain(row: Mapping[str, object]) -> dict[str, object]:
    """A row whose names are plain texts, as msgspec requires; those of the database have a type of its own."""
    return {str(name): value for name, value in row.items()}


def _show_entry(entry: "_Entry") -> LedgerEntryShown:
    return {
        "at": as_time(entry.created_at),
        "kind": entry.kind,
        "balance_change": as_dollars(entry.balance_change),
        "held_change": as_dollars(entry.held_change),
        "reason": entry.reason,
        "rate_version": entry.rate_version,
    }


class _Row(msgspec.Struct, frozen=True):
    """A run as it is shown, made of its statement."""

    id: str
    workspace: str
    model_id: str
    provider: str
    state: str
    reason: str | None
    key_id: str | None
    key_label: str | None
    key_hint: str | None
    hold: int
    charge: int | None
    came: str
    labels: dict[str, str]
    created_at: int
    finished_at: int | None
    attempt: int
    operation: str | None
    strict: bool
    byok: bool
    redirected: bool
    dropped: list[str]
    least: int | None
    rate_version: str
    upstream_status: int | None
    cancel_requested_at: int | None


class _Entry(msgspec.Struct, frozen=True):
    """An entry as it is shown, made of a statement."""

    created_at: int
    kind: str
    balance_change: int
    held_change: int
    reason: str
    rate_version: str | None


class _Webhook(msgspec.Struct, frozen=True):
    """The webhook of a run as it is shown, made of its statement."""

    url: str
    next_at: int | None
    delivered_at: int | None
    gave_up_at: int | None


class _Try(msgspec.Struct, frozen=True):
    """An attempt as it is shown, made of a statement."""

    number: int
    at: int
    milliseconds: int
    status: int | None
    error: str | None


WORKSPACE: Final = Parameter("workspace", "Only of this workspace, by its name or id.")
FROM_TO: Final = (
    Parameter("from", "From this day (UTC) or time on, such as 2026-11-23 or 2026-11-23T12:00:00Z."),
    Parameter("to", "Before this time, or up to this day and with it."),
)
ROUTES: Final = (
    Route(
        "GET",
        "/runs",
        RunHandlers.list_runs,
        "List runs",
        {200: Answer("A page, the newest first; one that is not full may have another one behind it.", Page[RunShown])},
        (400, 404, 422),
        (
            WORKSPACE,
            Parameter("state", "Only those in this state."),
            Parameter("model", "Only those of this model."),
            Parameter("provider", "Only those at this provider."),
            Parameter("label", "Only those with this label, `name=value`; may be given several times."),
            Parameter("key", "Only those that were called with this API key, by its id."),
            *FROM_TO,
            *PAGE,
        ),
        access=Access.MEMBER,
        right=Right.SEE,
    ),
    Route(
        "GET",
        "/runs/{run_id}",
        RunHandlers.show_run,
        "Show a run with its timeline",
        {200: Answer("The run.", RunDetailShown)},
        (404,),
        access=Access.MEMBER,
        right=Right.SEE,
    ),
    Route(
        "GET",
        "/runs/{run_id}/result",
        RunHandlers.show_result,
        "Show the result of a run",
        {200: Answer("What the run has given, in the form of its provider.", Any, (JSON, ANYTHING))},
        (404,),
        access=Access.MEMBER,
        right=Right.SEE,
    ),
    Route(
        "POST",
        "/runs/{run_id}/cancel",
        RunHandlers.cancel_run,
        "Cancel a queued run",
        {200: Answer("Whether it was requested to stop.", RunCancelled)},
        (404, 409),
        access=Access.MEMBER,
        right=Right.RUN,
    ),
)
