"""The audit log over HTTP: operators see all of it, owners what was done in their workspaces."""

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import principal_of, reach_of
from fairlead.api.admin.bodies import PAGE, answer, limit_of, number_after, page_of, text_of, time_of
from fairlead.api.admin.documents import AuditEntryShown, Page
from fairlead.api.admin.runs import FROM_TO
from fairlead.api.http.route import Access, Answer, Parameter, Route
from fairlead.api.http.schemas import as_time
from fairlead.domain.accounts.rights import Right
from fairlead.domain.faults import FaultError, Forbidden
from fairlead.operations.accounts.audit_log import AuditEntry, AuditFilter, list_entries
from fairlead.operations.outages import AnsweringDatabase

_WHICH: Final = "audit log"


class AuditLogHandlers(msgspec.Struct, frozen=True):
    """Answers the routes of the audit log."""

    database: AnsweringDatabase

    async def list_audit_log(self, request: Request) -> Response:
        """`GET /audit-log`: who has done what, the newest first; without `workspace` it is for operators."""
        reach, principal = reach_of(request), principal_of(request)
        named = request.query_params.get("workspace") is not None
        if not (named or principal.is_operator):
            raise FaultError(Forbidden("Name a workspace of yours; the whole log is for operators."))
        wanted = AuditFilter(
            workspace_id=reach.workspace_ids[0] if named and reach.workspace_ids else None,
            member_id=text_of(request, "member"),
            action=text_of(request, "action"),
            before=number_after(request, _WHICH),
            since=time_of(request, "from"),
            until=time_of(request, "to"),
        )
        page = await list_entries(self.database, wanted, limit_of(request))
        before = None if page.before is None else str(page.before)
        return answer(page_of([_show(entry) for entry in page.entries], _WHICH, before))


def _show(entry: AuditEntry) -> AuditEntryShown:
    return {
        "id": entry.id,
        "at": as_time(entry.at),
        "actor": {"kind": entry.actor.kind.value, "id": entry.actor.id, "name": entry.actor.name},
        "action": entry.act.action,
        "workspace": entry.workspace,
        "target": entry.act.target,
        "detail": entry.act.detail,
        "address": entry.actor.address,
    }


ROUTES: Final = (
    Route(
        "GET",
        "/audit-log",
        AuditLogHandlers.list_audit_log,
        "List who has done what",
        {200: Answer("A page, the newest first.", Page[AuditEntryShown])},
        (400, 404, 422),
        (
            Parameter("workspace", "The workspace that it was done in; operators may leave it out."),
            Parameter("member", "The id of the member who has done it."),
            Parameter("action", "What was done, such as `key.created`."),
            *FROM_TO,
            *PAGE,
        ),
        access=Access.MEMBER,
        right=Right.MANAGE,
    ),
)
