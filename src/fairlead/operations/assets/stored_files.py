"""Audits stored files: every named blob must exist, and have the bytes of its name (S-08).

Memory stays constant: rows and names are read a page at a time, and findings are passed on at once. A server may run
meanwhile: what it writes or deletes during the audit is no finding.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from fairlead.clock import Clock
from fairlead.operations.assets.results import GRACE_MS
from fairlead.storage.assets.results import named_blobs
from fairlead.storage.blobs.references import (
    KINDS,
    BlobReference,
    references_after,
    references_to,
    sample_references,
)
from fairlead.storage.blobs.store import FAN_OUT, BlobDamagedError, BlobMissingError, FileBlobs, StoredBlob
from fairlead.storage.db.database import Database

Problem: TypeAlias = Literal["damaged", "missing", "orphaned"]

_PAGE: Final = 1000
_NAMED_MAX: Final = 20
_REMEMBERED_MOST: Final = 100_000
_SAMPLE: Final = 50
_SAMPLE_BYTES: Final = 64 * 2**20


class AuditedBlobs(FileBlobs, Protocol):
    """Blobs that can be looked at without being handed out."""

    async def compare(self, name: str) -> int:
        """Read all of a blob, however large, and return its size.

        BlobMissingError, BlobDamagedError, BlobsUnavailableError.
        """
        ...


class Finding(msgspec.Struct, frozen=True):
    """A damaged, missing or orphaned blob, and up to 20 rows of each kind that name it.

    A missing blob is a finding for each row that names it. An orphaned blob is named by none; a server will remove it.
    """

    problem: Problem
    blob: str
    named_by: Sequence[BlobReference]


class Count(msgspec.Struct):
    """How much was checked: rows that name a blob, blobs whose bytes were read, bytes; and how much was found."""

    references: int = 0
    blobs: int = 0
    bytes: int = 0
    damaged: int = 0
    missing: int = 0
    orphaned: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether every named blob exists and is undamaged. Orphaned blobs do no harm."""
        return not self.damaged and not self.missing


class BlobAudit:
    """Audits the blobs of an installation. `tell` gets each finding, `progress` how many of all parts are done."""

    def __init__(
        self,
        database: Database,
        blobs: AuditedBlobs,
        clock: Clock,
        tell: Callable[[Finding], None] = lambda _: None,
        progress: Callable[[int, int, Count], None] = lambda _done, _parts, _count: None,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._tell = tell
        self._progress = progress
        self.count: Final = Count()
        self._damaged: set[str] = set()
        """The blobs that were found damaged, so that none is counted twice."""

    async def look_for_all(self) -> Count:
        """Check that each named blob exists and has the right size; none is read."""
        for kind in KINDS:
            after = ""
            while page := await self._look_for(partial(self._page, kind, after)):
                after = page[-1].id
        return self.count

    async def verify_all(self) -> Count:
        """Read every blob of the store and compare it with its name, then check that each named one exists."""
        for done, folder in enumerate(FAN_OUT):
            async for page in self._blobs.walk(folder):
                await self._verify(page)
            self._progress(done + 1, len(FAN_OUT), self.count)
        return await self.look_for_all()

    async def sample(self, beginning: str) -> Count:
        """Check that some named blobs exist, from a prefix of their names on, and compare the bytes of a few."""
        for reference in await self._look_for(partial(self._some, beginning)):
            if self.count.bytes + reference.size <= _SAMPLE_BYTES:
                await self._compare(reference.blob)
        return self.count

    async def _page(self, kind: str, after: str) -> Sequence[BlobReference]:
        now = self._clock.now_ms()
        return await self._database.read(lambda c: references_after(c, kind, after, now, _PAGE))

    async def _some(self, beginning: str) -> Sequence[BlobReference]:
        now = self._clock.now_ms()
        found = await self._database.read(lambda c: sample_references(c, beginning, now, _SAMPLE))
        if len(found) >= _SAMPLE:
            return found
        first = await self._database.read(lambda c: sample_references(c, "", now, _SAMPLE))
        return list(dict.fromkeys([*found, *first]))

    async def _look_for(self, read: Callable[[], Awaitable[Sequence[BlobReference]]]) -> Sequence[BlobReference]:
        """Check the blobs of some references, and return those; findings are checked again, as rows may vanish."""
        page = await read()
        self.count.references += len(page)
        if await self._wrong(page):
            for reference, size in (await self._wrong(await read())).items():
                if size is None:
                    self._note_finding("missing", reference.blob, [reference])
                elif reference.blob not in self._damaged:
                    self._note_finding("damaged", reference.blob, [reference])
        return page

    async def _wrong(self, page: Sequence[BlobReference]) -> dict[BlobReference, int | None]:
        """The references whose blobs are missing or have another size, and that size."""
        sizes = await self._blobs.sizes(list({reference.blob for reference in page}))
        return {one: sizes[one.blob] for one in page if sizes[one.blob] != one.size}

    async def _verify(self, page: Sequence[StoredBlob]) -> None:
        now = self._clock.now_ms()
        names = [blob.name for blob in page]
        named = await self._database.read(lambda c: named_blobs(c, names, now))
        for blob in page:
            is_whole = await self._compare(blob.name)
            if is_whole and blob.name not in named and blob.written_at < now - GRACE_MS:
                self._note_finding("orphaned", blob.name, ())

    async def _compare(self, name: str) -> bool:
        """Read a blob; False where it is damaged."""
        self.count.blobs += 1
        try:
            self.count.bytes += await self._blobs.compare(name)
        except BlobMissingError:  # it was removed since; otherwise it is looked for later
            return True
        except BlobDamagedError:
            now = self._clock.now_ms()
            named_by = await self._database.read(lambda c: references_to(c, name, now, _NAMED_MAX))
            self._note_finding("damaged", name, named_by)
            return False
        return True

    def _note_finding(self, problem: Problem, blob: str, named_by: Sequence[BlobReference]) -> None:
        match problem:
            case "damaged":
                self.count.damaged += 1
                if len(self._damaged) < _REMEMBERED_MOST:
                    self._damaged.add(blob)
            case "missing":
                self.count.missing += 1
            case "orphaned":
                self.count.orphaned += 1
        self._tell(Finding(problem, blob, named_by))
