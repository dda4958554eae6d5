"""Moves what ended long ago into archives, and proves that they contain it (M-06).

The order makes it safe to be killed at any point: the file is durable before its record, and the record before any row
is deleted. Rows are deleted in batches, each of which adds to the sums of the record in its own transaction. A second
call continues with the file that is recorded, as read back from disk.
"""

import asyncio
import datetime
import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from fairlead.clock import Clock
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.days import day_of, start_of
from fairlead.domain.ledger.archives import FIRST, Archive, ArchivedRun, ArchiveHeader, ArchiveSums, Tally, checksum_of
from fairlead.storage.accounts.audit_log import Act, record_act
from fairlead.storage.db.database import Database, Transaction
from fairlead.storage.ledger import archives
from fairlead.storage.ledger.archive_files import (
    ArchiveFileError,
    ArchiveWriter,
    archived_runs,
    digest_of,
    locked_folder,
)
from fairlead.storage.ledger.archives import (
    ArchiveMismatchError,
    ArchiveTakenError,
    Blocker,
    CorrectedMeanwhileError,
)
from fairlead.storage.ledger.budget_figures import earliest_shared_day

__all__ = [
    "Archive",
    "ArchiveFileError",
    "ArchiveMismatchError",
    "ArchiveTakenError",
    "Archiver",
    "BadArchiveDateError",
    "CorrectedMeanwhileError",
    "Moved",
    "list_archives",
]

_RUNS_PER_FILE: Final = 50_000
_PAGE: Final = 500
_LOOKED_AT: Final = 20_000
"""How many runs one read examines before anything is archived."""
_BATCH: Final = 100
"""How many runs are deleted in one transaction, with some ten rows each: a server waits a few milliseconds for it."""
_PAUSE_SECONDS_MAX: Final = 1.0


class BadArchiveDateError(Exception):
    """What ended before the date cannot be archived; the text says why, and which date is possible."""


class Moved(msgspec.Struct, frozen=True):
    """How much an archive has moved out of the database."""

    archive: Archive
    was_resumed: bool


class Archiver:
    """Moves the runs that ended before a date into files of a folder.

    `tell` is called with every archive that is done. Times come from `clock`.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        folder: Path,
        by: Actor,
        tell: Callable[[Moved], None],
        *,
        runs_per_file: int = _RUNS_PER_FILE,
        batch: int = _BATCH,
    ) -> None:
        self._database = database
        self._clock = clock
        self._folder = folder
        self._by = by
        self._tell = tell
        self._runs_per_file = runs_per_file
        self._batch = batch

    async def archive(self, before: datetime.date) -> int:
        """Archive the runs that ended before a date; returns how many were moved.

        An archive that an earlier call left unfinished is finished first, whatever its date was. BadArchiveDateError,
        ArchiveFileError, and the errors of storage.archives.
        """
        with locked_folder(self._folder):
            moved = await self._finish_earlier()
            await self._refuse_recent(before)
            limit, blockers = await self._look(start_of(before))
            if blockers:
                raise BadArchiveDateError(_refusal(before, limit, blockers))
            return moved + await self._archive_all(start_of(before))

    async def archive_older_than(self, days: int) -> tuple[datetime.date, int]:
        """Archive runs that ended more than some days ago; returns the date that applied, and what was moved.

        For regular calls by a machine: if not all of them can be archived, it archives what it can.
        """
        with locked_folder(self._folder):
            moved = await self._finish_earlier()
            wanted = min(self._clock.today() - datetime.timedelta(days=days), await self._latest())
            before, _ = await self._look(start_of(wanted))
            return before, moved + await self._archive_all(start_of(before))

    async def _refuse_recent(self, before: datetime.date) -> None:
        if before > (first := await self._latest()):
            raise BadArchiveDateError(
                f"{before} would take runs of the current month, or of the day on which the period of a budget began:"
                f" budgets and the month's statement are proven by them; {first} is the latest date"
            )

    async def _latest(self) -> datetime.date:
        now = self._clock.now_ms()
        shared = await self._database.read(lambda c: earliest_shared_day(c, now))
        month = self._clock.today().replace(day=1)
        return month if shared is None else min(month, day_of(shared))

    async def _look(self, before: int) -> tuple[datetime.date, list[Blocker]]:
        """The latest possible date up to `before` (ms), and what prevents a later one."""
        blockers = await self._database.read(lambda c: archives.live_before(c, before))
        kept, earliest, after, now = 0, before, "", self._clock.now_ms()
        while True:
            look = partial(archives.kept_page, before=before, now=now, after=after, limit=_LOOKED_AT)
            page = await self._database.read(look)
            kept += page.count
            earliest = min(earliest, page.earliest if page.earliest is not None else earliest)
            if page.last is None:
                break
            after = page.last
        if kept:
            blockers.append(Blocker("runs whose idempotency key counts, or whose result can be had", kept, earliest))
        return day_of(min([before, *(one.earliest for one in blockers)])), blockers

    async def _finish_earlier(self) -> int:
        """Delete the remaining rows of an archive that was recorded and not finished; returns how many runs."""
        newest = await self._database.read(lambda c: archives.list_archives(c, None, 1))
        if not newest or newest[0].finished_at is not None:
            return 0
        moved = await self._move(newest[0])
        self._tell(Moved(newest[0], was_resumed=True))
        return moved

    async def _archive_all(self, before: int) -> int:
        moved, after = 0, ""
        while (archive := await self._write(before, after)) is not None:
            moved += await self._move(archive)
            self._tell(Moved(archive, was_resumed=False))
            after = archive.last_run
        return moved

    async def _write(self, before: int, after: str) -> Archive | None:
        """Write the next file and record it; None if nothing is left to archive."""
        page = await self._page(before, after, self._runs_per_file)
        if not page:
            return None
        began = self._clock.now_ms()
        try:
            archive, sums = await self._write_file(before, page)
        except OSError as error:
            raise ArchiveFileError(f"nothing can be written into {self._folder}: {error.strerror}") from error
        archive = msgspec.structs.replace(archive, checksum=checksum_of(archive, sums))
        act = Act("ledger.archived", target=archive.file, detail={"number": archive.number, "runs": archive.runs})

        def record(connection: Transaction) -> None:
            archives.record_archive(connection, archive, began)
            record_act(connection, self._by, act, archive.created_at)

        await self._database.write(record)
        return archive

    async def _write_file(self, before: int, page: list[ArchivedRun]) -> tuple[Archive, Sequence[ArchiveSums]]:
        """Write a file that begins with a page of runs; returns its record without checksum, and its sums. OSError."""
        newest = await self._database.read(lambda c: archives.list_archives(c, None, 1))
        number, previous = (newest[0].number + 1, newest[0].checksum) if newest else (1, FIRST)
        tally, first = Tally(), page[0].run["id"]
        with ArchiveWriter(self._folder, ArchiveHeader(number, before, previous)) as writer:
            while page:
                for one in page:
                    writer.write(one)
                    tally.add(one)
                last = page[-1].run["id"]
                page = await self._page(before, last, self._runs_per_file - tally.runs)
            summary = tally.summary()
            file = writer.keep(summary)
        archive = Archive(
            number=number,
            before=before,
            first_run=first,
            last_run=last,
            runs=summary.runs,
            entries=summary.entries,
            events=summary.events,
            file=file.name,
            size=file.size,
            digest=file.digest,
            previous=previous,
            checksum="",
            created_at=self._clock.now_ms(),
        )
        return archive, summary.sums

    async def _page(self, before: int, after: str, most: int) -> list[ArchivedRun]:
        if most <= 0:
            return []
        return await self._database.read(lambda c: archives.page_of_runs(c, before, after, min(most, _PAGE)))

    async def _move(self, archive: Archive) -> int:
        """Delete the rows that an archive contains, as read back from its file; returns how many runs were left."""
        path = self._folder / archive.file
        if not path.exists():
            raise ArchiveFileError(
                f"archive {archive.number} is not finished, and its file {archive.file} is not in {self._folder};"
                " give the folder that it was written to"
            )
        if digest_of(path) != archive.digest:
            raise ArchiveFileError(f"{path} is not what was written: nothing more is deleted until it is restored")
        moved, loop = 0, asyncio.get_running_loop()
        for batch in _batches(archived_runs(path), self._batch):
            began = loop.time()
            moved += await self._database.write(partial(archives.move_runs, number=archive.number, batch=batch))
            await asyncio.sleep(min(_PAUSE_SECONDS_MAX, loop.time() - began))  # servers write while this runs
        now = self._clock.now_ms()
        await self._database.write(lambda c: archives.finish_archive(c, archive, now))
        return moved


async def list_archives(database: Database, before_number: int | None, limit: int) -> list[Archive]:
    """Up to `limit` archives, the newest first, before the archive with a number, or from the newest."""
    return await database.read(lambda c: archives.list_archives(c, before_number, limit))


def _refusal(before: datetime.date, latest: datetime.date, blockers: Sequence[Blocker]) -> str:
    reasons = ", ".join(f"{one.what} ({one.count})" for one in blockers)
    return f"{before} would take what is still needed: {reasons}; {latest} is the latest date"


def _batches(archived: Iterator[ArchivedRun], size: int) -> Iterator[list[ArchivedRun]]:
    while batch := list(itertools.islice(archived, size)):
        yield batch
