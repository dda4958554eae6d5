"""Archives: runs that ended long ago with all entries of theirs, in files that the ledger can still prove.

An archive is a file and a record of it. The record has the sums of each workspace, so that balances are proven without
the file; its checksum covers them, the digest of the file, and the checksum of the archive before it, so that none of
them can be changed, exchanged or left out unnoticed.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.domain.ledger.books import EntryKind

FORMAT: Final = "fairlead-archive"
FORMAT_VERSION: Final = 1
FIRST: Final = "0" * 64
"""Stands for the checksum before that of the first archive."""
_BILLED_FAILURE: Final = "content_policy_violation"
"""The only failure that may be charged (R-27)."""


class ArchivedEntry(msgspec.Struct, frozen=True):
    """An entry of the ledger that was booked for a run. Times in ms since 1970, money in 10^-8 dollars."""

    id: int
    phase: int | None
    kind: str
    balance_change: int
    held_change: int
    reason: str
    rate_version: str | None
    created_at: int


class ArchivedEvent(msgspec.Struct, frozen=True):
    """Something that happened to a run."""

    kind: str
    attempt: int
    detail: str
    at: int


class ArchivedRun(msgspec.Struct, frozen=True, tag_field="line", tag="run"):
    """A line of an archive: a run by the columns of its table, and everything else that was stored of it.

    Its body and its result are not there: they were deleted before.
    """

    run: Mapping[str, Any]
    entries: Sequence[ArchivedEntry]
    events: Sequence[ArchivedEvent]
    webhook: Mapping[str, object] | None = None
    tries: Sequence[Mapping[str, object]] = ()


class ArchiveHeader(msgspec.Struct, frozen=True, tag_field="line", tag="header"):
    """The first line of an archive."""

    number: int
    before: int
    previous: str
    format: str = FORMAT
    version: int = FORMAT_VERSION
    money: str = "10^-8 US dollars"
    times: str = "milliseconds since 1970-01-01T00:00:00Z"


class ArchiveSums(msgspec.Struct, frozen=True):
    """What the archived entries and runs of a workspace add up to; money in 10^-8 dollars."""

    workspace_id: str
    entries: int = 0
    balance_change: int = 0
    held_change: int = 0
    runs: int = 0
    succeeded: int = 0
    charge: int = 0

    def __add__(self, other: "ArchiveSums") -> "ArchiveSums":
        """Both together; they are of the same workspace."""
        return ArchiveSums(
            self.workspace_id,
            self.entries + other.entries,
            self.balance_change + other.balance_change,
            self.held_change + other.held_change,
            self.runs + other.runs,
            self.succeeded + other.succeeded,
            self.charge + other.charge,
        )


class ArchiveSummary(msgspec.Struct, frozen=True, tag_field="line", tag="summary"):
    """The last line of an archive: what it holds in all, and what each workspace's part adds up to."""

    runs: int
    entries: int
    events: int
    sums: Sequence[ArchiveSums]


ArchiveLine = ArchiveHeader | ArchivedRun | ArchiveSummary


class Archive(msgspec.Struct, frozen=True):
    """The record of an archive: its place in the chain, what it holds, and the file that holds it.

    `before` is the beginning of a day (ms since 1970): the runs ended before it. `first_run` and `last_run` bound their
    ids. `digest` is the SHA-256 of the file. `finished_at` is None while rows are being deleted.
    """

    number: int
    before: int
    first_run: str
    last_run: str
    runs: int
    entries: int
    events: int
    file: str
    size: int
    digest: str
    previous: str
    checksum: str
    created_at: int
    finished_at: int | None = None


class Tally:
    """Adds up the runs of an archive as they are read or written."""

    def __init__(self) -> None:
        self.runs = 0
        self.entries = 0
        self.events = 0
        self._sums: dict[str, ArchiveSums] = {}

    def add(self, archived: ArchivedRun) -> None:
        """Count a run."""
        self.runs += 1
        self.entries += len(archived.entries)
        self.events += len(archived.events)
        more = sums_of(archived)
        self._sums[more.workspace_id] = self._sums.get(more.workspace_id, ArchiveSums(more.workspace_id)) + more

    def summary(self) -> ArchiveSummary:
        """What was counted, workspaces in the order of their ids."""
        return ArchiveSummary(self.runs, self.entries, self.events, [self._sums[id_] for id_ in sorted(self._sums)])


def sums_of(archived: ArchivedRun) -> ArchiveSums:
    """What one run adds to the sums of its workspace."""
    run = archived.run
    return ArchiveSums(
        run["workspace_id"],
        entries=len(archived.entries),
        balance_change=sum(one.balance_change for one in archived.entries),
        held_change=sum(one.held_change for one in archived.entries),
        runs=1,
        succeeded=int(run["state"] == "succeeded"),
        charge=run["charge"],
    )


def checksum_of(archive: Archive, sums: Iterable[ArchiveSums]) -> str:
    """The checksum of a record and of its sums, chained to that of the archive before it: SHA-256, in hexadecimal."""
    ordered = sorted(sums, key=lambda one: one.workspace_id)
    covered = (
        archive.previous,
        archive.number,
        archive.before,
        archive.first_run,
        archive.last_run,
        archive.runs,
        archive.entries,
        archive.events,
        archive.file,
        archive.size,
        archive.digest,
        [msgspec.structs.astuple(one) for one in ordered],
    )
    return hashlib.sha256(msgspec.json.encode(covered)).hexdigest()


def wrong_in(archived: ArchivedRun) -> str | None:
    """What is wrong with the account of an archived run, by the rules of `fairlead audit`; None where it adds up."""
    run, entries = archived.run, archived.entries
    kinds = [one.kind for one in entries]
    posts, voids = kinds.count(EntryKind.POST), kinds.count(EntryKind.VOID)
    if kinds.count(EntryKind.HOLD) != 1 or posts + voids != 1 or sum(one.held_change for one in entries) != 0:
        return "a run whose hold was not settled exactly once"
    if not 0 <= run["charge"] <= run["hold"] or run["charge"] != -sum(one.balance_change for one in entries):
        return "a charge that differs from its entry, or passes its hold"
    if (run["state"] == "succeeded") != (posts == 1) and not (posts and run["reason"] == _BILLED_FAILURE):
        return "money moved for a run that did not succeed, or a success not posted"
    return None
