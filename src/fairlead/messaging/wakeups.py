"""The port for wake-ups: a hint to look now at what would otherwise be found a little later.

What an implementation guarantees:

* Publishing never waits and never raises, whatever listeners and other servers do.
* Every listener of a topic, at every server, is told soon, in a turn of its event loop of its own.
* Equal wake-ups that wait for a listener are told once, and only so many wait. So a listener must take a wake-up for
  what it is: something has happened at least once.
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
    """A topic, the workspace it is about, and the id of the run or job, where it is about one."""

    topic: Topic
    workspace_id: str
    id: str = ""


Listener: TypeAlias = Callable[[Sequence[Wakeup]], None]
"""Is told wake-ups that have gathered, the oldest first. It returns at once, and leaves longer work to a task."""


class Wakeups(Protocol):
    """Where wake-ups are published and listened for. Every method belongs to the thread of the event loop."""

    def publish(self, wakeup: Wakeup) -> None:
        """Wake the listeners of the topic at all servers."""
        ...

    def listen(self, topic: Topic, listener: Listener) -> Callable[[], None]:
        """Have `listener` told of a topic from now on; what is returned ends that, and forgets what waits."""
        ...
