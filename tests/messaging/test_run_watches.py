"""Watches of runs: told of changes of their run, however many, and of nothing else."""

import asyncio
from typing import Final

from conftest import Run
from fairlead.domain.runs.queue import RunChanged
from messaging.conftest import NewMessaging

CLAIMED: Final = RunChanged("lab", "run", has_ended=False)
ENDED: Final = RunChanged("lab", "run", has_ended=True)
_LONG: Final = 30.0
_SHORT: Final = 0.01


def test_every_watch_of_a_run_hears_of_its_change(run: Run, messaging: NewMessaging) -> None:
    """All who wait for a run are woken by its change."""

    async def scene() -> None:
        hub = messaging().events
        watches = [hub.watch_run("lab", "run") for _ in range(3)]
        waits = [asyncio.ensure_future(watch.wait(_LONG)) for watch in watches]
        await asyncio.sleep(0)
        hub.publish_run(CLAIMED)
        assert await asyncio.gather(*waits) == [CLAIMED] * 3

    run(scene())


def test_watch_hears_nothing_of_other_runs_and_workspaces(run: Run, messaging: NewMessaging) -> None:
    """Neither another run nor a run of the same id in another workspace is told."""

    async def scene() -> None:
        hub = messaging().events
        watch = hub.watch_run("lab", "run")
        hub.publish_run(RunChanged("lab", "another", has_ended=True))
        hub.publish_run(RunChanged("elsewhere", "run", has_ended=True))
        assert await watch.wait(_SHORT) is None

    run(scene())


def test_changes_between_two_waits_are_heard_once_as_the_newest(run: Run, messaging: NewMessaging) -> None:
    """A change while nobody waits is not missed; of several the newest is told."""

    async def scene() -> None:
        hub = messaging().events
        watch = hub.watch_run("lab", "run")
        hub.publish_run(CLAIMED)
        hub.publish_run(ENDED)
        assert await watch.wait(_LONG) == ENDED
        assert await watch.wait(_SHORT) is None

    run(scene())


def test_closed_watch_ends_its_wait_and_hears_nothing_more(run: Run, messaging: NewMessaging) -> None:
    """Closing, also twice, ends the wait; what happens afterwards is published for nobody."""

    async def scene() -> None:
        hub = messaging().events
        watch = hub.watch_run("lab", "run")
        waiting = asyncio.ensure_future(watch.wait(_LONG))
        await asyncio.sleep(0)
        watch.close()
        watch.close()
        assert await waiting is None
        hub.publish_run(ENDED)
        assert await watch.wait(_SHORT) is None

    run(scene())


def test_watch_of_a_run_outlives_the_stop_of_the_hub(run: Run, messaging: NewMessaging) -> None:
    """While the server stops, its jobs still wait for the runs of their partner nodes."""

    async def scene() -> None:
        hub = messaging().events
        watch = hub.watch_run("lab", "run")
        hub.close()
        hub.publish_run(ENDED)
        assert await watch.wait(_LONG) == ENDED

    run(scene())
