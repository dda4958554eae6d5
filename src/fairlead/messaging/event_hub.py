"""The port for events of jobs and runs: from where they happen to those who watch. Nothing is kept (C-08).

What an implementation guarantees:

* An envelope goes to every subscription of its workspace, and to no other. A change of a run goes to every watch of it.
  At the server that publishes it is there at once, at others soon.
* The envelopes of one job that one server publishes arrive in the order of their publication.
* Publishing never waits and never raises, whatever subscribers and other servers do.
* A subscription that is too far behind is ended, with the reason. Events that only matter live are dropped first.
* Both may be lost between servers. What must not be lost is in the database, and is looked for there.
"""

import asyncio
import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from fairlead.domain.jobs.events import EventEnvelope, Place, Preview
from fairlead.domain.runs.queue import RunChanged

_MIB: Final = 2**20


class NodeProgress(msgspec.Struct, frozen=True):
    """The progress of a node: `value` of `most`; one that has finished is not running."""

    place: Place
    value: float = 0
    most: float = 1
    is_running: bool = True


@dataclass(frozen=True, slots=True)
class Broadcast:
    """An envelope for all subscriptions, with what they get at the same time.

    `envelope` is None where there are only `ended_jobs`. `progress` names the node whose state has changed, then the
    others of its job that run; it is empty where nothing has changed. `ended_jobs` are the public ids of jobs that have
    no further events. `encoded` caches the encoded messages, so that they are encoded once for all subscribers.
    """

    envelope: EventEnvelope | None
    progress: Sequence[NodeProgress] = ()
    ended_jobs: Sequence[str] = ()
    encoded: dict[object, bytes] = field(default_factory=dict, compare=False)


class CloseReason(enum.Enum):
    """Why a subscription has ended."""

    CLOSED = "closed"
    TOO_SLOW = "too_slow"
    STOPPED = "stopped"


class HubLimits(msgspec.Struct, frozen=True):
    """How many may subscribe at a server, and how much may wait for one subscription before it is too slow.

    Above `coalesce_above` messages or bytes, only the newest of each kind of live event is kept. One `next` returns at
    most `batch_bytes` and one broadcast more. `ended_seconds` is how long the end of a job waits for the status after
    it.
    """

    per_workspace: int = 2_000
    in_total: int = 10_000
    waiting: int = 10_000
    waiting_bytes: int = 8 * _MIB
    coalesce_above: int = 256
    coalesce_above_bytes: int = _MIB // 2
    batch_bytes: int = _MIB // 4
    ended_seconds: float = 0.25


class EventSubscription(Protocol):
    """The events for one watcher of a workspace, until it is closed."""

    @property
    def running(self) -> Sequence[EventEnvelope]:
        """The nodes that were executed when it began, as far as they were known at this server."""
        ...

    @property
    def ended(self) -> asyncio.Future[CloseReason]:
        """Done when the subscription has ended."""
        ...

    async def next(self) -> Sequence[Broadcast]:
        """Wait for the next events, in order; empty once the subscription has ended. One caller at a time."""
        ...

    def close(self) -> None:
        """End the subscription and forget what waits; doing it again changes nothing."""
        ...


class RunWatch(Protocol):
    """Gets the changes of one run, until it is closed."""

    async def wait(self, seconds: float) -> RunChanged | None:
        """Wait until the run has changed since the last wait; its newest change, None after so long. One at a time."""
        ...

    def close(self) -> None:
        """End the watch, and a wait for it; doing it again changes nothing."""
        ...


class EventHub(Protocol):
    """Where events are published and subscribed to. Every method belongs to the thread of the event loop."""

    def publish(self, envelope: EventEnvelope) -> None:
        """Send to every subscription of the workspace."""
        ...

    def subscribe(self, workspace_id: str) -> EventSubscription:
        """Subscribe to a workspace from now on; FaultError where the limit of subscribers is reached.

        A closed hub returns a subscription that has ended.
        """
        ...

    def publish_run(self, change: RunChanged) -> None:
        """Send to every watch of the run."""
        ...

    def watch_run(self, workspace_id: str, run_id: str) -> RunWatch:
        """Watch the changes of a run from now on. The caller has found the run, and counts its own watches."""
        ...

    def newest_preview(self, job_id: str) -> Preview | None:
        """The newest preview of a job under way, as far as this server knows; None where there is none."""
        ...

    def close(self) -> None:
        """End all subscriptions, now and later: the server stops. Watches of runs go on."""
        ...
