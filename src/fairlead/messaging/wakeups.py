"""The port for wake-ups: a hint to look now at what would otherwise be found a little later.

What an implementation guarantees:

* Publishing never waits and never raises, whatever listeners and other servers do.
* Every listener of a topic, at every server, is called soon, each in a separate turn of its event loop.
* Equal wake-ups that wait for a listener are delivered once, and a bounded number waits. So to a listener a wake-up
  means: something has happened at least once.
* A wake-up may be lost, and may come late. Nothing may depend on it but time: a listener also looks in the database
  by itself, once a second or so.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec


class Topic(enum.StrEnum):
    """What there is to look at."""

    RUN_RELEASED = "run.released"
    """A queued run may be claimed."""
    RUN_CANCELLED = "run.cancelled"
    """A run under way is not wanted any more."""
    JOB_RELEASED = "job.released"
    """A job may be claimed."""
    JOB_CANCELLED = "job.cancelled"
    """A job under way is not wanted any more."""
    CONFIGURATION_CHANGED = "configuration.changed"
    """What servers remember of a workspace, such as its credentials, is out of date."""


class Wakeup(msgspec.Struct, frozen=True):
    """A topic, the workspace it is about, and the id of the run or job, where it is about one.

    `pool` says which servers may claim what was released.
    """

    topic: Topic
    workspace_id: str
    id: str = ""
    pool: str = ""


Listener: TypeAlias = Callable[[Sequence[Wakeup]], None]
"""Is told wake-ups that have gathered, the oldest first. It returns at once, and leaves longer work to a task."""


class Wakeups(Protocol):
    """Where wake-ups are published and listened for. Every method belongs to the thread of the event loop."""

    def publish(self, wakeup: Wakeup) -> None:
        """Wake the listeners of the topic at all servers."""
        ...

    def listen(self, topic: Topic, listener: Listener) -> Callable[[], None]:
        """Call `listener` for a topic from now on; the returned function ends that and drops what waits."""
        ...
