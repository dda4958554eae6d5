"""News of jobs: told to everybody who watches, in order, and never at the expense of anybody else."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest

from conftest import Run
from fairlead.domain.faults import ConcurrencyLimitExceeded, FaultError
from fairlead.domain.jobs.events import (
    Executed,
    Executing,
    Finished,
    Interrupted,
    Place,
    Progress,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.domain.jobs.news import News, Preview, ProgressText, QueueChanged, Tiding
from fairlead.operations.jobs.newsroom import Bulletin, Ending, NewsLimits, Newsroom, Subscription

pytestmark = pytest.mark.req("C-08")

Scene = Callable[[], Any]
JOB: Final = "a job"
FEW: Final = NewsLimits(
    per_workspace=2, in_all=3, waiting=8, waiting_bytes=100_000, eager=2, eager_bytes=50_000, last_word_seconds=0.01
)


def place(node: str) -> Place:
    """A node of the workflow itself."""
    return Place(node, node)


def news(tiding: Tiding, job: str | None = JOB, workspace: str = "lab") -> News:
    """Something that happened."""
    return News(workspace, job, job, 0, tiding)


def preview(size: int, node: str = "7") -> Preview:
    """A preview of so many bytes."""
    return Preview(place(node), "image/png", bytes(size))


def publish(newsroom: Newsroom, *tidings: Tiding, job: str | None = JOB, workspace: str = "lab") -> None:
    """Publish what has happened to a job."""
    for tiding in tidings:
        newsroom.publish(news(tiding, job, workspace))


async def waiting(subscription: Subscription) -> list[Bulletin]:
    """Everything that waits, in order."""
    found: list[Bulletin] = []
    with suppress(TimeoutError):
        while True:
            async with asyncio.timeout(0):
                taken = await subscription.next()
            if not taken:
                break
            found.extend(taken)
    return found


async def told(subscription: Subscription) -> list[Tiding]:
    """What has happened, as it waits to be told."""
    return [bulletin.news.tiding for bulletin in await waiting(subscription) if bulletin.news is not None]


def named(bulletins: Sequence[Bulletin]) -> list[list[tuple[str, bool]]]:
    """Which nodes each bulletin has progress of, and whether they run."""
    return [[(one.place.node, one.is_running) for one in bulletin.progress] for bulletin in bulletins]


def test_subscribers_hear_of_their_workspace_alone(run: Run) -> None:
    """All who watch a workspace are told the same, in order, and nobody else is told anything."""

    async def scene() -> None:
        newsroom = Newsroom()
        first, second, other = (newsroom.subscribe(name) for name in ("lab", "lab", "elsewhere"))
        said: list[Tiding] = [Started(), Executing(place("1")), Executed(place("1"), {"text": ["x"]}), Succeeded()]
        publish(newsroom, *said)
        assert await told(first) == await told(second) == said
        assert await told(other) == []

    run(scene())


def test_waiting_subscriber_is_woken(run: Run) -> None:
    """Anyone who waits for news is told of them as soon as they are there."""

    async def scene() -> None:
        newsroom = Newsroom()
        subscription = newsroom.subscribe("lab")
        next_one = asyncio.ensure_future(subscription.next())
        await asyncio.sleep(0)
        publish(newsroom, Started())
        assert len(await next_one) == 1

    run(scene())


def test_closed_subscription_is_forgotten(run: Run) -> None:
    """A subscription that is closed is forgotten, and ends anyone who waits for it."""

    async def scene() -> None:
        newsroom = Newsroom(FEW)
        for _ in range(10):
            newsroom.subscribe("lab").close()
        subscription = newsroom.subscribe("lab")
        next_one = asyncio.ensure_future(subscription.next())
        await asyncio.sleep(0)
        subscription.close()
        subscription.close()
        publish(newsroom, Started())
        assert await next_one == []
        assert subscription.ended.result() is Ending.CLOSED

    run(scene())


def test_number_of_subscribers_is_bounded(run: Run) -> None:
    """Watchers are counted, in a workspace and in all; one more is refused, and may come when one has left."""

    async def scene() -> None:
        newsroom = Newsroom(FEW)
        first = newsroom.subscribe("lab")
        newsroom.subscribe("lab")
        with pytest.raises(FaultError) as caught:
            newsroom.subscribe("lab")
        assert caught.value.fault == ConcurrencyLimitExceeded(2, 2, what="sockets")
        newsroom.subscribe("elsewhere")
        with pytest.raises(FaultError) as caught:
            newsroom.subscribe("elsewhere")
        assert caught.value.fault == ConcurrencyLimitExceeded(3, 3, what="sockets")
        first.close()
        newsroom.subscribe("lab")

    run(scene())


def test_stopping_server_ends_every_subscription(run: Run) -> None:
    """When the newsroom closes, every subscription ends, and so does one that comes later."""

    async def scene() -> None:
        newsroom = Newsroom()
        before = newsroom.subscribe("lab")
        newsroom.close()
        after = newsroom.subscribe("lab")
        for subscription in (before, after):
            assert await subscription.next() == []
            assert subscription.ended.result() is Ending.STOPPED

    run(scene())


def test_slow_subscriber_is_told_the_newest_preview_and_all_that_matters(run: Run) -> None:
    """Who is behind is told the newest preview, text and progress of each node, and everything that must be told."""

    async def scene() -> None:
        newsroom = Newsroom(FEW)
        subscription = newsroom.subscribe("lab")
        must: list[Tiding] = [Started(), Executing(place("1")), Executing(place("2"))]
        publish(newsroom, *must)
        for step in range(1, 50):
            publish(newsroom, Progress(place("1"), step, 50), Progress(place("2"), step, 50), preview(step, "1"))
        publish(newsroom, ProgressText(place("1"), "first"), ProgressText(place("1"), "second"))
        assert await told(subscription) == [
            *must,
            Progress(place("1"), 49, 50),
            Progress(place("2"), 49, 50),
            preview(49, "1"),
            ProgressText(place("1"), "second"),
        ]

    run(scene())


def test_subscriber_that_keeps_up_is_told_every_step(run: Run) -> None:
    """Steps that come at once are all told to who reads them."""

    async def scene() -> None:
        newsroom = Newsroom()
        subscription = newsroom.subscribe("lab")
        steps: list[Tiding] = [Progress(place("1"), step, 20) for step in range(20)]
        publish(newsroom, *steps)
        assert await told(subscription) == steps

    run(scene())


def test_previews_are_dropped_before_anything_else(run: Run) -> None:
    """Where there is no room, previews of any node go first, the oldest before the others."""

    async def scene() -> None:
        newsroom = Newsroom(FEW)
        subscription = newsroom.subscribe("lab")
        publish(newsroom, Started(), *(preview(40_000, node) for node in ("1", "2", "3")), Succeeded())
        assert await told(subscription) == [Started(), preview(40_000, "2"), preview(40_000, "3"), Succeeded()]
        assert not subscription.ended.done()

    run(scene())


@pytest.mark.parametrize(
    "too_much", [[Started()] * 9, [Executed(place("1"), {"text": ["x" * 40_000]})] * 3], ids=["messages", "bytes"]
)
def test_subscriber_that_is_too_slow_is_closed(run: Run, too_much: list[Tiding]) -> None:
    """Who is too far behind is told nothing more, and keeps nothing; his neighbour does not notice."""

    async def scene() -> None:
        newsroom = Newsroom(FEW)
        slow, quick = newsroom.subscribe("lab"), newsroom.subscribe("lab")
        heard = []
        for tiding in too_much:
            publish(newsroom, tiding)
            heard += await told(quick)
        assert slow.ended.result() is Ending.TOO_SLOW
        assert await slow.next() == []
        assert heard == too_much
        newsroom.subscribe("lab")

    run(scene())


def test_preview_larger_than_the_buffer_is_dropped(run: Run) -> None:
    """It is dropped, and nobody is closed for it."""

    async def scene() -> None:
        newsroom = Newsroom(FEW)
        subscription = newsroom.subscribe("lab")
        publish(newsroom, Started(), preview(1_000_000), Succeeded())
        assert await told(subscription) == [Started(), Succeeded()]

    run(scene())


def test_batch_of_events_is_bounded(run: Run) -> None:
    """What is taken at once is limited, so that a connection can say that it is full; nothing is lost by it."""

    async def scene() -> None:
        newsroom = Newsroom(NewsLimits(batch_bytes=10_000))
        subscription = newsroom.subscribe("lab")
        said: list[Tiding] = [Executed(place(str(node)), {"text": ["x" * 4_000]}) for node in range(10)]
        publish(newsroom, *said)
        first = await subscription.next()
        assert 2 <= len(first) <= 3
        assert len(first) + len(await waiting(subscription)) == len(said)

    run(scene())


def test_end_of_a_job_is_told_with_the_status_that_follows(run: Run) -> None:
    """That a job is over is told with the status that follows its end."""

    async def scene() -> None:
        newsroom = Newsroom()
        subscription = newsroom.subscribe("lab")
        publish(newsroom, Succeeded())
        publish(newsroom, QueueChanged(1), job=None)
        publish(newsroom, QueueChanged(0), job=None)
        assert [list(bulletin.over) for bulletin in await waiting(subscription)] == [[], [JOB], []]

    run(scene())


def test_end_of_a_job_is_told_once_without_a_status(run: Run) -> None:
    """Where no status follows, the last word comes without it, once."""

    async def scene() -> None:
        newsroom = Newsroom(FEW)
        subscription = newsroom.subscribe("lab")
        publish(newsroom, Interrupted(None, None, []))
        await subscription.next()
        (last,) = await subscription.next()
        assert (last.news, list(last.over)) == (None, [JOB])
        publish(newsroom, QueueChanged(0), job=None)
        (status,) = await subscription.next()
        assert list(status.over) == []

    run(scene())


def test_newcomer_is_told_which_node_is_running(run: Run) -> None:
    """Who comes in the middle is told the node that began last, of each job, until the job ends."""

    async def scene() -> None:
        newsroom = Newsroom()
        publish(newsroom, Started(), Executing(place("1")), Finished(place("1")), Executing(place("2")))
        publish(newsroom, Started(), job="another")
        publish(newsroom, Executing(place("9")), workspace="elsewhere", job="a third")
        assert newsroom.subscribe("lab").running == [news(Executing(place("2")))]
        publish(newsroom, Succeeded())
        assert newsroom.subscribe("lab").running == []

    run(scene())


def test_jobs_with_one_public_id_are_told_apart(run: Run) -> None:
    """What is remembered of a job is its own, and its last word goes to its workspace, though both ids are the same."""

    async def scene() -> None:
        newsroom = Newsroom(FEW)
        mine, theirs = newsroom.subscribe("lab"), newsroom.subscribe("elsewhere")
        for workspace, own in (("lab", "mine"), ("elsewhere", "theirs")):
            picture = Preview(place("1"), "image/png", own.encode())
            for tiding in (Started(), Executing(place("1")), picture):
                newsroom.publish(News(workspace, own, JOB, 0, tiding))
        assert [one.job_id for one in newsroom.subscribe("elsewhere").running] == ["theirs"]
        await waiting(mine)
        await waiting(theirs)
        newsroom.publish(News("lab", "mine", JOB, 0, Interrupted(None, None, [])))
        newsroom.publish(News("lab", None, None, 0, QueueChanged(0)))
        assert [list(one.over) for one in await waiting(mine)] == [[], [JOB]]
        assert newsroom.newest_preview("mine") is None
        preview = newsroom.newest_preview("theirs")
        assert preview is not None
        assert preview.image == b"theirs"
        newsroom.publish(News("elsewhere", "theirs", JOB, 0, Progress(place("1"), 1, 2)))
        ((bulletin,),) = [await waiting(theirs)]
        assert (bulletin.news and bulletin.news.public_id, named([bulletin])) == (JOB, [[("1", True)]])

    run(scene())


def test_progress_names_only_nodes_that_run(run: Run) -> None:
    """Each change names its node first, then those that run beside it; a node that is blocked stops running."""

    async def scene() -> None:
        newsroom = Newsroom()
        subscription = newsroom.subscribe("lab")
        publish(newsroom, Started(), Executing(place("1")), Executing(place("2")), Progress(place("1"), 1, 4))
        publish(newsroom, Finished(place("1")), Stopped(place("2"), "Save", "No."), Stopped(place("3"), "Save", "No."))
        bulletins = await waiting(subscription)
        assert named(bulletins) == [
            [],
            [("1", True)],
            [("2", True), ("1", True)],
            [("1", True), ("2", True)],
            [("1", False), ("2", True)],
            [("2", False)],
            [],
        ]
        assert [(one.value, one.most) for one in (bulletins[3].progress[0], bulletins[4].progress[0])] == [
            (1, 4),
            (4, 4),
        ]

    run(scene())


def test_progress_message_names_a_bounded_number_of_nodes(run: Run) -> None:
    """However many nodes a job has and however many run at once, a message names a bounded number of them."""

    async def scene() -> None:
        newsroom = Newsroom()
        subscription = newsroom.subscribe("lab")
        bulletins: list[Bulletin] = []
        for make in (Executing, lambda where: Progress(where, 1, 2), Finished):
            for node in range(1_000):
                publish(newsroom, make(place(str(node))))
            bulletins += await waiting(subscription)
        assert len(bulletins) == 3_000
        assert max(len(bulletin.progress) for bulletin in bulletins) <= 9

    run(scene())


def test_number_of_remembered_jobs_is_bounded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many jobs under way are remembered, the newest."""

    async def scene() -> None:
        newsroom = Newsroom()
        for number in range(5):
            publish(newsroom, Started(), Executing(place("1")), job=f"job {number}")
        assert [one.job_id for one in newsroom.subscribe("lab").running] == ["job 3", "job 4"]

    monkeypatch.setattr("fairlead.operations.jobs.newsroom._JOBS_MAX", 2)
    run(scene())
