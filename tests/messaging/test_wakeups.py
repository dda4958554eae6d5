"""Wake-ups: told soon, never at the expense of the publisher, and no more often than it matters."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from conftest import Run
from fairlead.messaging.wakeups import Topic, Wakeup
from messaging.conftest import NewMessaging
from waiting import until

RELEASED: Final = Wakeup(Topic.RUN_RELEASED, "lab", "run")
_FLOOD: Final = 50_000
_WAITING_MAX: Final = 10_000


class Heard:
    """A listener that keeps what it is told."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Wakeup]] = []

    def __call__(self, wakeups: Sequence[Wakeup]) -> None:
        """Keep a batch."""
        self.batches.append(wakeups)

    @property
    def wakeups(self) -> list[Wakeup]:
        """All of it."""
        return [wakeup for batch in self.batches for wakeup in batch]


async def turns() -> None:
    """Let everything happen that is due."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_every_listener_of_a_topic_is_woken_and_no_other(run: Run, messaging: NewMessaging) -> None:
    """A wake-up goes to all who listen to its topic, with its workspace and its id."""

    async def scene() -> None:
        wakeups = messaging().wakeups
        first, second, other = Heard(), Heard(), Heard()
        for topic, heard in ((Topic.RUN_RELEASED, first), (Topic.RUN_RELEASED, second), (Topic.JOB_RELEASED, other)):
            wakeups.listen(topic, heard)
        wakeups.publish(RELEASED)
        await until(lambda: bool(first.batches and second.batches))
        assert (first.wakeups, second.wakeups, other.wakeups) == ([RELEASED], [RELEASED], [])

    run(scene())


def test_publisher_does_not_wait_for_a_listener(run: Run, messaging: NewMessaging) -> None:
    """A listener runs in a turn of its own, also one that publishes in its turn."""

    async def scene() -> None:
        wakeups = messaging().wakeups
        heard = Heard()

        def listen(found: Sequence[Wakeup]) -> None:
            heard(found)
            if len(heard.batches) < 3:
                wakeups.publish(RELEASED)

        wakeups.listen(Topic.RUN_RELEASED, listen)
        wakeups.publish(RELEASED)
        assert heard.batches == []
        await until(lambda: len(heard.batches) == 3)

    run(scene())


def test_equal_wakeups_collapse_and_the_others_keep_their_order(run: Run, messaging: NewMessaging) -> None:
    """However often the same is published meanwhile, it is told once."""

    async def scene() -> None:
        wakeups = messaging().wakeups
        heard = Heard()
        wakeups.listen(Topic.RUN_RELEASED, heard)
        several = [Wakeup(Topic.RUN_RELEASED, "lab", str(number)) for number in range(3)]
        for _ in range(1_000):
            for wakeup in several:
                wakeups.publish(wakeup)
        await turns()
        assert heard.batches == [tuple(several)]

    run(scene())


def test_number_of_wakeups_that_wait_is_bounded(run: Run, messaging: NewMessaging) -> None:
    """What does not fit is lost, and publishing goes on: the next look finds it."""

    async def scene() -> None:
        wakeups = messaging().wakeups
        heard = Heard()
        wakeups.listen(Topic.RUN_RELEASED, heard)
        for number in range(_FLOOD):
            wakeups.publish(Wakeup(Topic.RUN_RELEASED, "lab", str(number)))
        await turns()
        assert 1 <= len(heard.wakeups) <= _WAITING_MAX
        wakeups.publish(RELEASED)
        await turns()
        assert heard.wakeups[-1] == RELEASED

    run(scene())


def test_listener_that_fails_harms_nobody(run: Run, messaging: NewMessaging) -> None:
    """Neither the publisher nor its neighbour notices; the event loop is told of the error."""

    async def scene() -> None:
        wakeups = messaging().wakeups
        heard, errors = Heard(), list[Any]()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))

        def fail(_: Sequence[Wakeup]) -> None:
            raise ValueError

        wakeups.listen(Topic.RUN_RELEASED, fail)
        wakeups.listen(Topic.RUN_RELEASED, heard)
        for _ in range(2):
            wakeups.publish(RELEASED)
            await turns()
        assert heard.wakeups == [RELEASED, RELEASED]
        assert [type(error) for error in errors] == [ValueError, ValueError]

    run(scene())


def test_listener_that_has_left_hears_nothing(run: Run, messaging: NewMessaging) -> None:
    """What waits for a listener when it leaves is forgotten, and leaving twice changes nothing."""

    async def scene() -> None:
        wakeups = messaging().wakeups
        gone, stays = Heard(), Heard()
        leave = wakeups.listen(Topic.CONFIGURATION_CHANGED, gone)
        wakeups.listen(Topic.CONFIGURATION_CHANGED, stays)
        changed = Wakeup(Topic.CONFIGURATION_CHANGED, "lab")
        wakeups.publish(changed)
        leave()
        leave()
        wakeups.publish(Wakeup(Topic.CONFIGURATION_CHANGED, "elsewhere"))
        await turns()
        assert gone.wakeups == []
        assert stays.wakeups == [changed, Wakeup(Topic.CONFIGURATION_CHANGED, "elsewhere")]

    run(scene())
