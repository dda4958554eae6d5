"""How the databases find the rows that a batch of entries changes: by their ids, however many have ended."""

import re
from typing import Final

from fairlead.domain.runs.entries import JournalEntry
from fairlead.storage.runs.entries import write_entries
from storage.bookings import Books, acceptance, admission, failure, redirection, settlement
from storage.plans import trace

_ENDED: Final = 3_000
"""So many that PostgreSQL would not read them whole for ten rows; no statistics are gathered in between."""
_AT_ONCE: Final = 500
_OF_OTHERS: Final = ("Seq Scan on runs", "SCAN runs", "ix_runs_working", "ix_runs_waiting")
"""Steps that pass rows of other runs: a table read whole, or indexes full of entries for what was once under way."""
_WHOLE: Final = re.compile(r"Seq Scan|SCAN runs|Index (Only )?Scan .*\n(?! *Index Cond)")
"""A table read whole, or all of an index."""


def test_changed_runs_are_found_by_their_ids_alone(books: Books) -> None:
    """No step of an UPDATE reads runs of others, those that have ended since the last vacuum included."""
    books.open(balance=10**9)
    for first in range(0, _ENDED, _AT_ONCE):
        names = [f"run-{number}" for number in range(first, first + _AT_ONCE)]
        books.write(*map(admission, names))
        books.write(*map(settlement, names))
    updates = [steps for sql, steps in _traced_batch(books) if "UPDATE runs" in sql]
    assert len(updates) >= 2, "what ends is written apart from what goes on"
    assert [steps for steps in updates if any(step in steps for step in _OF_OTHERS)] == []


def test_new_database_reads_no_table_whole_for_a_batch(books: Books) -> None:
    """A connection may keep the plans it made of empty tables until statistics are gathered, a minute and more."""
    books.open(balance=10**9)
    assert [steps for _, steps in _traced_batch(books) if _WHOLE.search(steps)] == []


def _traced_batch(books: Books) -> list[tuple[str, str]]:
    """The statements of a batch in which two runs end, one is accepted and one redirected, with their steps."""
    books.write(*map(admission, ("a", "b", "c", "d")))
    entries: list[JournalEntry] = [settlement("a"), failure("b"), acceptance("c"), redirection("d"), admission("e")]
    return trace(books, lambda connection: write_entries(connection, entries))
