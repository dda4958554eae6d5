"""Assets over real databases and blobs: blocked, away, gone from the store, and named without end (J-14)."""

import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from conftest import Run
from damage import flip
from fairlead.domain.assets.faults import AssetFault, AssetFaultError, AssetNotFound, BlobNotFound, ContentBlocked
from fairlead.domain.assets.records import NewAsset
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.asset_references import REFERENCES_MAX
from fairlead.domain.jobs.faults import BadSubmission, JobFaultError
from fairlead.domain.jobs.jobs import NewJob
from fairlead.observing.observations import ContentRefused, DatabaseTrouble
from fairlead.storage.blobs.store import FAN_OUT
from fairlead.storage.db.database import Database
from fairlead.storage.db.opening import open_database
from operations.asset_room import DAY_MS, ME, Room
from storage.bookings import LAB, NOW, Books


@pytest.fixture
def room(database: Database, books: Books, tmp_path: Path) -> Room:
    """Return assets of one workspace, which has none yet."""
    books.open()
    return Room(database, tmp_path / "blobs")


async def fault_of(work: Coroutine[Any, Any, Any]) -> AssetFault:
    """Return the fault of what must fail."""
    with pytest.raises(AssetFaultError) as raised:
        await work
    return raised.value.fault


@pytest.mark.req("J-14")
def test_blocked_bytes_are_refused_and_removed(database: Database, books: Books, tmp_path: Path, run: Run) -> None:
    """Bytes on the list are not an asset, neither sent nor by their hash; none are left, and the log says so."""
    books.open()
    digest = blake3(b"bad").hexdigest()
    room = Room(database, tmp_path / "blobs", [digest])

    async def check() -> None:
        assert await fault_of(room.send(b"bad")) == ContentBlocked()
        assert room.lying() == []
        assert await fault_of(room.assets.add_known(ME, digest, NewAsset())) == ContentBlocked()
        assert not await room.assets.knows(ME, digest)
        assert room.seen == [ContentRefused(LAB, digest, "the hash is on the list")] * 2
        assert (await room.send(b"good")).size == 4

    run(check())
    assert [path.read_bytes() for path in room.lying()] == [b"good"]


@pytest.mark.req("J-14")
def test_expired_asset_is_not_found(room: Room, run: Run) -> None:
    """When its time is up, an asset is not found by id, hash or name, and its bytes go."""

    async def check() -> None:
        asset = await room.send(b"short", expires_in=60)
        assert asset.expires_at == NOW + 60_000
        room.now_ms += 60_000
        assert await fault_of(room.assets.find(ME, asset.id)) == AssetNotFound()
        assert await fault_of(room.assets.add_known(ME, asset.blob, NewAsset())) == BlobNotFound()
        assert await room.files.forget_expired() == 1
        room.now_ms = int(room.lying()[0].stat().st_mtime * 1000) + 2 * DAY_MS
        for _ in FAN_OUT:
            await room.sweeper.sweep()

    run(check())
    assert room.lying() == []


@pytest.mark.req("J-14")
def test_asset_without_its_bytes_is_not_sent(room: Room, run: Run) -> None:
    """What cannot be sent whole is not begun."""

    async def check() -> None:
        asset = await room.send(b"whole")
        assert await room.assets.find_whole(ME, asset.id) == asset
        (file,) = room.lying()
        file.unlink()
        with pytest.raises(FaultError) as lost:
            await room.assets.find_whole(ME, asset.id)
        file.write_bytes(b"half")
        with pytest.raises(FaultError) as damaged:
            await room.assets.find_whole(ME, asset.id)
        words = [getattr(error.value.fault, "detail", "") for error in (lost, damaged)]
        assert [word.partition(".")[0] for word in words] == [
            "The stored bytes are lost",
            "The stored bytes are damaged, and are not sent",
        ]

    run(check())


@pytest.mark.req("S-08", "J-14")
@pytest.mark.parametrize("lost", ["damaged", "missing"])
def test_lost_bytes_are_not_known_until_they_are_sent_again(room: Room, lost: str, run: Run) -> None:
    """Nobody makes an asset of bytes that cannot be had; anyone who sends them mends what others have of them."""

    async def check() -> None:
        asset = await room.send(b"whole")
        assert await room.assets.knows(ME, asset.blob)
        (file,) = room.lying()
        if lost == "damaged":
            flip(file, 2)
        else:
            file.unlink()
        assert not await room.assets.knows(ME, asset.blob)
        assert await fault_of(room.assets.add_known(ME, asset.blob, NewAsset("b.png"))) == BlobNotFound()
        await room.send(b"whole", "again.png")
        assert await room.assets.knows(ME, asset.blob)
        assert (await room.assets.find_whole(ME, asset.id)).id == asset.id

    run(check())


@pytest.mark.req("J-14")
def test_references_are_bounded(room: Room, run: Run) -> None:
    """A thousand references are resolved, in a large workflow too; one more is refused."""

    async def check() -> None:
        asset = await room.send(b"one")
        one = {"__type": "core/ASSET", "info": {"id": asset.id}}
        inputs = {"a": [one] * REFERENCES_MAX}
        workflow = json.dumps({"1": {"class_type": "A", "inputs": inputs}}).encode()
        resolved = await room.assets.resolve(ME, NewJob(workflow))
        assert json.loads(resolved.workflow)["1"]["inputs"]["a"] == ["a.png"] * REFERENCES_MAX
        assert resolved.files == [asset.id]
        inputs["a"].append(one)
        with pytest.raises(JobFaultError) as raised:
            await room.assets.resolve(ME, NewJob(json.dumps({"1": {"class_type": "A", "inputs": inputs}}).encode()))
        assert isinstance(raised.value.fault, BadSubmission)

    run(check())


@pytest.mark.req("J-14")
def test_unavailable_database_is_observed_and_503(tmp_path: Path, run: Run) -> None:
    """It is observed, and the caller may try again."""

    async def check() -> None:
        database = open_database(f"sqlite:///{tmp_path}/none/books.db")
        room = Room(database, tmp_path / "blobs")
        for work in (room.assets.find(ME, "id"), room.assets.delete(ME, "id")):
            with pytest.raises(FaultError) as raised:
                await work
            assert isinstance(raised.value.fault, ServiceUnavailable)
        assert [type(seen) for seen in room.seen] == [DatabaseTrouble] * 2
        await database.close()

    run(check())
