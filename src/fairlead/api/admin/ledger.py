"""Money over the administration API: the ledger in pages and as a file, statements, usage, the proof of the books."""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from typing import Final, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairlead.api.admin.access import reach_of, workspace_of
from fairlead.api.admin.bodies import PAGE, FieldError, answer, limit_of, number_after, page_of, time_of
from fairlead.api.admin.documents import Page
from fairlead.api.admin.ledger_documents import (
    AccountEntryShown,
    ArchiveShown,
    BooksShown,
    LedgerLineShown,
    LedgerPage,
    StatementShown,
    UsageReport,
    UsageShown,
)
from fairlead.api.admin.runs import FROM_TO, WORKSPACE
from fairlead.api.http.route import Access, Answer, Parameter, Route
from fairlead.api.http.schemas import as_time
from fairlead.domain.accounts.rights import Right
from fairlead.domain.days import NotADateError
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.ledger.usage import BadUsageQueryError, Grouping, Usage, UsageQuery
from fairlead.operations.ledger.accounts import AccountEntry, Accounts, Archive, BadMonthError, LedgerLine

_CSV: Final = "text/csv"
_JSON_LINES: Final = "application/jsonl"
_FIELDS: Final = (("group_by", "by"), ("label", "label"))
"""Words of refused queries of usage, and the parameters that they are about; others are about the days."""
_FORMATS: Final = {"csv": _CSV, "jsonl": _JSON_LINES}
_ARCHIVES: Final = "archives"
_encode: Final = msgspec.json.Encoder().encode


class LedgerHandlers(msgspec.Struct, frozen=True):
    """Answers what is asked about money."""

    accounts: Accounts

    async def list_ledger(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/ledger`: what was booked, the newest first."""
        workspace, limit = workspace_of(request), limit_of(request)
        which = f"ledger of {workspace.id}"
        since, until = time_of(request, "from"), time_of(request, "to")
        found = await self.accounts.entries(workspace.id, since, until, number_after(request, which), limit + 1)
        after = str(found[limit - 1].id) if len(found) > limit else None
        before = await self.accounts.end_of_archives(workspace.id, since)
        told = page_of([_show(one) for one in found[:limit]], which, after)
        return answer({**told, "archived_before": None if before is None else as_time(before)})

    async def export_ledger(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/ledger/export`: every entry, the oldest first, as CSV or as JSON lines."""
        workspace = workspace_of(request)
        pages = self.accounts.export(workspace.id, time_of(request, "from"), time_of(request, "to"))
        rows = ([_show(one) for one in page] async for page in pages)
        return _file(request, f"ledger-{workspace.name}", rows, AccountEntryShown)

    async def export_all(self, request: Request) -> Response:
        """`GET /ledger/export`: the entries of all workspaces, the oldest first."""
        pages = self.accounts.export_all(time_of(request, "from"), time_of(request, "to"))
        rows = ([_line(one) for one in page] async for page in pages)
        return _file(request, "ledger", rows, LedgerLineShown)

    async def show_statement(self, request: Request) -> Response:
        """`GET /workspaces/{workspace}/statement`: a month in sums."""
        workspace = workspace_of(request)
        try:
            month, told = await self.accounts.statement(workspace.id, request.query_params.get("month"))
        except BadMonthError as error:
            raise FieldError("month", str(error)) from error
        statement: StatementShown = {
            "workspace": workspace.name,
            "month": month,
            "opening_balance": as_dollars(told.opening),
            "closing_balance": as_dollars(told.closing),
            "credited": as_dollars(told.credited),
            "charged": as_dollars(told.opening + told.credited - told.closing),
            "credits": [
                {"at": as_time(one.at), "amount": as_dollars(one.amount), "reason": one.reason} for one in told.credits
            ],
            "spending": [
                {
                    "model": one.model_id,
                    "key": one.key_id,
                    "key_label": one.key_label,
                    "runs": one.runs,
                    "succeeded": one.succeeded,
                    "charge": as_dollars(one.charge),
                }
                for one in told.spending
            ],
        }
        return answer(statement)

    async def report_usage(self, request: Request) -> Response:
        """`GET /usage`: what was used, grouped as the query says; an API key sees its own."""
        reach, query = reach_of(request), request.query_params
        try:
            asked = (query.get(name) for name in ("from", "to", "by", "label"))
            report = await self.accounts.usage(reach.workspace_ids, reach.api_key_id, *asked)
        except NotADateError as error:
            raise FieldError(str(error).partition(" ")[0], str(error)) from error
        except BadUsageQueryError as error:
            field = next((name for word, name in _FIELDS if word in str(error)), "from")
            raise FieldError(field, str(error)) from error
        told: UsageReport = {
            "from": report.query.first.isoformat(),
            "to": report.query.last.isoformat(),
            "items": [_show_usage(name, row, report.query) for name, row in report.rows],
            "next_cursor": None,
        }
        return answer(told)

    async def list_archives(self, request: Request) -> Response:
        """`GET /archives`: what `fairlead archive` has moved into files, the newest first."""
        limit = limit_of(request)
        found = await self.accounts.archives(number_after(request, _ARCHIVES), limit + 1)
        after = str(found[limit - 1].number) if len(found) > limit else None
        return answer(page_of([_archive(one) for one in found[:limit]], _ARCHIVES, after))

    async def prove_books(self, _request: Request) -> Response:
        """`GET /books`: the same proof as `fairlead audit`; it reads everything, and one runs at a time."""
        report = await self.accounts.proof()
        told: BooksShown = {
            "is_right": report.is_clean,
            "totals": report.totals,
            "disagreements": [_plain(row) for row in report.disagreements],
            "lost": [_plain(row) for row in report.lost],
        }
        return answer(told)


def _plain(row: dict[str, object]) -> dict[str, object]:
    return {str(name): value for name, value in row.items()}


def _file(request: Request, name: str, pages: AsyncIterator[Sequence[AccountEntryShown]], row: type) -> Response:
    """Rows as a file to be saved, of the format that is asked for; FieldError."""
    form = request.query_params.get("format", "csv")
    if form not in _FORMATS:
        raise FieldError("format", "A format is csv or jsonl.")
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.{form}"',
        "Cache-Control": "no-store",
    }
    lines = _csv_lines(pages, tuple(get_type_hints(row))) if form == "csv" else _json_lines(pages)
    return StreamingResponse(lines, 200, headers, _FORMATS[form])


async def _json_lines(pages: AsyncIterator[Sequence[AccountEntryShown]]) -> AsyncIterator[bytes]:
    async for page in pages:
        yield b"".join(_encode(one) + b"\n" for one in page)


async def _csv_lines(pages: AsyncIterator[Sequence[AccountEntryShown]], columns: Sequence[str]) -> AsyncIterator[bytes]:
    yield (",".join(columns) + "\n").encode()
    async for page in pages:
        file = io.StringIO()
        csv.DictWriter(file, columns, lineterminator="\n").writerows(page)
        yield file.getvalue().encode()


def _show(one: AccountEntry) -> AccountEntryShown:
    return {
        "id": one.id,
        "at": as_time(one.at),
        "kind": one.kind,
        "balance_change": as_dollars(one.balance_change),
        "held_change": as_dollars(one.held_change),
        "reason": one.reason,
        "rate_version": one.rate_version,
        "run": one.run_id,
        "model": one.model_id,
        "key": one.key_id,
        "labels": one.labels,
    }


def _line(one: LedgerLine) -> LedgerLineShown:
    entry = AccountEntry(
        one.id,
        one.created_at,
        one.kind,
        one.balance_change,
        one.held_change,
        one.reason,
        one.rate_version,
        one.run_id,
        one.model_id,
        one.key_id,
        one.labels,
    )
    return {**_show(entry), "workspace": one.workspace}


def _archive(one: Archive) -> ArchiveShown:
    return {
        "number": one.number,
        "before": as_time(one.before),
        "first_run": one.first_run,
        "last_run": one.last_run,
        "runs": one.runs,
        "entries": one.entries,
        "events": one.events,
        "file": one.file,
        "size": one.size,
        "sha256": one.digest,
        "previous_checksum": one.previous,
        "checksum": one.checksum,
        "created_at": as_time(one.created_at),
        "finished_at": None if one.finished_at is None else as_time(one.finished_at),
    }


def _show_usage(workspace: str | None, row: Usage, query: UsageQuery) -> UsageShown:
    told: UsageShown = {"runs": row.runs, "succeeded": row.succeeded, "charge": as_dollars(row.charge)}
    if Grouping.DAY in query.by and row.day is not None:
        told["day"] = row.day
    if Grouping.MODEL in query.by and row.model_id is not None:
        told["model"] = row.model_id
    if Grouping.KEY in query.by:
        told["key"] = None if row.key is None else {"id": row.key.id, "label": row.key.label, "hint": row.key.hint}
    if query.label_name is not None:
        told["label"] = None if row.label is None else {"name": row.label.name, "value": row.label.value}
    if workspace is not None:
        told["workspace"] = workspace
    return told


ROUTES: Final = (
    Route(
        "GET",
        "/workspaces/{workspace}/ledger",
        LedgerHandlers.list_ledger,
        "List what was booked for a workspace",
        {200: Answer("A page, the newest first.", LedgerPage)},
        (400, 404, 422),
        (*FROM_TO, *PAGE),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "GET",
        "/workspaces/{workspace}/ledger/export",
        LedgerHandlers.export_ledger,
        "Export what was booked for a workspace",
        {200: Answer("Every entry, the oldest first.", str, (_CSV, _JSON_LINES))},
        (404, 422),
        (Parameter("format", "`csv`, or `jsonl` for a JSON object a line."), *FROM_TO),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "GET",
        "/ledger/export",
        LedgerHandlers.export_all,
        "Export what was booked for all workspaces",
        {200: Answer("Every entry, the oldest first.", str, (_CSV, _JSON_LINES))},
        (422,),
        (Parameter("format", "`csv`, or `jsonl` for a JSON object a line."), *FROM_TO),
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "GET",
        "/workspaces/{workspace}/statement",
        LedgerHandlers.show_statement,
        "Show a month of a workspace in sums",
        {200: Answer("The statement.", StatementShown)},
        (404, 422),
        (Parameter("month", "Such as 2026-11; the current one where it is absent."),),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "GET",
        "/usage",
        LedgerHandlers.report_usage,
        "Add up what was used",
        {200: Answer("The rows, the most expensive first.", UsageReport)},
        (404, 422),
        (
            WORKSPACE,
            Parameter("from", "The first day (UTC); 29 days before the last where it is absent."),
            Parameter("to", "The last day (UTC); today where it is absent."),
            Parameter(
                "by",
                "Some of day, model, key and workspace, with commas between; day,model where absent. label:NAME goes "
                "with day and workspace.",
            ),
            Parameter("label", "Only runs with this label, client=acme, by day and workspace."),
        ),
        access=Access.MEMBER,
        right=Right.SEE,
    ),
    Route(
        "GET",
        "/archives",
        LedgerHandlers.list_archives,
        "List what was moved into archives",
        {200: Answer("A page, the newest first.", Page[ArchiveShown])},
        (400, 422),
        PAGE,
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
    Route(
        "GET",
        "/books",
        LedgerHandlers.prove_books,
        "Prove the books",
        {200: Answer("The proof.", BooksShown)},
        access=Access.MEMBER,
        right=Right.OPERATE,
    ),
)
