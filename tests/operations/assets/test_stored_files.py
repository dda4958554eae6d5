"""Audits of stored files over real databases and blobs: what is damaged, missing, or named by nobody (S-08)."""

import os
from pathlib import Path

import pytest
from blake3 import blake3

from conftest import Run
from damage import blob_file, blob_files, flip
from fairlead.clock import Clock, new_id
from fairlead.domain.work.entries import DocumentBlob
from fairlead.operations.assets.stored_files import BlobAudit, Count, Finding
from fairlead.storage.assets.results import Asset, insert_assets
from fairlead.storage.blobs.opening import existing_blobs
from fairlead.storage.db.database import Database
from operations.asset_room import Room
from storage.bookings import LAB, NOW, Books, admission, kept_result, settlement

DAY_SECONDS = 24 * 3600
RUN = "00000000-0000-7000-8000-000000000001"
LIVE = "00000000-0000-7000-8000-000000000002"
RESULT, REQUEST, ASSET = (f"the bytes of {what}".encode() * 100 for what in ("a result", "a request", "an asset"))


class Store:
    """One blob of each kind that is named, and audits of them all."""

    def __init__(self, room: Room, database: Database, books: Books, run: Run) -> None:
        """Fill it."""
        self.folder = room.folder
        self.room = room
        self.books = books
        self._database = database
        self._run = run
        self.file = run(room.send(b"x" * 900)).blob
        self.result = self._put(RESULT)
        self.asset = self._put(ASSET)
        asset = Asset(new_id(), LAB, RUN, self.asset, len(ASSET), "image/png", "a.png", NOW, NOW + 1_000_000)
        books.do(lambda c: insert_assets(c, [asset]))
        result = kept_result(content=None, blob=self.result, size=len(RESULT), expires_at=NOW + 1_000_000)
        books.write(admission(RUN, hold=0))
        books.write(settlement(RUN, charge=0, result=result))
        self.request = self._put(REQUEST)
        books.write(admission(LIVE, hold=0, request=DocumentBlob(self.request, len(REQUEST))))

    @property
    def named(self) -> dict[str, str]:
        """Each blob, and the kind of the row that names it."""
        return {self.file: "file", self.result: "result", self.asset: "asset", self.request: "request"}

    def path(self, blob: str) -> Path:
        """Return the file of a blob."""
        return blob_file(self.folder, blob)

    def audit(self, *, thoroughly: bool, now_ms: int = NOW) -> tuple[Count, dict[tuple[str, str], list[str]]]:
        """Return the count, and the kinds of rows that each finding names."""
        found: dict[tuple[str, str], list[str]] = {}

        def tell(finding: Finding) -> None:
            found.setdefault((finding.problem, finding.blob), []).extend(one.kind for one in finding.named_by)

        clock = Clock(lambda: now_ms * 1_000_000)
        auditor = BlobAudit(self._database, existing_blobs(self.folder), clock, tell)
        return self._run(auditor.verify_all() if thoroughly else auditor.look_for_all()), found

    def sample(self, beginning: str = "ffff") -> Count:
        """Return the count of a sample, which goes on at the first name after the last."""
        clock = Clock(lambda: NOW * 1_000_000)
        count: Count = self._run(BlobAudit(self._database, existing_blobs(self.folder), clock).sample(beginning))
        return count

    def _put(self, content: bytes) -> str:
        async def put() -> str:
            writer = self.room.blobs.writer(len(content))
            await writer.write(content)
            return await writer.commit()

        name: str = self._run(put())
        return name


@pytest.fixture
def store(database: Database, books: Books, tmp_path: Path, run: Run) -> Store:
    """Return a store with one blob of each kind."""
    books.open(balance=1_000)
    return Store(Room(database, tmp_path / "blobs"), database, books, run)


@pytest.mark.req("S-08")
def test_whole_store_has_no_findings(store: Store) -> None:
    """Everything that is named is there and whole, and nothing was changed by looking."""
    before = [(path, path.stat().st_mtime_ns) for path in blob_files(store.folder)]
    for thoroughly in (False, True):
        count, found = store.audit(thoroughly=thoroughly)
        assert (count.is_clean, count.references, found) == (True, 4, {})
        assert (count.blobs, count.bytes) == ((4, 900 + len(RESULT + ASSET + REQUEST)) if thoroughly else (0, 0))
    assert [(path, path.stat().st_mtime_ns) for path in blob_files(store.folder)] == before
    assert store.sample().is_clean


@pytest.mark.req("S-08")
@pytest.mark.parametrize("thoroughly", [False, True], ids=["existence", "bytes"])
@pytest.mark.parametrize("lost", ["deleted", "cut off", "flipped"])
def test_lost_blob_is_found_with_who_names_it(store: Store, lost: str, *, thoroughly: bool) -> None:
    """A deleted file, and one of another size, are found without reading; flipped bytes by reading them all."""
    for blob, kind in store.named.items():
        path, content = store.path(blob), store.path(blob).read_bytes()
        match lost:
            case "deleted":
                path.unlink()
            case "cut off":
                path.write_bytes(content[:-1])
            case _:
                flip(path, len(content) - 1)
        count, found = store.audit(thoroughly=thoroughly)
        is_seen = thoroughly or lost != "flipped"
        problem = "missing" if lost == "deleted" else "damaged"
        assert found == ({(problem, blob): [kind]} if is_seen else {})
        assert (count.is_clean, count.missing + count.damaged) == (not is_seen, int(is_seen))
        assert not store.sample().is_clean
        path.unlink(missing_ok=True)
        path.write_bytes(content)
    assert store.audit(thoroughly=True)[0].is_clean


@pytest.mark.req("S-08")
def test_store_that_is_gone_is_missing_whole(store: Store, tmp_path: Path) -> None:
    """A folder that was lost is found, not taken for one that has nothing to show."""
    store.folder.rename(tmp_path / "elsewhere")
    for thoroughly in (False, True):
        count, found = store.audit(thoroughly=thoroughly)
        assert (count.missing, count.is_clean) == (4, False)
        assert set(found) == {("missing", blob) for blob in store.named}


@pytest.mark.req("S-08")
def test_blob_that_nobody_names_is_orphaned_after_a_day(store: Store) -> None:
    """It does no harm, and is none while it is about to be named; a damaged one is found in any case."""
    content = b"nobody names me"
    name = blake3(content).hexdigest()
    path = store.path(name)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    for blob in store.named:
        os.utime(store.path(blob), (1, 1))
    assert store.audit(thoroughly=True, now_ms=NOW - 10**12)[1] == {}
    os.utime(path, (NOW / 1000 - DAY_SECONDS - 5,) * 2)
    count, found = store.audit(thoroughly=True)
    assert (found, count.is_clean) == ({("orphaned", name): []}, True)
    flip(path)
    count, found = store.audit(thoroughly=True)
    assert (found, count.is_clean) == ({("damaged", name): []}, False)


@pytest.mark.req("S-08")
def test_row_whose_time_is_up_misses_nothing(store: Store) -> None:
    """Results and assets that have expired may have lost their bytes."""
    for blob in (store.result, store.asset):
        store.path(blob).unlink()
    assert store.audit(thoroughly=False)[0].missing == 2
    assert store.audit(thoroughly=False, now_ms=NOW + 1_000_000)[0].is_clean


@pytest.mark.req("S-08")
def test_each_row_is_looked_at_once_however_many_there_are(store: Store) -> None:
    """Rows come a page at a time, and none is left out between two pages."""
    rows = [
        Asset(new_id(), LAB, RUN, store.asset, len(ASSET), "image/png", "a.png", NOW, NOW + 1_000_000)
        for _ in range(2_500)
    ]
    store.books.do(lambda c: insert_assets(c, rows))
    assert store.audit(thoroughly=False)[0].references == 2_504
    store.path(store.asset).unlink()
    count, found = store.audit(thoroughly=False)
    assert (count.missing, len(found[("missing", store.asset)])) == (2_501, 2_501)
    flip(store.path(store.file))
    count, found = store.audit(thoroughly=True)
    assert (count.damaged, found[("damaged", store.file)]) == (1, ["file"])
