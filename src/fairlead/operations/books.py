"""The books for people: what was booked, and the proof that it adds up."""

from dataclasses import dataclass
from typing import Any, Final

from fairlead.storage import callers, ledger, runs
from fairlead.storage.database import Database

_LOST_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found: how much it looked at, what cannot be, and which runs were given up."""

    totals: dict[str, int]
    disagreements: list[dict[str, Any]]
    lost: list[dict[str, Any]]

    @property
    def clean(self) -> bool:
        """Whether the books are right. Lost runs are listed, but are no disagreement: their holds were voided."""
        return not self.disagreements


async def audit(database: Database) -> AuditReport:
    """Prove that every balance is the sum of its entries and every hold is settled or belongs to a live run."""
    return await database.read(
        lambda c: AuditReport(ledger.totals(c), ledger.disagreements(c), runs.lost_runs(c, _LOST_SHOWN))
    )


async def entries(database: Database, workspace: str, limit: int) -> list[dict[str, Any]]:
    """The newest entries of a workspace (by name or id), oldest first; UnknownWorkspaceError."""
    return await database.read(lambda c: ledger.entries_of(c, callers.workspace_id_of(c, workspace), limit))
