"""A workspace's account for people: entries in pages and as a file, monthly statements, usage, and proofs."""

import asyncio
import datetime
import re
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.ledger.archives import Archive
from fairlead.domain.ledger.usage import ROWS_MAX, BadUsageQueryError, Usage, UsageQuery, usage_query
from fairlead.operations.ledger.books import AuditReport, audit
from fairlead.storage.db.database import Database
from fairlead.storage.ledger import account, ledger
from fairlead.storage.ledger.account import AccountEntry, CreditLine, MonthStatement, SpendingLine
from fairlead.storage.ledger.archives import end_of_archives, list_archives
from fairlead.storage.ledger.label_usage import usage_of_labels
from fairlead.storage.ledger.ledger import LedgerLine
from fairlead.storage.ledger.usage import usage_of_many

__all__ = [
    "AccountEntry",
    "Accounts",
    "Archive",
    "BadMonthError",
    "CreditLine",
    "LedgerLine",
    "MonthStatement",
    "SpendingLine",
    "UsageOfMany",
]

WORKSPACE: Final = "workspace"
"""The grouping of usage by workspace, which reports on many workspaces have in addition."""
_MONTH: Final = re.compile(r"(?P<year>[0-9]{4})-(?P<month>0[1-9]|1[0-2])")
_EXPORTED_AT_ONCE: Final = 1_000


class BadMonthError(ValueError):
    """The text is not a month such as 2026-11."""


class UsageOfMany(msgspec.Struct, frozen=True):
    """A query and its rows, the most expensive first, each with the name of its workspace if grouped by workspace."""

    query: UsageQuery
    rows: list[tuple[str | None, Usage]]


class Accounts:
    """Reads the accounts of workspaces. FaultError if `database` raises it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._auditing = asyncio.Lock()

    async def entries(
        self, workspace_id: str, since: int | None, until: int | None, before: int | None, limit: int
    ) -> Sequence[AccountEntry]:
        """Up to `limit` entries booked from `since` and before `until` (ms), the newest first, before a given entry."""
        return await self._database.read(lambda c: account.list_entries(c, workspace_id, since, until, before, limit))

    async def end_of_archives(self, workspace_id: str, since: int | None) -> int | None:
        """The time (ms) before which entries booked from `since` on are in archives; None if none are."""
        before = await self._database.read(lambda c: end_of_archives(c, workspace_id))
        return None if before is None or (since or 0) >= before else before

    async def archives(self, before: int | None, limit: int) -> Sequence[Archive]:
        """Up to `limit` archives, the newest first, before the one with a given number."""
        return await self._database.read(lambda c: list_archives(c, before, limit))

    async def export(
        self, workspace_id: str, since: int | None, until: int | None
    ) -> AsyncIterator[Sequence[AccountEntry]]:
        """Every entry booked from `since` and before `until` (ms), the oldest first, in pages.

        Entries booked after the first page was requested are left out.
        """
        last = await self._database.read(lambda c: account.newest_entry(c, workspace_id))
        after = 0
        while True:
            page = await self._page_after(workspace_id, since, until, after)
            within = [one for one in page if one.id <= last]
            if within:
                yield within
            if len(within) < _EXPORTED_AT_ONCE:
                return
            after = within[-1].id

    async def export_all(self, since: int | None, until: int | None) -> AsyncIterator[Sequence[LedgerLine]]:
        """The entries of all workspaces, in the same way as `export`."""
        last, after = await self._database.read(ledger.newest_entry), 0
        while page := await self._database.read(
            partial(ledger.lines_after, since=since, until=until, after=after, last=last)
        ):
            yield page
            after = page[-1].id

    async def statement(self, workspace_id: str, month: str | None) -> tuple[str, MonthStatement]:
        """The statement of a month, the current one if none is given, with that month; BadMonthError."""
        today = self._clock.today()
        found = _MONTH.fullmatch(month or today.strftime("%Y-%m"))
        if found is None or int(found["year"]) == 0:
            raise BadMonthError("A month is written as 2026-11.")
        first = datetime.date(int(found["year"]), int(found["month"]), 1)
        after = (first + datetime.timedelta(days=31)).replace(day=1) if first.year < datetime.MAXYEAR else first
        told = await self._database.read(lambda c: account.month_statement(c, workspace_id, first, after))
        return found[0], told

    async def usage(
        self,
        workspace_ids: Sequence[str] | None,
        key_id: str | None,
        first: str | None,
        last: str | None,
        by: str | None,
        label: str | None = None,
    ) -> UsageOfMany:
        """The usage of some workspaces, None for all, or of one of their keys; BadUsageQueryError, NotADateError.

        `by` are some of day, model, key and workspace, separated by commas, or day, workspace and a label.
        """
        parts = [part.strip() for part in (by or ("day,model" if label is None else "day")).split(",") if part.strip()]
        rest = ",".join(part for part in parts if part != WORKSPACE)
        query = usage_query(first, last, rest or "day", self._clock.today(), label)
        query = query if rest else msgspec.structs.replace(query, by=())
        if query.is_of_labels and key_id is not None:
            raise BadUsageQueryError("group_by label is of a whole workspace, and an API key sees only its own runs.")
        if query.is_of_labels:
            rows_of = partial(usage_of_labels, workspace_ids=workspace_ids)
        else:
            rows_of = partial(usage_of_many, workspace_ids=workspace_ids, key_id=key_id)
        rows = await self._database.read(
            partial(rows_of, query=query, limit=ROWS_MAX + 1, by_workspace=WORKSPACE in parts)
        )
        if len(rows) > ROWS_MAX:
            raise BadUsageQueryError(f"The answer would have more than {ROWS_MAX} rows; ask for fewer days.")
        return UsageOfMany(query, rows)

    async def proof(self) -> AuditReport:
        """Prove the books; callers at the same time share one proof."""
        async with self._auditing:
            return await audit(self._database)

    async def _page_after(
        self, workspace_id: str, since: int | None, until: int | None, after: int
    ) -> Sequence[AccountEntry]:
        return await self._database.read(
            lambda c: account.entries_after(c, workspace_id, since, until, after, _EXPORTED_AT_ONCE)
        )
