"""The port for events of other servers, which this one has read from the database, to the watchers here.

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
    """A job that had not ended when its workspace was first watched: its attempt, and how many events it had kept."""

    job_id: str
    attempt: int
    kept: int


class EventRelay(Protocol):
    """Where events are relayed that others have published. Every method belongs to the thread of the event loop."""

    def watched_workspaces(self) -> Collection[str]:
        """The workspaces with subscriptions here."""
        ...

    def watched_runs(self) -> Collection[tuple[str, str]]:
        """The runs that are watched here, each with its workspace before it."""
        ...

    def begin(self, workspace_id: str, remaining: int, jobs: Iterable[JobMark]) -> None:
        """Say how a watched workspace stands: what came before is told to nobody."""
        ...

    def has_begun(self, workspace_id: str) -> bool:
        """Whether it was said how a workspace stands since it is watched."""
        ...

    def relay(self, envelope: EventEnvelope) -> None:
        """Tell subscriptions of an event that was read, unless they were told. The kept ones of a job come in order."""
        ...

    def relay_run(self, change: RunChanged) -> None:
        """Tell watches here of a change that was read."""
        ...

    def is_heard(self, job_id: str, workspace_id: str) -> bool:
        """Whether what a job does is heard from a messenger as it happens, which is newer than what is read."""
        ...

    def turn(self, workspace_id: str) -> int:
        """A number that changes whenever subscriptions are told how many jobs of a workspace remain."""
        ...

    def relay_remaining(self, workspace_id: str, remaining: int, at: int, turn: int) -> None:
        """Tell how many jobs remain, which was read at a time (ms), where that is new and was read after `turn`."""
        ...
