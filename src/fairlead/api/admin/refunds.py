"""Refunds over the administration API: of one run, and of the runs of a model, in pages."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, TypedDict

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of
from fairlead.api.admin.bodies import PAGE, FieldError, after_of, answer, limit_of, page_of, read_body, read_time
from fairlead.api.admin.documents import Dollars
from fairlead.api.admin.workspace_documents import Amount
from fairlead.api.admin.workspaces import amount_of
from fairlead.api.http.route import Access, Answer, Body, Route
from fairlead.api.http.schemas import Time, Uuid, as_time
from fairlead.domain.accounts.rights import Right
from fairlead.domain.ledger.money import as_dollars
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.operations.ledger.corrections import Refund, RefundOrder, Refunds, RefundSums, RunSelection

_WHICH: Final = "refunds"
Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Text = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class NewRefund(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The refund of a run: why, and how much; all of its charge where that is absent."""

    reason: Reason
    amount: Amount | None = None
    is_dry_run: bool = False


class RunsOfModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The runs of a model that were admitted from a day or time on, and before another one.

    They are narrowed by workspace, by the version of the rate card, and by how the runs ended (`outcome`, such as
    completed).
    """

    model: Text
    since: Text = msgspec.field(name="from")
    until: Text | None = msgspec.field(name="to", default=None)
    workspace: Text | None = None
    rate_version: Text | None = None
    outcome: Text | None = None


class NewRefunds(RunsOfModel, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Refunds of the runs of a model that were admitted from a day or time on, and before another one.

    They are narrowed by workspace, by the version of the rate card, and by how the runs ended (`outcome`, such as
    completed).
    """

    reason: Reason
    is_dry_run: bool


class RefundShown(TypedDict):
    """A refund: what is given back of a run, what is left of its charge, and when it was booked.

    `is_new` is false where the run was refunded before.
    """

    run: Uuid
    workspace: str
    amount: Dollars
    charge: Dollars
    at: Time
    is_new: bool


class RefundTotals(TypedDict):
    """What may be refunded of a selection in all, and what was refunded before."""

    runs: int
    amount: Dollars
    refunded_runs: int
    refunded_amount: Dollars


class RefundPageShown(TypedDict):
    """A page of refunds, in the order in which the runs were admitted; in a dry run nothing is booked.

    `obstacles` has the runs of the page that cannot be refunded now, and why; `totals` is given on the first page of a
    dry run.
    """

    items: Sequence[RefundShown]
    next_cursor: str | None
    is_dry_run: bool
    obstacles: Mapping[str, str]
    totals: RefundTotals | None


class RefundHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of refunds."""

    refunds: Refunds

    async def refund_run(self, request: Request) -> Response:
        """`POST /runs/{run_id}/refund`: give back what a run was charged, once."""
        body, run_id = await read_body(request, NewRefund), request.path_params["run_id"]
        amount = None if body.amount is None else amount_of("amount", body.amount)
        if amount is not None and amount <= 0:
            raise FieldError("amount", "This must be more than 0.")
        order = RefundOrder(body.reason, amount)
        return answer(_show(await self.refunds.refund(run_id, order, actor_of(request), is_dry=body.is_dry_run)))

    async def refund_runs(self, request: Request) -> Response:
        """`POST /refunds`: give back what runs of a model were charged, a page of runs at a time."""
        body, after, limit = await read_body(request, NewRefunds), after_of(request, _WHICH), limit_of(request)
        workspace_id = None if body.workspace is None else await find_workspace(self.refunds.database, body.workspace)
        wanted, order = selection_of(body, workspace_id), RefundOrder(body.reason)
        totals: RefundTotals | None = None
        if body.is_dry_run:
            totals = _totals(await self.refunds.sums(wanted)) if after is None else None
            page = await self.refunds.look(wanted, order, after, limit)
        else:
            page = await self.refunds.refund_selected(wanted, order, after, limit, actor_of(request))
        told = page_of([_show(one) for one in page.refunds], _WHICH, page.after)
        return answer({**told, "is_dry_run": body.is_dry_run, "obstacles": page.obstacles, "totals": totals})


def selection_of(body: RunsOfModel, workspace_id: str | None) -> RunSelection:
    """The runs that a body selects, of a workspace or of all; FieldError."""
    return RunSelection(
        model_id=body.model,
        since=read_time("from", body.since),
        until=None if body.until is None else read_time("to", body.until),
        workspace_id=workspace_id,
        rate_version=body.rate_version,
        outcome=body.outcome,
    )


def _show(one: Refund) -> RefundShown:
    return {
        "run": one.run_id,
        "workspace": one.workspace,
        "amount": as_dollars(one.amount),
        "charge": as_dollars(one.charge),
        "at": as_time(one.at),
        "is_new": one.is_new,
    }


def _totals(sums: RefundSums) -> RefundTotals:
    return {
        "runs": sums.runs,
        "amount": as_dollars(sums.amount),
        "refunded_runs": sums.refunded_runs,
        "refunded_amount": as_dollars(sums.refunded),
    }


ROUTES: Final = (
    Route(
        "POST",
        "/runs/{run_id}/refund",
        RefundHandlers.refund_run,
        "Refund a run, once",
        {200: Answer("The refund, or the one that was booked before.", RefundShown)},
        (400, 404, 409, 413, 422),
        body=Body(NewRefund),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        "/refunds",
        RefundHandlers.refund_runs,
        "Refund runs of a model, a page at a time",
        {200: Answer("The refunds of a page of runs; the call with its cursor has the next.", RefundPageShown)},
        (400, 404, 413, 422),
        PAGE,
        body=Body(NewRefunds),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
)
