"""The usage of a workspace, by day, model, key and label."""

import msgspec

from fairlead.clock import Clock
from fairlead.domain.days import NotADateError
from fairlead.domain.faults import FaultError, InvalidInput, ServiceUnavailable
from fairlead.domain.ledger.usage import (
    ROWS_MAX,
    BadUsageQueryError,
    Usage,
    UsageQuery,
    total_of,
    usage_query,
)
from fairlead.storage.accounts import workspaces
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Transaction
from fairlead.storage.ledger.label_usage import usage_of_labels
from fairlead.storage.ledger.usage import usage_of


class UsageReport(msgspec.Struct, frozen=True):
    """A query, its rows in order, and their sum."""

    query: UsageQuery
    rows: list[Usage]
    total: Usage


class UsageReader(msgspec.Struct, frozen=True):
    """Reports usage to callers."""

    database: Database
    clock: Clock

    async def report(
        self, workspace_id: str, first: str | None, last: str | None, by: str | None, label: str | None
    ) -> UsageReport:
        """The usage of a workspace; FaultError with InvalidInput or ServiceUnavailable."""
        try:
            query = usage_query(first, last, by, self.clock.today(), label)
            return await _report(self.database, workspace_id, query)
        except (BadUsageQueryError, NotADateError) as error:
            raise FaultError(InvalidInput(str(error))) from error
        except DatabaseUnavailableError as error:
            raise FaultError(ServiceUnavailable("The usage cannot be read right now.")) from error


async def report_usage(database: Database, workspace: str, query: UsageQuery) -> UsageReport:
    """The usage of a workspace (by name or id).

    UnknownWorkspaceError; BadUsageQueryError if the result is too large.
    """
    return await _report(database, await database.read(lambda c: workspaces.workspace_id_of(c, workspace)), query)


async def _report(database: Database, workspace_id: str, query: UsageQuery) -> UsageReport:
    rows = await database.read(lambda c: _rows(c, workspace_id, query))
    if len(rows) > ROWS_MAX:
        raise BadUsageQueryError(
            f"The answer would have more than {ROWS_MAX} rows; ask for fewer days, or group by less."
        )
    return UsageReport(query, rows, total_of(rows))


def _rows(connection: Transaction, workspace_id: str, query: UsageQuery) -> list[Usage]:
    if not query.is_of_labels:
        return usage_of(connection, workspace_id, query, ROWS_MAX + 1)
    return [row for _, row in usage_of_labels(connection, [workspace_id], query, ROWS_MAX + 1, by_workspace=False)]
