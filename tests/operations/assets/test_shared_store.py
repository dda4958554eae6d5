"""Whether a server's store is the installation's: found out at its start, also by servers that start at once (M-05)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.observing.blobs import BlobStoreProven, BlobStoreUnproven
from fairlead.operations.assets.shared_store import ForeignStoreError, SharedStore, adopt_store, look_at_store
from fairlead.storage.blobs.gate import StoreGate, StoreState
from fairlead.storage.blobs.opening import local_blobs
from fairlead.storage.blobs.store import BlobMissingError, BlobsUnavailableError, StoredBlobs, StoreUnprovenError
from fairlead.storage.db.database import Database

_NAME = "0" * 64


class Place:
    """A server's view of a folder: its blobs, what proves them, and what that has observed."""

    def __init__(self, database: Database, folder: Path, *, is_private: bool = False) -> None:
        """Look at a folder, which is made."""
        self.seen: list[Any] = []
        self.blobs = local_blobs(folder, gate=StoreGate())
        self.store = SharedStore(database, self.blobs, Clock(), self.seen.append, is_private=is_private)

    async def proven(self) -> StoreState:
        """Prove the store; what it is."""
        await self.store.prove()
        return self.blobs.gate.state


async def _both(*places: Place) -> list[StoreState]:
    return list(await asyncio.gather(*(place.proven() for place in places)))


@pytest.mark.req("M-05")
def test_servers_that_start_at_once_agree_on_one_store(database: Database, tmp_path: Path, run: Run) -> None:
    """Those that share a folder have both the right one; of those with a folder each, only one has."""
    here = [Place(database, tmp_path / "shared") for _ in range(3)]
    assert run(_both(*here)) == [StoreState.OURS] * 3
    assert [type(place.seen[0]) for place in here] == [BlobStoreProven] * 3
    other = Place(database, tmp_path / "other")
    assert run(other.proven()) is StoreState.UNMARKED
    assert [type(one) for one in other.seen] == [BlobStoreUnproven]


@pytest.mark.req("M-05")
def test_only_one_of_two_new_folders_is_the_installations(database: Database, tmp_path: Path, run: Run) -> None:
    """Whichever is recorded first; the other one is known to be wrong though its server started at the same moment."""
    places = [Place(database, tmp_path / name) for name in ("a", "b")]
    assert sorted(run(_both(*places))) == [StoreState.OURS, StoreState.UNMARKED]


@pytest.mark.req("M-05")
def test_nothing_is_changed_in_a_store_that_is_not_proven(database: Database, tmp_path: Path, run: Run) -> None:
    """No blob is written, removed or called missing there; one that it has is read."""
    run(Place(database, tmp_path / "right").proven())
    kept = run(local_blobs(tmp_path / "wrong").put(b"kept before", 100))
    wrong = Place(database, tmp_path / "wrong")
    assert run(wrong.proven()) is StoreState.UNMARKED

    async def read(blobs: StoredBlobs, name: str) -> bytes:
        return b"".join([piece async for piece in await blobs.read(name, 0, 100)])

    assert run(read(wrong.blobs, kept.name)) == b"kept before"
    for change in (
        lambda: wrong.blobs.put(b"new", 100),
        lambda: wrong.blobs.delete(kept.name),
        lambda: read(wrong.blobs, _NAME),
        lambda: wrong.blobs.check(_NAME, 1),
        lambda: wrong.blobs.local_path(_NAME),
        wrong.blobs.check_writable,
    ):
        with pytest.raises(StoreUnprovenError):
            run(change())
    with pytest.raises(BlobMissingError):
        run(read(local_blobs(tmp_path / "right"), _NAME))


def test_store_of_another_installation_is_not_taken(database: Database, tmp_path: Path, run: Run) -> None:
    """A database that has recorded none takes no store with the marker of another, and sweeps nothing there."""
    run(local_blobs(tmp_path / "shared").markers.establish("of-another"))
    place = Place(database, tmp_path / "shared")
    assert run(place.proven()) is StoreState.FOREIGN
    assert run(look_at_store(database, place.blobs)) is StoreState.FOREIGN


def test_private_store_is_marked_again(database: Database, tmp_path: Path, run: Run) -> None:
    """Where there is no other store that could be meant, a lost marker keeps nobody from working."""
    run(Place(database, tmp_path / "first", is_private=True).proven())
    again = Place(database, tmp_path / "second", is_private=True)
    assert run(again.proven()) is StoreState.OURS
    assert again.seen[0].was_marked


@pytest.mark.req("M-05")
def test_adopted_store_takes_the_place_of_the_one_before(database: Database, tmp_path: Path, run: Run) -> None:
    """Those that look at the one before are told at their next look."""
    before = Place(database, tmp_path / "before")
    run(before.proven())
    blobs = local_blobs(tmp_path / "after")
    assert run(look_at_store(database, blobs)) is StoreState.UNMARKED
    run(adopt_store(database, blobs, Clock()))
    assert run(look_at_store(database, blobs)) is StoreState.OURS
    assert run(Place(database, tmp_path / "before").proven()) is StoreState.FOREIGN
    with pytest.raises(ForeignStoreError):
        run(adopt_store(database, local_blobs(tmp_path / "before"), Clock()))
    run(adopt_store(database, local_blobs(tmp_path / "before"), Clock(), from_another=True))
    assert run(Place(database, tmp_path / "before").proven()) is StoreState.OURS


def test_store_that_is_away_is_not_known_until_it_is_back(
    database: Database, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a start nothing is written; one that was proven before stays so, and says itself what it cannot do."""
    place = Place(database, tmp_path / "blobs")

    async def away() -> None:
        raise BlobsUnavailableError("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(place.blobs.markers, "read", away)
        assert run(place.proven()) is StoreState.UNKNOWN
        assert "connection refused" in place.blobs.gate.reason
    assert run(place.proven()) is StoreState.OURS
    assert [type(one) for one in place.seen] == [BlobStoreUnproven, BlobStoreProven]
