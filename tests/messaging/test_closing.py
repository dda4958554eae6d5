"""What is closed leaves nothing behind, in any implementation of messaging."""

import asyncio
import gc
import weakref
from collections.abc import Sequence

from conftest import Run
from fairlead.domain.jobs.events import EventEnvelope, Started
from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.wakeups import Topic, Wakeup
from messaging.conftest import NewMessaging


class _Listener:
    def listen(self, _: Sequence[Wakeup]) -> None:
        """Listen, and do nothing."""


def test_closed_subscriptions_watches_and_listeners_are_forgotten(run: Run, messaging: NewMessaging) -> None:
    """Neither they nor what waited for them are kept, though all else goes on."""

    async def scene() -> None:
        ports = messaging()
        listener = _Listener()
        subscription, watch = ports.events.subscribe("lab"), ports.events.watch_run("lab", "run")
        leave = ports.wakeups.listen(Topic.RUN_RELEASED, listener.listen)
        ports.events.publish(EventEnvelope("lab", "job", "job", 0, Started()))
        ports.events.publish_run(RunChanged("lab", "run", has_ended=True))
        ports.wakeups.publish(Wakeup(Topic.RUN_RELEASED, "lab", "run"))
        subscription.close()
        watch.close()
        leave()
        kept = [weakref.ref(each) for each in (subscription, watch, listener)]
        del subscription, watch, leave, listener
        await asyncio.sleep(0.01)
        gc.collect()
        assert [ref() for ref in kept] == [None] * 3

    run(scene())
