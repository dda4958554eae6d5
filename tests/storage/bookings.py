"""Made-up workspaces, keys and entries, and a hand on the books they are written to."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from databases import SET_CLOCK
from fairlead.domain.accounts.callers import Billing
from fairlead.domain.ledger.books import UNLIMITED
from fairlead.domain.ledger.budgets import BudgetPeriod, BudgetReset, next_reset
from fairlead.domain.runs.entries import (
    Acceptance,
    Admission,
    BookedRun,
    IdempotencyKey,
    JournalEntry,
    KeptResult,
    LiveRun,
    Redirection,
    Settlement,
    Verdict,
)
from fairlead.domain.runs.states import RunState
from fairlead.domain.work.entries import TakeOver
from fairlead.storage.accounts import workspaces as callers
from fairlead.storage.accounts.credits import NewCredit, credit
from fairlead.storage.db.database import Database
from fairlead.storage.db.statements import is_sqlite
from fairlead.storage.runs.batch import Written
from fairlead.storage.runs.entries import write_entries
from fairlead.storage.runs.queue import QUEUE

NOW: Final = 1_768_464_000_000
LAB: Final = "lab-id"
SERVER: Final = "server-1"


def new_workspace(id_: str = LAB, **changes: Any) -> callers.NewWorkspace:
    """Return a prepaid workspace without a limit of runs, named after its id."""
    usual: dict[str, Any] = {"billing": Billing.PREPAID, "cap": 0, "in_flight_limit": UNLIMITED}
    return callers.NewWorkspace(**{"name": f"{id_}-name", **usual, **changes})


def new_key(id_: str = "key-1", **changes: Any) -> callers.NewKey:
    """Return a key of the lab whose digest is made of its id."""
    usual = {"workspace_id": LAB, "digest": f"digest-of-{id_}", "hint": "flk_a…z", "label": "", "created_at": NOW}
    return callers.NewKey(**{"id": id_, **usual, **changes})


def admission(run_id: str = "run-1", hold: int = 100, **changes: Any) -> Admission:
    """Return the admission of a run of the lab."""
    usual: dict[str, Any] = {
        "workspace_id": LAB, "key_id": None, "model_id": "acme/one", "provider": "acme", "server_id": SERVER,
        "rate_version": "v1", "created_at": NOW, "request": b"{}",
    }  # fmt: skip
    return Admission(**{"run_id": run_id, "hold": hold, **usual, **changes})


def settlement(run_id: str = "run-1", charge: int = 60, **changes: Any) -> Settlement:
    """Return the end of a run of the lab that succeeded, at its first attempt."""
    usual: dict[str, Any] = {
        "workspace_id": LAB, "attempt": 1, "state": RunState.SUCCEEDED, "is_billed": True,
        "reason": "completed", "rate_version": "v1", "finished_at": NOW + 5, "upstream_status": 200,
        "booked": BookedRun(100, None, "acme/one"),
    }  # fmt: skip
    return Settlement(**{"run_id": run_id, "charge": charge, **usual, **changes})


def failure(run_id: str = "run-1", **changes: Any) -> Settlement:
    """Return the end of a run of the lab that failed and costs nothing."""
    return settlement(
        run_id, **{"charge": 0, "state": RunState.FAILED, "is_billed": False, "reason": "provider_error", **changes}
    )


def acceptance(run_id: str = "run-1", handle: str = "task-7", attempt: int = 1) -> Acceptance:
    """Return a partner's handle for a run."""
    return Acceptance(run_id, attempt, handle)


def key(id_: str = "key", fingerprint: str = "call", expires_at: int = NOW + 1000) -> IdempotencyKey:
    """Return a caller's idempotency key for a call."""
    return IdempotencyKey(id_, fingerprint, expires_at)


def kept_result(**changes: Any) -> KeptResult:
    """Return a result that is kept for its key."""
    return KeptResult(**{"expires_at": NOW + 1000, "content_type": "application/json", "content": b"{}", **changes})


def redirection(run_id: str = "run-1", hold: int = 150, **changes: Any) -> Redirection:
    """Return the move of a run of the lab to another provider, at its first attempt."""
    usual: dict[str, Any] = {
        "workspace_id": LAB, "attempt": 1, "provider": "fal", "rate_version": "f1", "at": NOW + 3,
    }  # fmt: skip
    return Redirection(**{"run_id": run_id, "hold": hold, **usual, **changes})


def resets_at(period: str = "month", at: int = NOW) -> int | None:
    """Return when a budget of a period begins again after a time, in UTC."""
    return next_reset(BudgetPeriod(period), BudgetReset(), at)


_TIMES: Final = ("at", "created_at", "finished_at")


def write_at(connection: Connection, entries: Sequence[JournalEntry], now: int) -> Written:
    """Write entries as one batch at a time (ms) of the database's clock."""
    if not is_sqlite(connection):
        connection.execute(text(SET_CLOCK), {"now": str(now)})
    return write_entries(connection, entries, lambda: now)


class Books:
    """The books of one database, without a word of asyncio."""

    def __init__(self, database: Database, run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        """Remember the database and its loop."""
        self._database = database
        self._run = run

    def do(self, work: Callable[[Connection], Any]) -> Any:
        """Run work in a transaction of its own."""
        return self._run(self._database.write(work))

    def open(self, id_: str = LAB, *, balance: int = 0, **changes: Any) -> None:
        """Make a workspace and pay money in."""
        new = new_workspace(id_, **changes)
        self.do(lambda c: callers.create_workspace(c, id_, new, NOW))
        if balance:
            self.do(lambda c: credit(c, id_, NewCredit(balance, "paid in"), NOW))

    def write(self, *entries: JournalEntry, now: int | None = None) -> Sequence[Verdict]:
        """Write entries as one batch, at a time of the database's clock; without one at the latest that they have."""
        at = now or max([NOW, *(getattr(entry, name, 0) for entry in entries for name in _TIMES)])
        verdicts: Sequence[Verdict] = self.do(lambda c: write_at(c, entries, at)).verdicts
        return verdicts

    def take_over(self, server_id: str = "server-2", silent_since: int = NOW, limit: int = 10) -> list[LiveRun]:
        """Claim the runs of silent servers."""
        orphans = self.do(lambda c: QUEUE.orphans(c, server_id, silent_since, limit))
        taken = self.write(*(TakeOver(one.id, one.workspace_id, one.attempt, server_id, NOW) for one in orphans))
        return [run for run in taken if isinstance(run, LiveRun)]

    def figures(self, workspace_id: str = LAB) -> tuple[int, int, int]:
        """Return balance, held and in_flight of a workspace."""
        (row,) = self.rows("SELECT balance, held, in_flight FROM workspaces WHERE id = :id", id=workspace_id)
        return (row["balance"], row["held"], row["in_flight"])

    def costly(self, workspace_id: str = LAB) -> int:
        """Return how many of the runs in flight of a workspace are costly."""
        (row,) = self.rows("SELECT costly_in_flight FROM workspaces WHERE id = :id", id=workspace_id)
        return int(row["costly_in_flight"])

    def state(self, run_id: str = "run-1") -> dict[str, Any]:
        """Return the row of a run."""
        (row,) = self.rows("SELECT * FROM runs WHERE id = :id", id=run_id)
        return row

    def entries(self) -> list[tuple[str, int, int]]:
        """Return kind, change of balance and change of hold of every entry."""
        rows = self.rows("SELECT kind, balance_change, held_change FROM ledger_entries ORDER BY id")
        return [(row["kind"], row["balance_change"], row["held_change"]) for row in rows]

    def rows(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        """Run a query by hand."""
        found: list[dict[str, Any]] = self.do(lambda c: [dict(row) for row in c.execute(text(sql), values).mappings()])
        return found

    def sql(self, statement: str, **values: Any) -> None:
        """Run a statement by hand."""
        self.do(lambda c: c.execute(text(statement), values).close())
