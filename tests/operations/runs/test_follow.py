"""Following queued runs that other servers execute (M-04)."""

import pytest

from conftest import Run
from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.observing.observations import DatabaseTrouble, Observation
from fairlead.operations.runs import follow as following
from fairlead.operations.runs.follow import RunFollower
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from storage.bookings import Books, admission, settlement

pytestmark = pytest.mark.req("M-04")


def test_watch_is_woken_by_what_another_server_writes_and_by_nothing_else(
    run: Run, database: Database, books: Books
) -> None:
    """Each change of the run that is watched is told once; one that is not watched is not looked for."""
    books.open(balance=1_000)
    books.write(admission(), admission("run-2"))
    hub, seen = LocalEventHub(), list[Observation]()
    follower = RunFollower(database, hub, seen.append)

    async def look() -> RunChanged | None:
        await follower.look()
        return await watch.wait(0)

    async def before() -> list[RunChanged | None]:
        return [await look(), await look()]

    watch = hub.watch_run("lab-id", "run-1")
    assert run(before()) == [RunChanged("lab-id", "run-1", has_ended=False), None]
    books.write(settlement("run-2"))
    assert run(look()) is None
    books.write(settlement())
    assert run(look()) == RunChanged("lab-id", "run-1", has_ended=True)
    watch.close()
    run(database.close())
    run(follower.look())
    assert seen == []


def test_runs_of_one_look_are_bounded(
    run: Run, database: Database, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many are watched, each look concerns the next of them, and all have their turn."""
    monkeypatch.setattr(following, "_RUNS_A_LOOK", 2)
    books.open(balance=1_000)
    names = [f"run-{number}" for number in range(5)]
    books.write(*(admission(name) for name in names))
    hub = LocalEventHub()
    follower = RunFollower(database, hub, lambda observation: pytest.fail(str(observation)))
    watches = [hub.watch_run("lab-id", name) for name in names]

    async def scene() -> list[int]:
        found = []
        for _ in range(3):
            await follower.look()
            found.append(sum([await watch.wait(0) is not None for watch in watches]))
        return found

    assert run(scene()) == [2, 2, 1]


def test_outage_of_the_database_is_observed(run: Run, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look goes on."""
    seen: list[Observation] = []
    hub = LocalEventHub()
    hub.watch_run("lab-id", "run-1")
    follower = RunFollower(database, hub, seen.append)

    async def refuse(_: object) -> None:
        raise DatabaseUnavailableError("away")

    monkeypatch.setattr(database, "read", refuse)
    run(follower.look())
    assert seen == [DatabaseTrouble("follow runs", "away")]
