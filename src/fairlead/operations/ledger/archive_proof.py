"""Proves archives by their files: they contain what was moved, each of their runs adds up, and usage agrees with them.

Without the files, `fairlead audit` proves the chain of records, and every balance by the sums in them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fairlead.domain.days import day_of
from fairlead.domain.ledger.archives import (
    Archive,
    ArchivedRun,
    ArchiveHeader,
    ArchiveSummary,
    Tally,
    checksum_of,
    wrong_in,
)
from fairlead.storage.db.database import Database
from fairlead.storage.ledger import archives
from fairlead.storage.ledger.archive_files import ArchiveFileError, digest_of, files_of, read_archive
from fairlead.storage.ledger.usage import NO_KEY, UsageKey, UsageSums

_BATCH: Final = 500
_FINDINGS_MAX: Final = 100


class ArchiveProof(msgspec.Struct, frozen=True):
    """What was read, what disagrees, and which files of the folder no record names."""

    totals: dict[str, int]
    findings: list[dict[str, object]]
    strange_files: list[str]

    @property
    def is_clean(self) -> bool:
        """Whether the archives are right. An unknown file is no error: an interrupted command leaves one."""
        return not self.findings


async def prove_archives(database: Database, folder: Path) -> ArchiveProof:
    """Read every archive of a folder and prove it against its record; ArchiveFileError if there is no such folder."""
    present = files_of(folder)
    prover = _Prover(database, folder)
    recorded = await database.read(archives.every_archive)
    for archive, _ in recorded:
        await prover.prove(archive)
    if recorded and prover.is_complete:
        await prover.prove_usage(max(archive.before for archive, _ in recorded))
    named = {archive.file for archive, _ in recorded}
    strange = [name for name in present if name not in named]
    totals = {"archives": len(recorded), "archived_runs_read": prover.runs, "archived_entries_read": prover.entries}
    return ArchiveProof(totals, prover.findings, strange[:_FINDINGS_MAX])


class _Prover:
    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._usage: dict[UsageKey, UsageSums] = {}
        self.findings: list[dict[str, object]] = []
        self.runs = 0
        self.entries = 0
        self.is_complete = True
        """Whether every file could be read; otherwise usage cannot be proven."""

    async def prove(self, archive: Archive) -> None:
        """Prove one archive; what is wrong with it is among the findings afterwards."""
        path = self._folder / archive.file
        try:
            digest = digest_of(path)
            if digest == archive.digest:
                await self._prove_lines(archive, path)
                return
            problem = f"{path} is not what was written: its SHA-256 is another one"
        except ArchiveFileError as error:
            problem = str(error)
        self.is_complete = False
        self._find(archive, problem)

    async def _prove_lines(self, archive: Archive, path: Path) -> None:
        tally, header, summary = Tally(), None, None
        batch: list[ArchivedRun] = []
        for line in read_archive(path):
            match line:
                case ArchiveHeader():
                    header = line
                case ArchiveSummary():
                    summary = line
                case ArchivedRun():
                    tally.add(line)
                    batch.append(line)
                    if len(batch) == _BATCH:
                        await self._prove_runs(archive, batch)
                        batch = []
        await self._prove_runs(archive, batch)
        self.runs += tally.runs
        self.entries += tally.entries
        if header is None or (header.number, header.previous) != (archive.number, archive.previous):
            self._find(archive, "the file does not follow the archive before it")
        counted = tally.summary()
        if summary != counted or (counted.runs, counted.entries) != (archive.runs, archive.entries):
            self._find(archive, "the lines of the file do not add up to its summary, or to the record")
        if checksum_of(archive, counted.sums) != archive.checksum:
            self._find(archive, "the file does not add up to the checksum of the record")

    async def _prove_runs(self, archive: Archive, batch: Sequence[ArchivedRun]) -> None:
        ids = [one.run["id"] for one in batch]
        there = set(await self._database.read(lambda c: archives.runs_present(c, ids)))
        for one in batch:
            if (problem := wrong_in(one)) is not None:
                self._find(archive, problem, run=one.run["id"])
            if one.run["id"] not in there:
                self._add_usage(one)
            elif archive.finished_at is not None:
                self._find(archive, "an archived run that is in the database too", run=one.run["id"])

    def _add_usage(self, one: ArchivedRun) -> None:
        run = one.run
        day = day_of(run["finished_at"]).isoformat()
        key = UsageKey(run["workspace_id"], day, run["key_id"] or NO_KEY, run["model_id"])
        before = self._usage.get(key, UsageSums())
        succeeded = before.succeeded + (run["state"] == "succeeded")
        self._usage[key] = UsageSums(before.runs + 1, succeeded, before.charge + run["charge"])

    async def prove_usage(self, before: int) -> None:
        """Prove the usage of the archived days: it is that of the runs in the files and of those that are left."""
        left = await self._database.read(lambda c: archives.usage_left(c, before))
        for key in sorted(left.keys() | self._usage.keys()):
            should, is_ = self._usage.get(key, UsageSums()), left.get(key, UsageSums())
            if should != is_:
                self._keep({
                    "problem": "usage of a day differs from the runs that ended on it", "workspace": key.workspace_id,
                    "day": key.day, "key": key.key_id, "model": key.model_id, "archived": should, "left": is_,
                })  # fmt: skip

    def _find(self, archive: Archive, problem: str, **more: object) -> None:
        self._keep({"archive": archive.number, "file": archive.file, "problem": problem, **more})

    def _keep(self, finding: dict[str, object]) -> None:
        if len(self.findings) < _FINDINGS_MAX:
            self.findings.append(finding)
