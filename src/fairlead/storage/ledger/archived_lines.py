"""Exports of the ledger that cover archives: entries from files, merged in order with those of the database."""

import heapq
import itertools
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from operator import attrgetter
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select

from fairlead.domain.ledger.archives import ArchivedRun
from fairlead.storage.db.tables import workspaces
from fairlead.storage.ledger.archive_files import archived_runs
from fairlead.storage.ledger.archives import every_archive, runs_present
from fairlead.storage.ledger.ledger import LedgerLine, WantedLines

_PAGE: Final = 1000


def with_archived(
    connection: Connection, folder: Path, wanted: WantedLines, pages: Iterator[Sequence[LedgerLine]]
) -> Iterator[Sequence[LedgerLine]]:
    """Pages of entries with those among them that are in the files of a folder, in the order of their numbers.

    Files are in the order of runs, whose entries overlap: a temporary SQLite database, which SQLite removes, sorts
    them, so that memory has a bound. ArchiveFileError.
    """
    names = {row.id: row.name for row in connection.execute(select(workspaces.c.id, workspaces.c.name))}
    with closing(sqlite3.connect("")) as sorter:
        columns = ", ".join(LedgerLine._fields[1:])
        sorter.execute(f"CREATE TABLE lines (id INTEGER PRIMARY KEY, {columns})")
        places = ", ".join("?" * len(LedgerLine._fields))
        for archive, _ in every_archive(connection):
            runs = archived_runs(folder / archive.file)
            while batch := list(itertools.islice(runs, _PAGE)):
                # Some runs of an unfinished archive are still in the database, and exported from there.
                there = set() if archive.finished_at else set(runs_present(connection, [r.run["id"] for r in batch]))
                found = (line for run in batch if run.run["id"] not in there for line in _lines(run, wanted, names))
                sorter.executemany(f"INSERT INTO lines VALUES ({places})", found)  # noqa: S608 -- question marks
        archived = map(LedgerLine._make, sorter.execute("SELECT * FROM lines ORDER BY id"))
        merged = heapq.merge(archived, itertools.chain.from_iterable(pages), key=attrgetter("id"))
        while page := list(itertools.islice(merged, _PAGE)):
            yield page


def _lines(archived: ArchivedRun, wanted: WantedLines, names: Mapping[str, str]) -> Iterator[LedgerLine]:
    """The entries of a run that are wanted, as they would be exported if they had not been archived."""
    run = archived.run
    if wanted.workspace_id not in (None, run["workspace_id"]):
        return
    for entry in archived.entries:
        if (wanted.since or 0) <= entry.created_at and (wanted.until is None or entry.created_at < wanted.until):
            yield LedgerLine(
                id=entry.id,
                created_at=entry.created_at,
                workspace=names[run["workspace_id"]],
                kind=entry.kind,
                balance_change=entry.balance_change,
                held_change=entry.held_change,
                model_id=run["model_id"],
                key_id=run["key_id"],
                run_id=run["id"],
                reason=entry.reason,
                rate_version=entry.rate_version,
                labels=run.get("labels"),
            )
