"""The books for people: the entries of the ledger, and the proof that they add up."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.storage.accounts import workspaces
from fairlead.storage.db.database import Database, Transaction
from fairlead.storage.ledger import ledger
from fairlead.storage.ledger.archived_lines import with_archived
from fairlead.storage.ledger.archives import end_of_archives
from fairlead.storage.ledger.ledger import LedgerLine
from fairlead.storage.runs import runs
from fairlead.storage.work.table import database_time, machine_time

__all__ = ["AuditReport", "ExportError", "LedgerLine", "audit", "entries", "export"]

_LOST_SHOWN: Final = 100


class ExportError(Exception):
    """The entries could not be written to their target; its cause is the error of the file."""


class AuditReport(msgspec.Struct, frozen=True):
    """The findings of an audit: how much was checked, what disagrees, and which runs were lost."""

    totals: dict[str, int]
    disagreements: list[dict[str, object]]
    lost: list[dict[str, object]]

    @property
    def is_clean(self) -> bool:
        """Whether the books are right. Lost runs are listed, but are no disagreement: their holds were voided."""
        return not self.disagreements


async def audit(database: Database, machine_ms: Callable[[], int] = machine_time) -> AuditReport:
    """Prove that every balance is the sum of its entries and every hold is settled or belongs to a live run.

    Nothing may have happened later than now, by the database's clock (T-07); `machine_ms` tells the time of this
    machine.
    """

    def work(connection: Transaction) -> AuditReport:
        wrong = ledger.disagreements(connection)
        wrong += ledger.times_ahead(connection, database_time(connection, machine_ms()))
        return AuditReport(ledger.totals(connection), wrong, runs.lost_runs(connection, _LOST_SHOWN))

    return await database.read(work)


async def entries(database: Database, workspace: str, limit: int) -> tuple[list[dict[str, object]], int | None]:
    """The newest entries of a workspace (by name or id), oldest first, and the time before which others were archived.

    UnknownWorkspaceError.
    """

    def work(connection: Transaction) -> tuple[list[dict[str, object]], int | None]:
        id_ = workspaces.workspace_id_of(connection, workspace)
        return ledger.entries_of(connection, id_, limit), end_of_archives(connection, id_)

    return await database.read(work)


async def export(
    database: Database,
    workspace: str | None,
    since: int | None,
    until: int | None,
    write: Callable[[Sequence[LedgerLine]], None],
    archives: Path | None = None,
) -> int | None:
    """Pass the entries of a workspace (by name or id; None for all) to `write`, oldest first, a page at a time.

    Entries booked from `since` and before `until` (ms); None bounds nothing. All pages are of one moment: what is
    booked meanwhile is in none of them. With the folder `archives` the entries in its files are included; without it
    the result is the time (ms) before which archived entries are missing, None if none are. UnknownWorkspaceError,
    ExportError, ArchiveFileError.
    """

    def work(connection: Transaction) -> int | None:
        workspace_id = None if workspace is None else workspaces.workspace_id_of(connection, workspace)
        wanted = ledger.WantedLines(workspace_id, since, until)
        pages = ledger.export_pages(connection, wanted)
        if archives is not None:
            pages = with_archived(connection, archives, wanted, pages)
        for page in pages:
            try:
                write(page)
            except OSError as error:  # not an error of the database, to which it would be attributed
                raise ExportError(error.strerror or str(error)) from error
        if archives is not None:
            return None
        before = end_of_archives(connection, workspace_id)
        return None if before is None or (since or 0) >= before else before

    return await database.read(work)
