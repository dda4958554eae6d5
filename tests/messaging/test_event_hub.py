"""The event hub: events of jobs go to all who watch, in order, and never at the expense of anybody else."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.domain.faults import ConcurrencyLimitExceeded, FaultError
from fairlead.domain.jobs.events import (
    EventEnvelope,
    Executed,
    Executing,
    Finished,
    Interrupted,
    JobEvent,
    Place,
    Preview,
    Progress,
    ProgressText,
    QueueChanged,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.messaging.event_hub import Broadcast, CloseReason, EventHub, EventSubscription, HubLimits
from messaging.conftest import NewMessaging

pytestmark = pytest.mark.req("C-08")

Scene = Callable[[], Any]
JOB: Final = "a job"
FEW: Final = HubLimits(
    per_workspace=2,
    in_total=3,
    waiting=8,
    waiting_bytes=100_000,
    coalesce_above=2,
    coalesce_above_bytes=50_000,
    ended_seconds=0.01,
)


def place(node: str) -> Place:
    """A node of the workflow itself."""
    return Place(node, node)


def envelope(event: JobEvent, job: str | None = JOB, workspace: str = "lab") -> EventEnvelope:
    """Something that happened."""
    return EventEnvelope(workspace, job, job, 0, event)


def preview(size: int, node: str = "7") -> Preview:
    """A preview of so many bytes."""
    return Preview(place(node), "image/png", bytes(size))


def publish(hub: EventHub, *events: JobEvent, job: str | None = JOB, workspace: str = "lab") -> None:
    """Publish what has happened to a job."""
    for event in events:
        hub.publish(envelope(event, job, workspace))


async def waiting(subscription: EventSubscription) -> list[Broadcast]:
    """Everything that waits, in order."""
    found: list[Broadcast] = []
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(0):
                taken = await subscription.next()
            if not taken:
                break
            found.extend(taken)
    return found


async def waiting_events(subscription: EventSubscription) -> list[JobEvent]:
    """What has happened, as it waits to be told."""
    return [broadcast.envelope.event for broadcast in await waiting(subscription) if broadcast.envelope is not None]


def progress_names(broadcasts: Sequence[Broadcast]) -> list[list[tuple[str, bool]]]:
    """Which nodes each broadcast has progress of, and whether they run."""
    return [[(one.place.node, one.is_running) for one in broadcast.progress] for broadcast in broadcasts]


def test_subscribers_hear_of_their_workspace_alone(run: Run, messaging: NewMessaging) -> None:
    """All who watch a workspace are told the same, in order, and nobody else is told anything."""

    async def scene() -> None:
        hub = messaging().events
        first, second, other = (hub.subscribe(name) for name in ("lab", "lab", "elsewhere"))
        said: list[JobEvent] = [Started(), Executing(place("1")), Executed(place("1"), {"text": ["x"]}), Succeeded()]
        publish(hub, *said)
        assert await waiting_events(first) == await waiting_events(second) == said
        assert await waiting_events(other) == []

    run(scene())


def test_waiting_subscriber_is_woken(run: Run, messaging: NewMessaging) -> None:
    """Anyone who waits for events is told of them as soon as they are there."""

    async def scene() -> None:
        hub = messaging().events
        subscription = hub.subscribe("lab")
        next_one = asyncio.ensure_future(subscription.next())
        await asyncio.sleep(0)
        publish(hub, Started())
        assert len(await next_one) == 1

    run(scene())


def test_closed_subscription_is_forgotten(run: Run, messaging: NewMessaging) -> None:
    """A subscription that is closed is forgotten, and ends anyone who waits for it."""

    async def scene() -> None:
        hub = messaging(FEW).events
        for _ in range(10):
            hub.subscribe("lab").close()
        subscription = hub.subscribe("lab")
        next_one = asyncio.ensure_future(subscription.next())
        await asyncio.sleep(0)
        subscription.close()
        subscription.close()
        publish(hub, Started())
        assert await next_one == []
        assert subscription.ended.result() is CloseReason.CLOSED

    run(scene())


def test_number_of_subscribers_is_bounded(run: Run, messaging: NewMessaging) -> None:
    """Watchers are counted, in a workspace and in all; one more is refused, and may come when one has left."""

    async def scene() -> None:
        hub = messaging(FEW).events
        first = hub.subscribe("lab")
        hub.subscribe("lab")
        with pytest.raises(FaultError) as caught:
            hub.subscribe("lab")
        assert caught.value.fault == ConcurrencyLimitExceeded(2, 2, what="sockets")
        hub.subscribe("elsewhere")
        with pytest.raises(FaultError) as caught:
            hub.subscribe("elsewhere")
        assert caught.value.fault == ConcurrencyLimitExceeded(3, 3, what="sockets")
        first.close()
        hub.subscribe("lab")

    run(scene())


def test_stopping_server_ends_every_subscription(run: Run, messaging: NewMessaging) -> None:
    """When the hub closes, every subscription ends, and so does one that comes later."""

    async def scene() -> None:
        hub = messaging().events
        before = hub.subscribe("lab")
        hub.close()
        after = hub.subscribe("lab")
        for subscription in (before, after):
            assert await subscription.next() == []
            assert subscription.ended.result() is CloseReason.STOPPED

    run(scene())


def test_slow_subscriber_is_told_the_newest_preview_and_all_that_matters(run: Run, messaging: NewMessaging) -> None:
    """Who is behind is told the newest preview, text and progress of each node, and everything that must be told."""

    async def scene() -> None:
        hub = messaging(FEW).events
        subscription = hub.subscribe("lab")
        must: list[JobEvent] = [Started(), Executing(place("1")), Executing(place("2"))]
        publish(hub, *must)
        for step in range(1, 50):
            publish(hub, Progress(place("1"), step, 50), Progress(place("2"), step, 50), preview(step, "1"))
        publish(hub, ProgressText(place("1"), "first"), ProgressText(place("1"), "second"))
        assert await waiting_events(subscription) == [
            *must,
            Progress(place("1"), 49, 50),
            Progress(place("2"), 49, 50),
            preview(49, "1"),
            ProgressText(place("1"), "second"),
        ]

    run(scene())


def test_subscriber_that_keeps_up_is_told_every_step(run: Run, messaging: NewMessaging) -> None:
    """Steps that come at once are all told to who reads them."""

    async def scene() -> None:
        hub = messaging().events
        subscription = hub.subscribe("lab")
        steps: list[JobEvent] = [Progress(place("1"), step, 20) for step in range(20)]
        publish(hub, *steps)
        assert await waiting_events(subscription) == steps

    run(scene())


def test_previews_are_dropped_before_anything_else(run: Run, messaging: NewMessaging) -> None:
    """Where there is no room, previews of any node go first, the oldest before the others."""

    async def scene() -> None:
        hub = messaging(FEW).events
        subscription = hub.subscribe("lab")
        publish(hub, Started(), *(preview(40_000, node) for node in ("1", "2", "3")), Succeeded())
        assert await waiting_events(subscription) == [
            Started(),
            preview(40_000, "2"),
            preview(40_000, "3"),
            Succeeded(),
        ]
        assert not subscription.ended.done()

    run(scene())


@pytest.mark.parametrize(
    "too_much", [[Started()] * 9, [Executed(place("1"), {"text": ["x" * 40_000]})] * 3], ids=["messages", "bytes"]
)
def test_subscriber_that_is_too_slow_is_closed(run: Run, messaging: NewMessaging, too_much: list[JobEvent]) -> None:
    """A subscriber that is too far behind is ended, and nothing is kept for it; its neighbour does not notice."""

    async def scene() -> None:
        hub = messaging(FEW).events
        slow, quick = hub.subscribe("lab"), hub.subscribe("lab")
        heard = []
        for event in too_much:
            publish(hub, event)
            heard += await waiting_events(quick)
        assert slow.ended.result() is CloseReason.TOO_SLOW
        assert await slow.next() == []
        assert heard == too_much
        hub.subscribe("lab")

    run(scene())


def test_preview_larger_than_the_buffer_is_dropped(run: Run, messaging: NewMessaging) -> None:
    """It is dropped, and nobody is closed for it."""

    async def scene() -> None:
        hub = messaging(FEW).events
        subscription = hub.subscribe("lab")
        publish(hub, Started(), preview(1_000_000), Succeeded())
        assert await waiting_events(subscription) == [Started(), Succeeded()]

    run(scene())


def test_batch_of_events_is_bounded(run: Run, messaging: NewMessaging) -> None:
    """What is taken at once is limited, so that a connection can say that it is full; nothing is lost by it."""

    async def scene() -> None:
        hub = messaging(HubLimits(batch_bytes=10_000)).events
        subscription = hub.subscribe("lab")
        said: list[JobEvent] = [Executed(place(str(node)), {"text": ["x" * 4_000]}) for node in range(10)]
        publish(hub, *said)
        first = await subscription.next()
        assert 2 <= len(first) <= 3
        assert len(first) + len(await waiting(subscription)) == len(said)

    run(scene())


def test_end_of_a_job_is_told_with_the_status_that_follows(run: Run, messaging: NewMessaging) -> None:
    """That a job is over is told with the status that follows its end."""

    async def scene() -> None:
        hub = messaging().events
        subscription = hub.subscribe("lab")
        publish(hub, Succeeded())
        publish(hub, QueueChanged(1), job=None)
        publish(hub, QueueChanged(0), job=None)
        assert [list(broadcast.ended_jobs) for broadcast in await waiting(subscription)] == [[], [JOB], []]

    run(scene())


def test_end_of_a_job_is_told_once_without_a_status(run: Run, messaging: NewMessaging) -> None:
    """Where no status follows, the last word comes without it, once."""

    async def scene() -> None:
        hub = messaging(FEW).events
        subscription = hub.subscribe("lab")
        publish(hub, Interrupted(None, None, []))
        await subscription.next()
        (last,) = await subscription.next()
        assert (last.envelope, list(last.ended_jobs)) == (None, [JOB])
        publish(hub, QueueChanged(0), job=None)
        (status,) = await subscription.next()
        assert list(status.ended_jobs) == []

    run(scene())


def test_newcomer_is_told_which_node_is_running(run: Run, messaging: NewMessaging) -> None:
    """Who comes in the middle is told the node that began last, of each job, until the job ends."""

    async def scene() -> None:
        hub = messaging().events
        publish(hub, Started(), Executing(place("1")), Finished(place("1")), Executing(place("2")))
        publish(hub, Started(), job="another")
        publish(hub, Executing(place("9")), workspace="elsewhere", job="a third")
        assert hub.subscribe("lab").running == [envelope(Executing(place("2")))]
        publish(hub, Succeeded())
        assert hub.subscribe("lab").running == []

    run(scene())


def test_jobs_with_one_public_id_are_told_apart(run: Run, messaging: NewMessaging) -> None:
    """What is remembered of a job is its own, and its last word goes to its workspace, though both ids are the same."""

    async def scene() -> None:
        hub = messaging(FEW).events
        mine, theirs = hub.subscribe("lab"), hub.subscribe("elsewhere")
        for workspace, own in (("lab", "mine"), ("elsewhere", "theirs")):
            picture = Preview(place("1"), "image/png", own.encode())
            for event in (Started(), Executing(place("1")), picture):
                hub.publish(EventEnvelope(workspace, own, JOB, 0, event))
        assert [one.job_id for one in hub.subscribe("elsewhere").running] == ["theirs"]
        await waiting(mine)
        await waiting(theirs)
        hub.publish(EventEnvelope("lab", "mine", JOB, 0, Interrupted(None, None, [])))
        hub.publish(EventEnvelope("lab", None, None, 0, QueueChanged(0)))
        assert [list(one.ended_jobs) for one in await waiting(mine)] == [[], [JOB]]
        assert hub.newest_preview("mine") is None
        preview = hub.newest_preview("theirs")
        assert preview is not None
        assert preview.image == b"theirs"
        hub.publish(EventEnvelope("elsewhere", "theirs", JOB, 0, Progress(place("1"), 1, 2)))
        ((broadcast,),) = [await waiting(theirs)]
        assert (broadcast.envelope and broadcast.envelope.public_id, progress_names([broadcast])) == (
            JOB,
            [[("1", True)]],
        )

    run(scene())


def test_progress_names_only_nodes_that_run(run: Run, messaging: NewMessaging) -> None:
    """Each change names its node first, then those that run beside it; a node that is blocked stops running."""

    async def scene() -> None:
        hub = messaging().events
        subscription = hub.subscribe("lab")
        publish(hub, Started(), Executing(place("1")), Executing(place("2")), Progress(place("1"), 1, 4))
        publish(hub, Finished(place("1")), Stopped(place("2"), "Save", "No."), Stopped(place("3"), "Save", "No."))
        broadcasts = await waiting(subscription)
        assert progress_names(broadcasts) == [
            [],
            [("1", True)],
            [("2", True), ("1", True)],
            [("1", True), ("2", True)],
            [("1", False), ("2", True)],
            [("2", False)],
            [],
        ]
        assert [(one.value, one.most) for one in (broadcasts[3].progress[0], broadcasts[4].progress[0])] == [
            (1, 4),
            (4, 4),
        ]

    run(scene())


def test_progress_message_names_a_bounded_number_of_nodes(run: Run, messaging: NewMessaging) -> None:
    """However many nodes a job has and however many run at once, a message names a bounded number of them."""

    async def scene() -> None:
        hub = messaging().events
        subscription = hub.subscribe("lab")
        broadcasts: list[Broadcast] = []
        for make in (Executing, lambda where: Progress(where, 1, 2), Finished):
            for node in range(1_000):
                publish(hub, make(place(str(node))))
            broadcasts += await waiting(subscription)
        assert len(broadcasts) == 3_000
        assert max(len(broadcast.progress) for broadcast in broadcasts) <= 9

    run(scene())
