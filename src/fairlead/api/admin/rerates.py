"""Re-rates over the administration API: of one run, and of the runs of a model, in pages."""

from collections.abc import Mapping, Sequence
from typing import Final, TypedDict

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import actor_of
from fairlead.api.admin.bodies import PAGE, after_of, answer, limit_of, page_of, read_body
from fairlead.api.admin.documents import Dollars
from fairlead.api.admin.refunds import Reason, RunsOfModel, Text, selection_of
from fairlead.api.http.route import Access, Answer, Body, Route
from fairlead.api.http.schemas import Time, Uuid, as_time
from fairlead.domain.accounts.rights import Right
from fairlead.domain.ledger.money import as_dollars
from fairlead.operations.accounts.workspaces import find_workspace
from fairlead.operations.ledger.rerates import Rerate, RerateOrder, Rerates

_WHICH: Final = "rerates"


class NewRerate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The re-rate of a run: why, and by which version of a rate card; the card in force where that is absent.

    A run that then costs more is re-rated only with `may_raise`.
    """

    reason: Reason
    to_version: Text | None = None
    may_raise: bool = False
    is_dry_run: bool = False


class NewRerates(RunsOfModel, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Re-rates of the runs of a model that were admitted from a day or time on, and before another one.

    They are narrowed by workspace, by the version of the rate card that they are charged by (`rate_version`), and by
    how the runs ended (`outcome`, such as completed). `to_version` is the card they are charged by from now on.
    """

    reason: Reason
    to_version: Text | None = None
    may_raise: bool = False
    is_dry_run: bool


class RerateShown(TypedDict):
    """A re-rate: the charge of a run before and after it, and the version of the card by which it is charged now.

    `is_new` is false where the run was charged by that card before.
    """

    run: Uuid
    workspace: str
    before: Dollars
    charge: Dollars
    rate_version: str
    at: Time
    is_new: bool


class ReratePageShown(TypedDict):
    """A page of re-rates, in the order in which the runs were admitted; in a dry run nothing is booked.

    `obstacles` has the runs of the page that cannot be re-rated, and why.
    """

    items: Sequence[RerateShown]
    next_cursor: str | None
    is_dry_run: bool
    obstacles: Mapping[str, str]


class RerateHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of re-rates."""

    rerates: Rerates

    async def rerate_run(self, request: Request) -> Response:
        """`POST /runs/{run_id}/rerate`: charge a run by another rate card."""
        body, run_id = await read_body(request, NewRerate), request.path_params["run_id"]
        order = RerateOrder(body.reason, body.to_version, body.may_raise)
        return answer(_show(await self.rerates.rerate(run_id, order, actor_of(request), is_dry=body.is_dry_run)))

    async def rerate_runs(self, request: Request) -> Response:
        """`POST /rerates`: charge runs of a model by another rate card, a page of runs at a time."""
        body, after, limit = await read_body(request, NewRerates), after_of(request, _WHICH), limit_of(request)
        workspace_id = None if body.workspace is None else await find_workspace(self.rerates.database, body.workspace)
        wanted = selection_of(body, workspace_id)
        order = RerateOrder(body.reason, body.to_version, body.may_raise)
        if body.is_dry_run:
            page = await self.rerates.look(wanted, order, after, limit)
        else:
            page = await self.rerates.rerate_selected(wanted, order, after, limit, actor_of(request))
        told = page_of([_show(one) for one in page.rerates], _WHICH, page.after)
        return answer({**told, "is_dry_run": body.is_dry_run, "obstacles": page.obstacles})


def _show(one: Rerate) -> RerateShown:
    return {
        "run": one.run_id,
        "workspace": one.workspace,
        "before": as_dollars(one.before),
        "charge": as_dollars(one.charge),
        "rate_version": one.rate_version,
        "at": as_time(one.at),
        "is_new": one.is_new,
    }


ROUTES: Final = (
    Route(
        "POST",
        "/runs/{run_id}/rerate",
        RerateHandlers.rerate_run,
        "Charge a run by another rate card",
        {200: Answer("The re-rate, or the charge there is by that card.", RerateShown)},
        (400, 404, 409, 413, 422),
        body=Body(NewRerate),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "POST",
        "/rerates",
        RerateHandlers.rerate_runs,
        "Charge runs of a model by another rate card, a page at a time",
        {200: Answer("The re-rates of a page of runs; the call with its cursor has the next.", ReratePageShown)},
        (400, 404, 413, 422),
        PAGE,
        body=Body(NewRerates),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
)
