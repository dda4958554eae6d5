"""The usage route: what the caller's workspace has used, by day, model, key and label."""

from typing import Final, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.http.route import caller_of
from fairlead.api.router.documents import UsageFigures, UsageRow, UsageShown
from fairlead.api.router.wire import read_query
from fairlead.domain.accounts.callers import ROUTER_GATE, refuse_gate
from fairlead.domain.faults import FaultError
from fairlead.domain.ledger.money import as_credits, as_dollars
from fairlead.domain.ledger.usage import Grouping, Usage, UsageQuery
from fairlead.operations.ledger.usage import UsageReader, UsageReport

_UNCACHED: Final = {"Cache-Control": "no-store"}
_encode: Final = msgspec.json.Encoder().encode


class UsageHandlers(msgspec.Struct, frozen=True):
    """Answers `GET /v2/usage`, for the whole workspace of the caller and for no other."""

    usage: UsageReader

    async def show_usage(self, request: Request) -> Response:
        """`GET /usage`: runs and charges by `group_by`, on the days from `from` to `to`."""
        caller = caller_of(request)
        if fault := refuse_gate(caller, ROUTER_GATE, "The model router"):
            raise FaultError(fault)
        asked = read_query(request.scope["query_string"])
        days = asked.get("from"), asked.get("to")
        report = await self.usage.report(caller.workspace_id, *days, asked.get("group_by"), asked.get("label"))
        return Response(_encode(usage_response(report)), media_type="application/json", headers=_UNCACHED)


def usage_response(report: UsageReport) -> UsageShown:
    """A report as it is sent; what it is not grouped by is absent."""
    query = report.query
    return {
        "from": query.first.isoformat(),
        "to": query.last.isoformat(),
        "group_by": query.groups,
        "data": [_row(row, query) for row in report.rows],
        "total": _figures(report.total),
    }


def _row(row: Usage, query: UsageQuery) -> UsageRow:
    names = {Grouping.DAY: row.day, Grouping.MODEL: row.model_id, Grouping.KEY: row.key}
    label = {} if query.label_name is None else {"label": row.label}
    return cast("UsageRow", {one.value: names[one] for one in query.by} | label | {**_figures(row)})


def _figures(row: Usage) -> UsageFigures:
    return {
        "runs": row.runs,
        "succeeded": row.succeeded,
        "failed": row.runs - row.succeeded,
        "amount": as_dollars(row.charge),
        "credits": as_credits(row.charge),
    }
