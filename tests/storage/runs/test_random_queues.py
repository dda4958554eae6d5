"""Queues that live through hundreds of batches of whatever may happen: always in order, within limits, and booked."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pytest

from fairlead.domain.ledger.books import COSTLY, UNLIMITED
from fairlead.domain.runs.entries import (
    Admission,
    JournalEntry,
    LiveRun,
    QueueTicket,
    Settlement,
    TopUp,
    Withdrawal,
)
from fairlead.domain.work.entries import Claim, Release
from fairlead.storage.ledger import ledger
from fairlead.storage.runs.batch import Written
from fairlead.storage.runs.entries import write_entries
from storage.bookings import LAB, NOW, SERVER, Books, admission, failure, kept_result, settlement
from storage.queued_runs import BASE_URL

pytestmark = pytest.mark.req("R-23", "R-29", "R-32")

_OFFICE: Final = "office-id"
_BATCHES: Final = 80
_BACKLOG: Final = 15
_CAPS: Final = {LAB: None, _OFFICE: 3 * COSTLY}


class _World:
    """Two workspaces, the runs that were taken in, and dice."""

    def __init__(self, books: Books, seed: int) -> None:
        self.books = books
        self._dice = random.Random(seed)  # noqa: S311 -- a history that can be run again
        self._count = 0
        for workspace, cap in _CAPS.items():
            books.open(id_=workspace, balance=200 * COSTLY, in_flight_limit=3, commitment_limit=cap)

    def batch(self) -> list[JournalEntry]:
        """Some entries of any kind; at most one of what ends or claims a run."""
        entries = {getattr(entry, "run_id", self._dice.random()): entry for entry in self._entries()}
        return list(entries.values())

    def change(self) -> None:
        """Now and then an operator changes a limit, to none and to nothing as well."""
        if self._dice.random() < 0.15:
            limit = self._dice.choice([0, 1, 2, 4, 8, UNLIMITED])
            workspace = self._dice.choice(list(_CAPS))
            self.books.sql("UPDATE workspaces SET in_flight_limit = :n WHERE id = :id", n=limit, id=workspace)

    def _entries(self) -> Iterator[JournalEntry]:
        kinds: list[Callable[[], JournalEntry | None]] = [
            self._queued_admission, self._queued_admission, self._synchronous_admission, self._claim, self._claim,
            self._end, self._end, self._withdrawal, self._release, self._top_up,
        ]  # fmt: skip
        for _ in range(self._dice.randint(1, 6)):
            if (entry := self._dice.choice(kinds)()) is not None:
                yield entry

    def _admission(self, **changes: Any) -> Admission:
        self._count += 1
        hold = self._dice.choice([1, 100, COSTLY - 1, COSTLY, 2 * COSTLY])
        workspace = self._dice.choice(list(_CAPS))
        return admission(f"run-{self._count:05d}", hold, workspace_id=workspace, **changes)

    def _queued_admission(self) -> Admission:
        return self._admission(ticket=QueueTicket(_BACKLOG, BASE_URL))

    def _synchronous_admission(self) -> Admission:
        return self._admission()

    def _claim(self) -> Claim | None:
        run = self._any("released")
        return run and Claim(run["id"], run["workspace_id"], SERVER, NOW + 1)

    def _end(self) -> Settlement | None:
        run = self._any("dispatched")
        if run is None:
            return None
        if self._dice.random() < 0.5:
            return failure(run["id"], workspace_id=run["workspace_id"])
        return settlement(run["id"], charge=self._dice.randint(0, run["hold"]), workspace_id=run["workspace_id"])

    def _top_up(self) -> TopUp | None:
        run = self._any("dispatched")
        hold = self._dice.choice([2, 150, COSTLY, 3 * COSTLY])
        return run and TopUp(run["id"], run["workspace_id"], 1, hold, NOW + 1)

    def _withdrawal(self) -> Withdrawal | None:
        run = self._any("parked", "released", "dispatched")
        return run and Withdrawal(run["id"], run["workspace_id"], "cancelled", kept_result(), NOW + 2)

    def _release(self) -> Release:
        return Release(self._dice.choice(list(_CAPS)))

    def _any(self, *states: str) -> Any:
        rows = self.books.rows("SELECT id, workspace_id, hold, state FROM runs WHERE finished_at IS NULL ORDER BY id")
        found = [row for row in rows if row["state"] in states]
        return self._dice.choice(found) if found else None


def _waiting(books: Books, workspace: str) -> list[dict[str, Any]]:
    return books.rows(
        "SELECT id, hold, place FROM runs WHERE state = 'parked' AND workspace_id = :id ORDER BY place", id=workspace
    )


def _figures(books: Books, workspace: str) -> dict[str, Any]:
    (row,) = books.rows("SELECT * FROM workspaces WHERE id = :id", id=workspace)
    return row


def _idle(books: Books, workspace: str) -> list[str]:
    """Parked runs that could have a slot: the first of them, costly runs without room of their own passed by."""
    row = _figures(books, workspace)
    limit, committed = row["in_flight_limit"], row["held"] - row["parked_held"]
    if limit != UNLIMITED and row["in_flight"] >= limit:
        return []
    has_costly_room = limit == UNLIMITED or row["costly_in_flight"] < max(1, limit // 4)
    first = next((run for run in _waiting(books, workspace) if has_costly_room or run["hold"] < COSTLY), None)
    if first is None:
        return []
    fits = row["commitment_limit"] is None or committed + first["hold"] <= row["commitment_limit"]
    return [first["id"]] if fits else []


@pytest.mark.parametrize("seed", range(3))
def test_figures_and_order_hold_after_any_sequence(books: Books, seed: int) -> None:
    """After every batch the figures are those of the runs, nobody overtakes, and no slot that is needed is idle."""
    world = _World(books, seed)
    taken_in, claimed = 0, 0
    for _ in range(_BATCHES):
        world.change()
        entries = world.batch()
        write = partial(write_entries, entries=entries)
        before = {workspace: _waiting(books, workspace) for workspace in _CAPS}
        written: Written = books.do(write)
        claimed += sum(isinstance(verdict, LiveRun) for verdict in written.verdicts)
        taken_in += len(written.released)
        assert books.do(ledger.disagreements) == []
        for workspace, cap in _CAPS.items():
            row = _figures(books, workspace)
            freed = [one.id for one in written.released if one.workspace_id == workspace]
            places = {run["id"]: run["place"] for run in before[workspace]}
            assert [id_ for id_ in freed if id_ in places] == sorted(set(freed) & set(places), key=places.__getitem__)
            assert row["waiting"] <= _BACKLOG
            if freed:
                assert row["in_flight_limit"] == UNLIMITED or row["in_flight"] <= row["in_flight_limit"]
                assert cap is None or row["held"] - row["parked_held"] <= cap
            if any(getattr(entry, "workspace_id", None) == workspace for entry in entries):
                assert _idle(books, workspace) == [], (workspace, row)
    assert taken_in > 20
    assert claimed > 10
