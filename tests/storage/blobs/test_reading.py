"""Bytes that are read are compared with their name: in a folder and in another store, whole and in part (S-08)."""

import asyncio
import hashlib
import os
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import obstore
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import LocalStore, MemoryStore

from conftest import Run
from damage import blob_file, flip
from fairlead.storage.blobs.local_copies import LocalCopies
from fairlead.storage.blobs.reading import VERIFIED_BYTES_MAX, BlobVerifier
from fairlead.storage.blobs.store import (
    BlobDamagedError,
    BlobLostError,
    BlobMissingError,
    BlobsUnavailableError,
    StoredBlobs,
)

MIB = 1024 * 1024
LIMIT = 3 * MIB
KINDS = ("folder", "memory")


@dataclass
class Shelf:
    """A store that verifies blobs of up to LIMIT bytes, and what it has reported."""

    folder: Path
    kind: str
    limit: int = LIMIT
    pauses: Sequence[float] = (0.0,)
    reported: list[BlobLostError] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make it."""
        self.store: Any = LocalStore(self.folder / "blobs", mkdir=True) if self.kind == "folder" else MemoryStore()
        (self.folder / "spool").mkdir(exist_ok=True)
        self.blobs = StoredBlobs(
            self.store, self.folder / "spool", copies=LocalCopies(self.folder / "copies"),
            verifier=BlobVerifier(self.limit), report=self.reported.append, pauses=self.pauses,
        )  # fmt: skip

    def put(self, content: bytes, name: str | None = None) -> str:
        """Lay bytes into the store, under their name or another."""
        name = name or blake3(content).hexdigest()
        obstore.put(self.store, f"{name[:2]}/{name[2:4]}/{name}", content)
        return name

    async def read(self, name: str, start: int = 0, end: int = sys.maxsize) -> bytes:
        """Read a part of a blob."""
        return b"".join([piece async for piece in await self.blobs.read(name, start, end)])

    def ways(self, name: str, size: int) -> list[Callable[[], Coroutine[Any, Any, Any]]]:
        """Return every way to come to the bytes of a blob."""
        return [
            lambda: self.blobs.read(name, 0, size),
            lambda: self.blobs.read(name, size // 2, size // 2 + 1),
            lambda: self.blobs.verify(name, size),
            lambda: self.blobs.local_path(name),
        ]


@pytest.fixture(params=KINDS)
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    """Return a store of each kind."""
    return Shelf(tmp_path, request.param)


@pytest.mark.req("S-08")
@given(
    size=st.integers(1, LIMIT), place=st.integers(0, LIMIT), kind=st.sampled_from(KINDS),
    change=st.sampled_from(["flipped", "shorter", "longer", "empty"]),
)  # fmt: skip
def test_damaged_bytes_are_never_handed_out(size: int, place: int, kind: str, change: str) -> None:
    """Wherever a byte differs, and whatever part is asked for, the blob is refused before its first byte."""
    content = hashlib.shake_256(b"content").digest(size)
    place %= size
    changed = {
        "flipped": content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :],
        "shorter": content[:place],
        "longer": content + b"x",
        "empty": b"",
    }[change]
    with TemporaryDirectory() as folder:
        shelf = Shelf(Path(folder), kind)
        name = shelf.put(changed, blake3(content).hexdigest())

        async def ask() -> None:
            for way in shelf.ways(name, size):
                with pytest.raises(BlobDamagedError):
                    await way()
            assert [(type(lost), lost.name) for lost in shelf.reported] == [(BlobDamagedError, name)] * 4

        asyncio.run(ask())


@pytest.mark.req("S-08")
def test_missing_blob_is_reported(shelf: Shelf, run: Run) -> None:
    """A blob that is not there is missing, whichever way it is asked for."""
    name = "0" * 64

    async def ask() -> None:
        for way in shelf.ways(name, 1):
            with pytest.raises(BlobMissingError):
                await way()
        with pytest.raises(BlobMissingError):
            await shelf.blobs.check(name, 1)

    run(ask())
    assert [type(lost) for lost in shelf.reported] == [BlobMissingError] * 5
    assert run(shelf.blobs.size(name)) is None
    assert len(shelf.reported) == 5


@pytest.mark.req("S-08")
@pytest.mark.parametrize("size", [0, 5, MIB, 2 * MIB + 1, LIMIT + 1, LIMIT + 2 * MIB])
def test_blob_of_the_first_versions_is_whole(shelf: Shelf, size: int, run: Run) -> None:
    """A name that is the SHA-256 of the bytes stands for them too, however large they are."""
    content = os.urandom(size)
    name = shelf.put(content, hashlib.sha256(content).hexdigest())
    assert run(shelf.read(name)) == content
    assert run(shelf.blobs.local_path(name)).read_bytes() == content
    run(shelf.blobs.verify(name, size))
    assert shelf.reported == []


@pytest.mark.req("S-08")
@pytest.mark.parametrize("place", [0, LIMIT // 2, LIMIT + 2 * MIB - 1])
def test_large_damaged_blob_breaks_off_before_its_last_piece(tmp_path: Path, place: int, run: Run) -> None:
    """A blob past the limit that is read whole never ends as if it were whole; a part of it is not compared."""
    shelf, content = Shelf(tmp_path, "folder"), os.urandom(LIMIT + 2 * MIB)
    name = shelf.put(content)
    flip(blob_file(tmp_path / "blobs", name), place)
    got: list[bytes] = []

    async def read() -> None:
        async for piece in await shelf.blobs.read(name, 0, len(content)):
            got.append(piece)  # noqa: PERF401 -- what came before it broke off is looked at

    with pytest.raises(BlobDamagedError):
        run(read())
    assert len(b"".join(got)) == len(content) - MIB
    assert [type(lost) for lost in shelf.reported] == [BlobDamagedError]
    assert len(run(shelf.read(name, 10, 20))) == 10


@pytest.mark.req("S-08")
def test_limit_of_what_is_verified_is_16_mebibytes(tmp_path: Path, run: Run) -> None:
    """A part of a blob of exactly the limit is verified; one byte more, and only the whole of it is."""
    assert VERIFIED_BYTES_MAX == 16 * MIB
    shelf = Shelf(tmp_path, "folder", VERIFIED_BYTES_MAX)
    for size, is_verified in ((16 * MIB, True), (16 * MIB + 1, False)):
        name = shelf.put(bytes(size))
        flip(blob_file(tmp_path / "blobs", name), 5 * MIB)
        if is_verified:
            with pytest.raises(BlobDamagedError):
                run(shelf.read(name, 0, 1))
        else:
            assert run(shelf.read(name, 0, 1)) == b"\0"


@pytest.mark.req("S-08")
def test_blob_changed_while_it_is_read_breaks_off(tmp_path: Path, run: Run) -> None:
    """What was verified before the first piece is what is sent, or nothing more is."""
    shelf, content = Shelf(tmp_path, "folder"), os.urandom(LIMIT)
    name = shelf.put(content)

    async def read() -> None:
        stream = await shelf.blobs.read(name, 0, LIMIT)
        assert await anext(stream) == content[:MIB]
        assert await anext(stream) == content[MIB : 2 * MIB]
        path = blob_file(tmp_path / "blobs", name)
        os.utime(path, (1, 1))  # so that the time of the change differs, however coarse the clock is
        flip(path, 2 * MIB + 5)
        await anext(stream)

    with pytest.raises(BlobDamagedError):
        run(read())


@pytest.mark.req("S-08")
@pytest.mark.parametrize("what", ["replaced", "deleted"])
def test_reader_has_its_blob_to_the_end(tmp_path: Path, what: str, run: Run) -> None:
    """Bytes that are written again, or swept, while somebody reads them arrive unchanged."""
    shelf, content = Shelf(tmp_path, "folder"), os.urandom(LIMIT)
    name = shelf.put(content)

    async def read() -> bytes:
        stream = await shelf.blobs.read(name, 0, LIMIT)
        got = [await anext(stream), await anext(stream)]
        if what == "replaced":
            shelf.put(content)
        else:
            await shelf.blobs.delete(name)
        return b"".join([*got, *[piece async for piece in stream]])

    assert run(read()) == content


def _bytes_read() -> int:
    found = dict(line.split(": ") for line in Path("/proc/self/io").read_text("ascii").splitlines())
    return int(found["rchar"])


@pytest.mark.req("S-08")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much a process has read")
def test_hot_blob_is_compared_once_until_it_changes(tmp_path: Path, run: Run) -> None:
    """A file that was compared is not read again for each part of it; one that was changed since is."""
    shelf = Shelf(tmp_path, "folder")
    shelf.blobs = StoredBlobs(shelf.store, tmp_path / "spool", verifier=BlobVerifier(settled_seconds=0))
    name = shelf.put(os.urandom(8 * MIB))
    time.sleep(0.1)  # the system's times of changes are coarse: the comparison must begin after that of the file
    before = _bytes_read()
    run(shelf.read(name, 0, 1))
    assert _bytes_read() - before >= 8 * MIB
    before = _bytes_read()
    for start in range(100):
        run(shelf.read(name, start, start + 1))
    assert _bytes_read() - before < 4 * MIB
    path = blob_file(tmp_path / "blobs", name)
    told = path.stat()
    flip(path, 4 * MIB)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))
    with pytest.raises(BlobDamagedError):
        run(shelf.read(name, 0, 1))


@pytest.mark.req("S-08")
def test_file_that_was_just_written_is_not_remembered(tmp_path: Path) -> None:
    """A change within the same tick of the clock leaves the same times, so what is younger is compared each time."""
    content = os.urandom(5000)
    path, name = tmp_path / "blob", blake3(content).hexdigest()
    path.write_bytes(content)
    verifier = BlobVerifier(settled_seconds=3600)
    for _ in range(2):
        before = _bytes_read() if sys.platform == "linux" else 0
        verifier.check(path, name)
        assert sys.platform != "linux" or _bytes_read() - before >= 5000


@pytest.mark.req("S-08")
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how much a process has read")
@pytest.mark.parametrize("size", [MIB, LIMIT + 2 * MIB])
def test_blob_written_here_is_compared_only_after_a_change(tmp_path: Path, size: int, run: Run) -> None:
    """What the server has hashed as it wrote it is not hashed again; a change in the same moment is found."""
    shelf = Shelf(tmp_path, "folder")

    async def write() -> str:
        writer = shelf.blobs.writer(size)
        await writer.write(os.urandom(size))
        return await writer.commit()

    name = run(write())
    path = blob_file(tmp_path / "blobs", name)
    flip(path)
    with pytest.raises(BlobDamagedError):
        run(shelf.read(name))
    assert run(write()) != name
    name = run(write())
    before = _bytes_read()
    for _ in range(10):
        assert len(run(shelf.read(name, 0, 1))) == 1
    assert _bytes_read() - before < 10 * 2 * MIB  # a piece each


@pytest.mark.req("S-08")
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads what it may not")
def test_blob_without_read_permission_is_still_read(tmp_path: Path, run: Run) -> None:
    """Anyone who takes the server's rights to its own file away takes nothing from callers."""
    shelf = Shelf(tmp_path, "folder")
    name = shelf.put(b"bytes")
    blob_file(tmp_path / "blobs", name).chmod(0)
    assert run(shelf.read(name)) == b"bytes"


@pytest.mark.req("S-08")
def test_store_that_fails_is_not_damage(tmp_path: Path, run: Run) -> None:
    """A folder that cannot be read says nothing about a blob."""
    shelf = Shelf(tmp_path, "folder")
    name = shelf.put(b"bytes")
    path = blob_file(tmp_path / "blobs", name)
    path.unlink()
    path.mkdir()
    for way in (lambda: shelf.blobs.verify(name, 5), lambda: shelf.blobs.local_path(name), lambda: shelf.read(name)):
        with pytest.raises(BlobsUnavailableError):
            run(way())
    assert shelf.reported == []


@pytest.mark.req("S-08")
def test_damaged_local_copy_is_fetched_again(tmp_path: Path, run: Run) -> None:
    """A copy of a blob of another store is compared as the blob is, and made again where it differs."""
    shelf = Shelf(tmp_path, "memory")
    name = shelf.put(b"bytes" * 1000)
    path = run(shelf.blobs.local_path(name))
    flip(path, 7)
    assert run(shelf.blobs.local_path(name)).read_bytes() == b"bytes" * 1000
    assert shelf.reported == []


@pytest.mark.req("S-08", "M-05")
def test_blob_that_is_being_replaced_is_fetched_again(tmp_path: Path, run: Run) -> None:
    """What comes damaged from a store that servers share may be whole a moment later, and is not called lost."""
    shelf = Shelf(tmp_path, "memory", pauses=(0.05,) * 100)
    content = b"bytes" * 1000
    name = shelf.put(b"-" * len(content), blake3(content).hexdigest())

    async def replaced_meanwhile() -> bytes:
        reading = asyncio.create_task(shelf.read(name))
        await asyncio.sleep(0.1)
        shelf.put(content)
        return await reading

    assert run(replaced_meanwhile()) == content
    assert shelf.reported == []
