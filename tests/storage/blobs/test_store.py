"""Blobs: whole or not there, found by their bytes, read in parts; in a folder and in another store alike."""

import asyncio
import gc
import mmap
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3
from obstore.store import LocalStore, MemoryStore

from conftest import Run
from fairlead.storage.blobs.adoption import copy_bytes
from fairlead.storage.blobs.local_copies import LocalCopies
from fairlead.storage.blobs.opening import bucket_blobs, local_blobs
from fairlead.storage.blobs.reading import BlobVerifier
from fairlead.storage.blobs.store import (
    FAN_OUT,
    AdoptedBlob,
    BlobMissingError,
    BlobsUnavailableError,
    BlobTooLargeError,
    StoredBlobs,
)
from fairlead.storage.blobs.writer import SpooledWriter
from s3_store import S3Server

MIB = 1024 * 1024
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 -- a file system of its own is wanted
ANYTHING = 1 << 30


@pytest.fixture(params=["folder", "memory", "s3"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> StoredBlobs:
    """Return an empty store: a folder, one that is not a folder and takes uploads in parts, and a real S3 store."""
    if request.param == "folder":
        return local_blobs(tmp_path / "blobs")
    if request.param == "s3":
        server: S3Server = request.getfixturevalue("s3_server")
        return bucket_blobs(server.bucket("blobs", uuid.uuid4().hex), tmp_path / "blobs", copies_bytes=64 * MIB)
    (tmp_path / "spool").mkdir()
    return StoredBlobs(MemoryStore(), tmp_path / "spool", parts=5 * MIB)


@pytest.fixture
def local(tmp_path: Path) -> StoredBlobs:
    """Return an empty store in a folder."""
    return local_blobs(tmp_path / "blobs")


async def put(blobs: StoredBlobs, content: bytes, piece: int = 100_000) -> str:
    """Write a blob in pieces."""
    writer = blobs.writer(ANYTHING)
    for start in range(0, len(content), piece):
        await writer.write(content[start : start + piece])
    return await writer.commit()


async def got(blobs: StoredBlobs, name: str, start: int = 0, end: int = ANYTHING) -> bytes:
    """Read a part of a blob."""
    return b"".join([chunk async for chunk in await blobs.read(name, start, end)])


async def names(blobs: StoredBlobs) -> list[str]:
    """Walk the whole store."""
    return [blob.name for folder in FAN_OUT async for page in blobs.walk(folder) for blob in page]


def files(folder: Path) -> list[Path]:
    """List every file below a folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, 12 * MIB + 7])
def test_blob_is_read_back_as_it_was_written(blobs: StoredBlobs, size: int, run: Run) -> None:
    """A blob is named by the BLAKE3 of its bytes and gives them back."""
    content = os.urandom(size)

    async def write_and_read() -> None:
        name = await put(blobs, content)
        assert name == blake3(content).hexdigest()
        assert await got(blobs, name, 0, size) == content
        assert await blobs.size(name) == size
        assert await blobs.exists(name)

    run(write_and_read())


def test_part_of_a_blob_is_the_slice_of_its_bytes(blobs: StoredBlobs, run: Run) -> None:
    """A part is the slice of the bytes, empty ones and those past the end included."""
    content = os.urandom(3 * MIB)

    async def read_parts() -> None:
        name = await put(blobs, content)
        for start, end in ((0, 1), (5, 5), (MIB - 3, 2 * MIB + 5), (3 * MIB - 1, 3 * MIB), (7, 9 * MIB)):
            assert await got(blobs, name, start, end) == content[start:end]

    run(read_parts())


def test_same_bytes_are_one_blob(local: StoredBlobs, tmp_path: Path, run: Run) -> None:
    """The same bytes are one blob, also when they are written at the same moment."""

    async def write_often() -> None:
        assert len({await put(local, b"the same") for _ in range(2)}) == 1
        assert len(set(await asyncio.gather(*(put(local, b"again" * MIB, MIB) for _ in range(4))))) == 1
        assert len(await names(local)) == 2

    run(write_often())
    assert len(files(tmp_path)) == 2


def test_writer_refuses_bytes_past_its_limit(blobs: StoredBlobs, tmp_path: Path, run: Run) -> None:
    """A writer refuses the first byte past its limit, and leaves nothing behind."""

    async def write_too_much() -> None:
        writer = blobs.writer(2 * MIB)
        await writer.write(b"x" * 2 * MIB)
        with pytest.raises(BlobTooLargeError):
            await writer.write(b"x")
        await writer.abort()
        await writer.abort()
        assert await names(blobs) == []

    run(write_too_much())
    assert files(tmp_path) == []


def test_half_written_blob_is_invisible(local: StoredBlobs, tmp_path: Path, run: Run) -> None:
    """Before it is committed a blob is in the spool alone; a writer that vanished leaves a file that is swept."""

    async def write_half() -> None:
        writer = local.writer(ANYTHING)
        for _ in range(2):  # the second waits until a thread has spooled the first
            await writer.write(b"x" * 2 * MIB)
        assert await names(local) == []
        (left,) = files(tmp_path)
        assert left.parent.name == "spool"
        assert await local.sweep(60) == 0
        os.utime(left, (time.time() - 61,) * 2)
        assert await local.sweep(60) == 1

    run(write_half())
    assert files(tmp_path) == []


def test_abort_does_not_wait_for_its_thread(local: StoredBlobs, tmp_path: Path, run: Run) -> None:
    """A writer cancelled in the middle of a write can be aborted: nothing is left, and no thread writes on."""

    async def write(writer: SpooledWriter) -> None:
        for _ in range(2):
            await writer.write(b"x" * 8 * MIB)

    async def cancel_and_abort() -> None:
        for _ in range(20):
            writer = local.writer(ANYTHING)
            task = asyncio.create_task(write(writer))
            await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await writer.abort()

    run(cancel_and_abort())
    assert files(tmp_path) == []


def test_deleted_blob_is_gone(blobs: StoredBlobs, run: Run) -> None:
    """A deleted blob is gone, and deleting it again is no error."""

    async def delete_twice() -> None:
        name = await put(blobs, b"bytes")
        other = await put(blobs, b"other bytes")
        for _ in range(2):
            await blobs.delete(name)
        assert (await blobs.size(name), await blobs.exists(name)) == (None, False)
        assert await names(blobs) == [other]
        with pytest.raises(BlobMissingError):
            await blobs.read(name, 0, 1)

    run(delete_twice())


@pytest.mark.parametrize("name", ["", "../secret", "A" * 64, "0" * 63, "0" * 65, "ab/cd"])
def test_only_64_digits_are_a_blob_name(blobs: StoredBlobs, name: str, run: Run) -> None:
    """Only 64 digits are a name; nothing else reaches the store."""
    for use in (blobs.size, blobs.delete, lambda given: blobs.read(given, 0, 1)):
        with pytest.raises(ValueError, match="64 digits"):
            run(use(name))


def test_blobs_are_readable_by_their_owner_alone(local: StoredBlobs, tmp_path: Path, run: Run) -> None:
    """The folder is its owner's alone, and blobs lie two levels below it."""
    name = run(put(local, b"bytes"))
    assert stat.S_IMODE((tmp_path / "blobs").stat().st_mode) == 0o700
    (file,) = files(tmp_path)
    assert file == tmp_path / "blobs" / name[:2] / name[2:4] / name
    assert stat.S_IMODE(file.stat().st_mode) == 0o400


@pytest.mark.parametrize("broken", ["spool", "store"])
def test_error_of_the_disk_is_told_as_unavailable(tmp_path: Path, broken: str, run: Run) -> None:
    """A folder that cannot be written ends a commit in our own error, and nothing is visible."""
    blobs = local_blobs(tmp_path / "blobs")
    if broken == "spool":
        (tmp_path / "blobs" / "spool").rmdir()
    else:
        for folder in FAN_OUT:
            (tmp_path / "blobs" / folder).write_bytes(b"")

    async def write() -> None:
        writer = blobs.writer(ANYTHING)
        try:
            await writer.write(b"x")
            with pytest.raises(BlobsUnavailableError):
                await writer.commit()
        finally:
            await writer.abort()

    run(write())


@pytest.mark.parametrize("asks", ["again", "never"])
def test_error_behind_a_write_is_told_by_the_next_call(tmp_path: Path, asks: str, run: Run) -> None:
    """What fails in a thread is told by the next write and by the commit; nobody has to ask before an abort."""
    blobs = local_blobs(tmp_path / "blobs")
    (tmp_path / "blobs" / "spool").rmdir()

    async def write() -> None:
        writer = blobs.writer(ANYTHING)
        try:
            await writer.write(b"x" * MIB)
            if asks == "again":
                with pytest.raises(BlobsUnavailableError):
                    await writer.write(b"x" * MIB)
                with pytest.raises(BlobsUnavailableError):
                    await writer.commit()
        finally:
            await writer.abort()

    run(write())
    gc.collect()  # where an error that nobody has seen would be complained of, which fails this test
    assert files(tmp_path) == []


def test_walk_finds_only_blobs(local: StoredBlobs, tmp_path: Path, run: Run) -> None:
    """Other files in the folder are not ours to list or to remove."""
    name = run(put(local, b"bytes"))
    (tmp_path / "blobs" / name[:2] / "notes.txt").write_bytes(b"")
    before = time.time() * 1000

    async def walk() -> None:
        (found,) = [blob async for page in local.walk(name[:2]) for blob in page]
        assert found.name == name
        assert abs(found.written_at - before) < 60_000

    run(walk())


def test_blobs_go_where_the_store_puts_them(tmp_path: Path, run: Run) -> None:
    """The same class serves any store it is handed, with a spool wherever it is told."""
    make: Callable[[Path], StoredBlobs] = lambda path: StoredBlobs(LocalStore(path / "a", mkdir=True), path / "b")  # noqa: E731 -- short
    (tmp_path / "b").mkdir()
    name = run(put(make(tmp_path), b"bytes"))
    assert run(got(make(tmp_path), name)) == b"bytes"
    assert [path.name for path in files(tmp_path / "a")] == [name]


async def some(size: int) -> AsyncIterator[bytes]:
    """Give bytes."""
    yield b"x" * size


@pytest.mark.parametrize("size", [0, 1, 3 * MIB + 7])
def test_adopted_file_becomes_a_blob_and_is_gone(blobs: StoredBlobs, tmp_path: Path, size: int, run: Run) -> None:
    """A file becomes the blob of its bytes, and is gone from where it was made."""
    content, path = os.urandom(size), tmp_path / "made.png"
    path.write_bytes(content)

    async def adopt() -> None:
        adopted = await blobs.adopt(path, size)
        assert adopted == AdoptedBlob(blake3(content).hexdigest(), size, content[:1024])
        assert await got(blobs, adopted.name) == content
        assert await blobs.size(adopted.name) == size

    run(adopt())
    assert not path.exists()
    assert files(tmp_path / "spool") == []


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_bytes_that_are_put_are_a_blob_like_any_other(blobs: StoredBlobs, tmp_path: Path, size: int, run: Run) -> None:
    """They have the name that they would have as a file, however often they are put; nothing stays in the spool."""
    content = os.urandom(size)

    async def put_twice() -> None:
        first, again = await blobs.put(content, size), await blobs.put(content, size)
        assert first == again == AdoptedBlob(blake3(content).hexdigest(), size, content[:1024])
        assert await got(blobs, first.name) == content
        with pytest.raises(BlobTooLargeError):
            await blobs.put(content + b"x", size)

    run(put_twice())
    assert files(tmp_path / "spool") == []


def test_blob_is_put_again_after_its_folders_were_removed(local: StoredBlobs, tmp_path: Path, run: Run) -> None:
    """A store remembers which of its folders are durable, and makes them again where somebody has removed them."""
    name = run(local.put(b"bytes", 100)).name
    shutil.rmtree(tmp_path / "blobs" / name[:2])
    assert run(local.put(b"bytes", 100)).name == name
    assert run(local.local_path(name)).read_bytes() == b"bytes"


def test_adopted_file_has_a_new_mode_and_age(local: StoredBlobs, tmp_path: Path, run: Run) -> None:
    """An adopted file is its owner's alone and new, so that no sweep takes it for an old one that nobody names."""
    path = tmp_path / "made.png"
    path.write_bytes(b"bytes")
    path.chmod(0o666)
    os.utime(path, (1, 1))
    name = run(local.adopt(path, 100)).name
    found = run(local.local_path(name)).stat()
    assert stat.S_IMODE(found.st_mode) == 0o400
    assert time.time() - found.st_mtime < 60


@pytest.mark.req("S-08")
@pytest.mark.parametrize("where", ["the same file system", "another file system"])
def test_blob_of_an_adopted_file_is_an_inode_of_the_server_alone(
    local: StoredBlobs, tmp_path: Path, where: str, run: Run
) -> None:
    """Anyone who has kept a descriptor or a mapping of the file it handed over writes to that file, not to the blob."""
    folder, elsewhere = tmp_path, where == "another file system"
    if elsewhere:
        if not SHARED_MEMORY.is_dir():
            pytest.skip("this system has no file system in memory")
        folder = Path(tempfile.mkdtemp(dir=SHARED_MEMORY))
    content, path = os.urandom(2 * MIB + 5), folder / "made.png"
    try:
        path.write_bytes(content)
        with path.open("r+b") as kept, mmap.mmap(kept.fileno(), 0) as mapped:
            adopted = run(local.adopt(path, 3 * MIB))
            blob = run(local.local_path(adopted.name))
            assert os.fstat(kept.fileno()).st_nlink == 0
            kept.write(b"other bytes")
            kept.flush()
            mapped[100:105] = b"other"
            mapped.flush()
            kept.truncate(50)
        assert (adopted.name, blob.read_bytes()) == (blake3(content).hexdigest(), content)
    finally:
        if elsewhere:
            folder.rmdir()


@pytest.mark.req("S-09")
@pytest.mark.parametrize("places", [(), (0,), (40,), (7, 63), (0, 20, 63)])
def test_holes_of_an_adopted_file_take_no_room(
    local: StoredBlobs, tmp_path: Path, places: tuple[int, ...], run: Run
) -> None:
    """A file of 64 MiB with some bytes in it, wherever they are, has the same bytes as a blob and takes as little."""
    path, part, size = tmp_path / "sparse", os.urandom(4096), 64 * MIB
    with path.open("wb") as file:
        file.truncate(size)
        for place in places:
            file.seek(place * MIB)
            file.write(part)
    content = path.read_bytes()
    adopted = run(local.adopt(path, size))
    assert (adopted.name, adopted.size) == (blake3(content).hexdigest(), size)
    blob = run(local.local_path(adopted.name))
    assert blob.read_bytes() == content
    assert blob.stat().st_blocks * 512 <= MIB


@pytest.mark.req("S-08")
def test_copy_of_a_growing_file_ends_at_its_limit(tmp_path: Path) -> None:
    """A file that grew after it was looked at costs no more room than the limit allows."""
    (tmp_path / "grown").write_bytes(bytes(5000))
    with (tmp_path / "grown").open("rb", buffering=0) as source, (tmp_path / "copy").open("xb", buffering=0) as target:
        with pytest.raises(BlobTooLargeError):
            copy_bytes(source, target, 4000)
        assert os.fstat(target.fileno()).st_size <= 4001


@pytest.mark.req("S-08")
def test_file_of_a_blob_is_read_only(local: StoredBlobs, tmp_path: Path, run: Run) -> None:
    """However a blob came, nobody can open its file for writing without changing its mode first."""
    path = tmp_path / "made.png"
    path.write_bytes(b"adopted")
    for name in (run(put(local, b"written")), run(local.adopt(path, 100)).name):
        assert stat.S_IMODE(run(local.local_path(name)).stat().st_mode) == 0o400


def test_only_a_plain_file_is_adopted(local: StoredBlobs, tmp_path: Path, run: Run) -> None:
    """No link, no second name, no folder, no pipe, nothing too large becomes a blob; the store stays empty."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    ways: dict[str, Callable[[Path], Any]] = {
        "link": lambda path: path.symlink_to(secret),
        "name": lambda path: path.hardlink_to(secret),
        "folder": Path.mkdir,
        "pipe": os.mkfifo,
        "nothing": lambda _: None,
    }
    for name, make in ways.items():
        make(tmp_path / name)
        with pytest.raises(ValueError, match="file"):
            run(local.adopt(tmp_path / name, 100))
    large = tmp_path / "large"
    large.write_bytes(b"x" * 101)
    with pytest.raises(BlobTooLargeError):
        run(local.adopt(large, 100))
    assert not large.exists()
    assert secret.read_bytes() == b"secret"
    assert files(tmp_path / "blobs") == []


def test_programs_find_a_blob_as_a_file(tmp_path: Path, run: Run) -> None:
    """A program finds a blob as a file: the blob's own in a folder, a copy of it for another store, made once."""
    (tmp_path / "spool").mkdir()
    copies = LocalCopies(tmp_path / "copies", limit=10)
    distant = StoredBlobs(MemoryStore(), tmp_path / "spool", copies=copies)
    local = local_blobs(tmp_path / "blobs")

    async def read() -> None:
        for blobs in (local, distant):
            name = await put(blobs, b"bytes")
            path = await blobs.local_path(name)
            assert path.read_bytes() == b"bytes"
            assert await blobs.local_path(name) == path
            with pytest.raises(BlobMissingError):
                await blobs.local_path("0" * 64)
        path.write_bytes(b"broken off")
        assert (await distant.local_path(name)).read_bytes() == b"bytes"
        with pytest.raises(BlobsUnavailableError):
            await StoredBlobs(MemoryStore(), tmp_path / "spool").local_path(name)

    run(read())


def test_local_copies_are_bounded(tmp_path: Path, run: Run) -> None:
    """Copies that were not asked for longest make room; the newest stays, whatever its size."""
    copies = LocalCopies(tmp_path, limit=10)

    for name, size in (("b", 5), ("c", 5), ("d", 4), ("e", 50)):
        run(copies.path(name, size, partial(some, size)))
        if name == "c":
            run(copies.path("b", 5, partial(some, 0)))
        if name == "d":
            assert {path.name for path in files(tmp_path)} == {"b", "d"}
    assert {path.name for path in files(tmp_path)} == {"e"}


def test_copies_of_an_earlier_start_count_from_when_they_were_made(tmp_path: Path, run: Run) -> None:
    """The oldest goes first, unless it was used since."""
    for number, name in enumerate(("b", "c", "d")):
        (tmp_path / name).write_bytes(bytes(3))
        os.utime(tmp_path / name, (number, number))
    copies = LocalCopies(tmp_path, limit=10)
    run(copies.path("b", 3, partial(some, 0)))
    run(copies.path("e", 3, partial(some, 3)))
    assert {path.name for path in files(tmp_path)} == {"b", "d", "e"}


@pytest.mark.req("S-08")
def test_copy_that_others_ask_for_is_not_taken_for_changed(tmp_path: Path, run: Run) -> None:
    """Who has opened it compares its times, to notice what changes it; another reader changes nothing."""
    copies = LocalCopies(tmp_path)
    name = blake3(b"x" * 7).hexdigest()

    def copy() -> Path:
        found: Path = run(copies.path(name, 7, partial(some, 7)))
        return found

    with BlobVerifier().open(copy(), name) as blob:
        assert copy() == tmp_path / name
        assert blob.piece(0, 7) == b"x" * 7


@pytest.mark.parametrize("size", [0, 10, 2 * MIB + 1])
def test_finished_blob_is_readable_before_it_is_visible(blobs: StoredBlobs, size: int, run: Run) -> None:
    """Its bytes can be read where they lie, and its name is known, before there is such a blob; it may be dropped."""
    content = bytes(size)

    async def finish() -> None:
        writer = blobs.writer(ANYTHING)
        await writer.write(content)
        name, path = await writer.finish()
        assert (name, path.read_bytes()) == (blake3(content).hexdigest(), content)
        assert await writer.finish() == (name, path)
        assert not await blobs.exists(name)
        await writer.abort()
        assert not path.exists()
        other = blobs.writer(ANYTHING)
        await other.write(content)
        assert (await other.finish())[0] == await other.commit()
        assert await got(blobs, name) == content

    run(finish())
