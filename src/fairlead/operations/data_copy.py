"""Moves an installation's data from one database to another of either kind, and proves the copy (M-06).

Pages of rows are written together with the progress of the copy, so an interrupted copy continues after its last page.
Until all of it is proven, no server starts on the target.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.operations.ledger.books import audit
from fairlead.storage.db import copies
from fairlead.storage.db.copies import TargetTakenError
from fairlead.storage.db.database import Database
from fairlead.storage.db.migrate import HEAD, schema_state
from fairlead.storage.db.table_copy import TableCopier, TableTotals, TotalsCounter, number_on
from fairlead.storage.work.table import silent_for_ms

__all__ = ["CopiedTable", "CopyRefusedError", "CopySummary", "migrate_data"]

_PAGE: Final = 500


class CopyRefusedError(Exception):
    """Data cannot be moved; the text says why, and what to do."""


class CopiedTable(msgspec.Struct, frozen=True):
    """A table whose rows are the same on both sides."""

    name: str
    rows: int
    digest: str


class CopySummary(msgspec.Struct, frozen=True):
    """What was copied: every table with its totals, and the proof of the books, which is the same on both sides."""

    tables: list[CopiedTable]
    books: dict[str, int]
    resumed: bool


async def migrate_data(
    source: Database, target: Database, clock: Clock, silent_ms: int, tell: Callable[[str, int], None]
) -> CopySummary:
    """Copy every row of one database into another that is empty, or has an unfinished copy of the same database.

    Nothing may write to either meanwhile: a source that a server has used within `silent_ms` is refused. `tell` is
    called with each table that is done, and the number of its rows. CopyRefusedError.
    """
    await _refuse_source(source, clock, silent_ms)
    before = await audit(source)
    if not before.is_clean:
        raise CopyRefusedError("the books of the source do not add up; `fairlead audit` shows where")
    identity = await source.read(copies.identity_of)
    try:
        resumed = await target.write(lambda c: copies.prepare_target(c, identity))
    except TargetTakenError as error:
        raise CopyRefusedError(f"the target cannot be filled: {error}") from error
    copiers = TableCopier.of_all()
    for copier in copiers:
        tell(copier.name, await _copy(copier, source, target))
    await target.write(number_on)
    tables = []
    for copier in copiers:
        totals = await _totals(copier, target)
        if totals != await _totals(copier, source):
            raise CopyRefusedError(
                f"the rows of {copier.name} are not the same on both sides: something has written to one of them"
                " meanwhile; empty the target and begin again"
            )
        tables.append(CopiedTable(copier.name, totals.rows, totals.digest))
    after = await audit(target)
    if not after.is_clean or after.totals != before.totals:
        raise CopyRefusedError("the books of the target are not those of the source; empty the target and begin again")
    await target.write(copies.finish)
    return CopySummary(tables, after.totals, resumed)


async def _refuse_source(source: Database, clock: Clock, silent_ms: int) -> None:
    """Refuse a source that this version cannot read, or that a server is using."""
    state = await source.read(schema_state)
    if state.revision != HEAD or not state.is_usable:
        found = state.revision or "nothing"
        raise CopyRefusedError(f"the source is at revision {found}, not {HEAD}; run `fairlead migrate` of this version")
    silent_for = await source.read(lambda c: silent_for_ms(c, clock.now_ms()))
    if silent_for is not None and silent_for < silent_ms:
        raise CopyRefusedError(
            f"a server has used the source {silent_for / 1000:.0f} s ago: stop every server;"
            f" {silent_ms / 1000:.0f} s after the last has stopped it can be copied"
        )


async def _copy(copier: TableCopier, source: Database, target: Database) -> int:
    """Copy the rest of a table; how many rows it has."""
    state = await target.read(lambda c: copies.state_of(c, copier.name))
    while rows := await source.read(partial(copier.read_page, after=state.after, limit=_PAGE)):
        page = partial(copies.write_page, copier=copier, rows=rows, state=state)
        state = await target.write(page, durable=False)  # the next durable page also makes this one durable
    return state.rows


async def _totals(copier: TableCopier, database: Database) -> TableTotals:
    """The totals of a table, a page at a time."""
    counter, after = TotalsCounter(), None
    while rows := await database.read(partial(copier.read_page, after=after, limit=_PAGE)):
        counter.add(map(copier.encode, rows))
        after = copier.key_of(rows[-1])
    return counter.totals
