"""What is kept of bytes that an operator's own callable judges: a real one, over real databases and blobs (J-14)."""

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import pytest
from blake3 import blake3

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.assets.faults import AssetFault, AssetFaultError, BlobNotFound, ContentBlocked, HashMismatch
from fairlead.domain.assets.records import NewAsset
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.observing.observations import ContentRefused, ModerationFailed
from fairlead.storage.db.database import Database
from moderation.callables import callable_file, moderators
from operations.asset_room import ME, Room
from storage.bookings import LAB, NOW, Books

_ANY: Final = "application/octet-stream"
_PICKY: Final = """
import pathlib

def judge(content):
    told = pathlib.Path(content.path).read_bytes()
    with open({asked!r}, "a") as file:
        print(told.decode(), content.content_type, content.size, file=file)
    if told == b"broken":
        raise ValueError("no verdict")
    return "it is bad" if told == b"bad" or {everything!r} in told else False
"""


def picky(folder: Path, everything: bytes = b"nothing so far") -> str:
    """Write a callable that keeps a list of what it was asked, and return its name."""
    return callable_file(folder, _PICKY.format(asked=str(folder / "asked"), everything=everything))


def questions_in(folder: Path) -> list[str]:
    """Return what it was asked."""
    return (folder / "asked").read_text("ascii").splitlines()


async def fault_of(work: Coroutine[Any, Any, Any]) -> AssetFault:
    """Return the fault of what must fail."""
    with pytest.raises(AssetFaultError) as raised:
        await work
    return raised.value.fault


async def expect_no_answer(work: Coroutine[Any, Any, Any]) -> None:
    """Check that something fails for now."""
    with pytest.raises(FaultError) as raised:
        await work
    assert isinstance(raised.value.fault, ServiceUnavailable)


@pytest.mark.req("J-14")
def test_blocked_or_unjudged_bytes_are_not_kept(database: Database, books: Books, tmp_path: Path, run: Run) -> None:
    """Nothing is left of bytes that are blocked, nor of those that nobody could judge; the log has the reason."""
    books.open()

    async def check() -> None:
        async with moderators(tmp_path, picky(tmp_path)) as made:
            room = Room(database, tmp_path / "blobs", judge=made.judge)
            assert await fault_of(room.send(b"bad")) == ContentBlocked()
            await expect_no_answer(room.send(b"broken"))
            assert room.lying() == []
            assert (await room.send(b"good", content_type="image/png")).size == 4
            assert questions_in(tmp_path) == [f"bad {_ANY} 3", f"broken {_ANY} 6", f"good {_ANY} 4"]
            told, failed = room.seen
            assert told == ContentRefused(LAB, blake3(b"bad").hexdigest(), "it is bad")
            assert isinstance(failed, ModerationFailed)
            assert failed.reason.startswith("ValueError: no verdict")

    run(check())


@pytest.mark.req("J-14")
def test_file_for_a_workflow_is_judged(database: Database, books: Books, tmp_path: Path, run: Run) -> None:
    """Files that are uploaded under a name are assets, and judged alike."""
    books.open()

    async def upload(room: Room, content: bytes) -> str:
        intake = room.files.receive(LAB)
        try:
            await intake.write(content)
            return (await intake.commit("a.txt", "input")).name
        finally:
            await intake.abort()

    async def check() -> None:
        async with moderators(tmp_path, picky(tmp_path)) as made:
            room = Room(database, tmp_path / "blobs", judge=made.judge)
            assert await fault_of(upload(room, b"bad")) == ContentBlocked()
            await expect_no_answer(upload(room, b"broken"))
            assert room.lying() == []
            assert await upload(room, b"good") == "a.txt"

    run(check())


@pytest.mark.req("J-14")
def test_known_bytes_are_judged_when_an_asset_is_made_of_them(
    database: Database, books: Books, tmp_path: Path, run: Run
) -> None:
    """Bytes of the workspace are judged once more when an asset is made of them; those of others are unknown."""
    books.open()

    async def check() -> None:
        unjudged = Room(database, tmp_path / "blobs")
        known = await unjudged.send(b"was good once", "once.txt")
        async with moderators(tmp_path, picky(tmp_path, b"once")) as made:
            room = Room(database, tmp_path / "blobs", judge=made.judge)
            again = NewAsset("again.txt")
            assert await fault_of(room.assets.add_known(ME, known.blob, again)) == ContentBlocked()
            assert questions_in(tmp_path) == [f"was good once {_ANY} 13"]
            stranger = Caller("other-id", "other")
            for digest in (known.blob, "0" * 64):
                assert await fault_of(room.assets.add_known(stranger, digest, again)) == BlobNotFound()
            (room.lying()[0]).unlink()
            assert await fault_of(room.assets.add_known(ME, known.blob, again)) == BlobNotFound()
            assert len(questions_in(tmp_path)) == 1

    run(check())


@pytest.mark.req("J-14")
def test_bytes_that_are_refused_anyway_are_not_judged(
    database: Database, books: Books, tmp_path: Path, run: Run
) -> None:
    """Bytes with another hash than declared, listed bytes and no bytes at all are refused without a verdict."""
    books.open()

    async def check() -> None:
        async with moderators(tmp_path, picky(tmp_path)) as made:
            listed = blake3(b"listed").hexdigest()
            room = Room(database, tmp_path / "blobs", [listed], made.judge)
            assert await fault_of(room.send(b"listed")) == ContentBlocked()
            intake = room.assets.receive(ME)
            await intake.write(b"other")
            adding = room.assets.add(ME, intake, "a.txt", NewAsset(), "0" * 64)
            assert isinstance(await fault_of(adding), HashMismatch)
            await intake.abort()
            assert room.lying() == []
            assert not (tmp_path / "asked").exists()
            assert (await room.send(b"good")).created_at == NOW

    run(check())
