"""The port for events of other servers, which this server has read from the database, to the watchers here.

What an implementation guarantees, whether or not a messenger brings the same events:

* A subscription gets an event of a job once, and those of one job in order.
* An event from a messenger that does not follow the last one is dropped: it is a duplicate, or one before it was lost.
  All stored events of a job are relayed from the database, so they arrive a little later.
"""

from collections.abc import Collection, Iterable
from typing import Protocol

import msgspec

from fairlead.domain.jobs.events import EventEnvelope
from fairlead.domain.runs.queue import RunChanged


class JobMark(msgspec.Struct, frozen=True):
    """A job that had not ended when its workspace was first watched: its attempt, and its number of stored events."""

    job_id: str
    attempt: int
    kept: int


class EventRelay(Protocol):
    """Relays events that others have published. Every method belongs to the thread of the event loop."""

    def watched_workspaces(self) -> Collection[str]:
        """The workspaces with subscriptions here."""
        ...

    def watched_runs(self) -> Collection[tuple[str, str]]:
        """The runs that are watched here, each with its workspace before it."""
        ...

    def begin(self, workspace_id: str, remaining: int, jobs: Iterable[JobMark]) -> None:
        """Set the state of a watched workspace: earlier events are sent to nobody."""
        ...

    def has_begun(self, workspace_id: str) -> bool:
        """Whether the state of a workspace was set since it is watched."""
        ...

    def relay(self, envelope: EventEnvelope) -> None:
        """Send subscriptions an event that was read, unless they have it. The stored ones of a job come in order."""
        ...

    def relay_run(self, change: RunChanged) -> None:
        """Send watches here a change that was read."""
        ...

    def is_heard(self, job_id: str, workspace_id: str) -> bool:
        """Whether a messenger brings the events of a job as they happen, which is sooner than they are read."""
        ...

    def turn(self, workspace_id: str) -> int:
        """A number that changes whenever the number of remaining jobs of a workspace is sent to subscriptions."""
        ...

    def relay_remaining(self, workspace_id: str, remaining: int, at: int, turn: int) -> None:
        """Send how many jobs remain, read at a time (ms), if that is new and was read after `turn`."""
        ...
