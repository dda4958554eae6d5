"""The event hub of one process: it writes each event to the subscriptions of its workspace.

Publishers never wait for subscribers. Everything happens in the thread of the event loop.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from fairlead.domain.faults import ConcurrencyLimitExceeded, FaultError
from fairlead.domain.jobs.events import Ending, EventEnvelope, Preview, QueueChanged
from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.event_hub import Broadcast, CloseReason, HubLimits
from fairlead.messaging.event_relay import JobMark
from fairlead.messaging.local.live_jobs import LiveJobs
from fairlead.messaging.local.published_jobs import PublishedJobs
from fairlead.messaging.local.subscriptions import LocalRunWatch, LocalSubscription, SizedBroadcast

_GATHER_SECONDS: Final = 0.001
"""After sending, how long later events of a workspace wait for each other: a small job then takes three writes instead
of six. The end of a job never waits."""
_HEARD_SECONDS: Final = 2.0
"""How long a messenger counts as bringing the events of a job after one that is not stored: such events come each
second, unless the messenger is away."""


def _nobody(workspace_id: str, *, is_watched: bool) -> None:
    del workspace_id, is_watched


class LocalEventHub:
    """Passes events on to the subscriptions of this process, and what others have published (`EventRelay`) as well.

    `watching` is called when a workspace has its first subscription or watch of a run here, and when it has none left.
    """

    def __init__(self, limits: HubLimits | None = None, watching: Callable[..., None] = _nobody) -> None:
        self._limits = limits or HubLimits()
        self._watching = watching
        self._watchers: dict[str, int] = {}
        """How many subscriptions and watches of runs each workspace has."""
        self._published: dict[str, PublishedJobs] = {}
        self._subscriptions: dict[str, dict[LocalSubscription, None]] = {}
        self._count = 0
        self._jobs = LiveJobs()
        self._ended_jobs: dict[str, list[str]] = {}
        self._sent_at: dict[str, float] = {}
        """When each workspace was last sent something, by the clock of the event loop."""
        self._gathering: set[str] = set()
        """The workspaces for which something waits."""
        self._run_watches: dict[tuple[str, str], set[LocalRunWatch]] = {}
        self._is_closed = False

    def publish(self, envelope: EventEnvelope) -> None:
        """Send an event to every subscription of its workspace. Never waits, never raises.

        That no event of a job will follow is reported with the QueueChanged after its end, as clients expect it;
        where none comes soon, it is reported alone.
        """
        published = self._published.get(envelope.workspace_id)
        # Without watchers it is passed on nevertheless: those that come later get what is under way.
        if published is None or published.admit_own(envelope):
            self._send(envelope, is_ours=True)

    def hear(self, envelope: EventEnvelope) -> None:
        """Send subscriptions an event that a messenger brings, if it follows the last one they got."""
        published = self._published.get(envelope.workspace_id)
        if published is not None and published.admit_heard(envelope, asyncio.get_running_loop().time()):
            self._send(envelope, is_ours=False)

    def relay(self, envelope: EventEnvelope) -> None:
        """Send subscriptions an event that was read from the database, unless they have it."""
        published = self._published.get(envelope.workspace_id)
        if published is not None and not self._jobs.has_seen(envelope) and published.admit_read(envelope):
            self._send(envelope, is_ours=False)

    def relay_run(self, change: RunChanged) -> None:
        """Send watches a change that was read from the database."""
        self.publish_run(change)

    def watched_workspaces(self) -> Collection[str]:
        """The workspaces with subscriptions."""
        return self._subscriptions.keys()

    def watched_runs(self) -> Collection[tuple[str, str]]:
        """The runs that are watched, each with its workspace before it."""
        return self._run_watches.keys()

    def begin(self, workspace_id: str, remaining: int, jobs: Iterable[JobMark]) -> None:
        """Take over the state of a watched workspace."""
        if (published := self._published.get(workspace_id)) is not None:
            published.begin(remaining, jobs)

    def has_begun(self, workspace_id: str) -> bool:
        """Whether the state of a workspace was taken over since it is watched."""
        published = self._published.get(workspace_id)
        return published is not None and published.has_begun

    def is_heard(self, job_id: str, workspace_id: str) -> bool:
        """Whether a messenger brings the events of a job as they happen."""
        published = self._published.get(workspace_id)
        at = None if published is None else published.last_heard_at(job_id)
        return at is not None and asyncio.get_running_loop().time() - at < _HEARD_SECONDS

    def turn(self, workspace_id: str) -> int:
        """A number that changes whenever the number of remaining jobs is sent to subscriptions."""
        published = self._published.get(workspace_id)
        return 0 if published is None else published.turn

    def relay_remaining(self, workspace_id: str, remaining: int, at: int, turn: int) -> None:
        """Send how many jobs remain, if that is new and was read after `turn`."""
        published = self._published.get(workspace_id)
        if published is not None and published.turn == turn and published.remaining != remaining:
            self._send(EventEnvelope(workspace_id, None, None, at, QueueChanged(remaining)), is_ours=False)

    def _send(self, envelope: EventEnvelope, *, is_ours: bool) -> None:
        workspace_id = envelope.workspace_id
        progress = self._jobs.note(envelope, is_ours=is_ours)
        ended_jobs: Sequence[str] = ()
        if isinstance(envelope.event, QueueChanged):
            if (published := self._published.get(workspace_id)) is not None:
                published.note_remaining(envelope.event.remaining)
            ended_jobs = self._ended_jobs.pop(workspace_id, ())
        subscriptions = self._subscriptions.get(workspace_id)
        if not subscriptions:
            return
        _put(subscriptions, Broadcast(envelope, progress, ended_jobs))
        if isinstance(envelope.event, Ending):
            self._wake(workspace_id)
            if envelope.public_id is not None:
                self._note_ended(workspace_id, envelope.public_id)
        # Where it is, a timer wakes the subscribers in a moment.
        elif workspace_id not in self._gathering:
            self._send_soon(workspace_id)

    def subscribe(self, workspace_id: str) -> LocalSubscription:
        """Subscribe to a workspace from now on; FaultError where the limit of subscribers is reached."""
        current = len(self._subscriptions.get(workspace_id, ()))
        for limit, count in ((self._limits.per_workspace, current), (self._limits.in_total, self._count)):
            if count >= limit:
                raise FaultError(ConcurrencyLimitExceeded(limit, count, what="sockets"))
        subscription = LocalSubscription(
            self._jobs.executing(workspace_id), self._limits, lambda ended: self._leave(workspace_id, ended)
        )
        if self._is_closed:
            subscription.end(CloseReason.STOPPED)
            return subscription
        if workspace_id not in self._subscriptions:
            self._published[workspace_id] = PublishedJobs()
        self._subscriptions.setdefault(workspace_id, {})[subscription] = None
        self._count += 1
        self._count_watcher(workspace_id, 1)
        return subscription

    def publish_run(self, change: RunChanged) -> None:
        """Send a change to every watch of its run."""
        for watch in self._run_watches.get((change.workspace_id, change.run_id), ()):
            watch.put(change)

    def watch_run(self, workspace_id: str, run_id: str) -> LocalRunWatch:
        """Watch the changes of a run from now on."""
        watch = LocalRunWatch(lambda ended: self._leave_run((workspace_id, run_id), ended))
        self._run_watches.setdefault((workspace_id, run_id), set()).add(watch)
        self._count_watcher(workspace_id, 1)
        return watch

    def newest_preview(self, job_id: str) -> Preview | None:
        """The newest preview of a job, if it was published or received here; None where there is none."""
        return self._jobs.newest_preview(job_id)

    def close(self) -> None:
        """End all subscriptions, now and later: the server stops. Watches of runs go on."""
        self._is_closed = True
        for subscriptions in list(self._subscriptions.values()):
            for subscription in list(subscriptions):
                subscription.end(CloseReason.STOPPED)

    def _leave(self, workspace_id: str, subscription: LocalSubscription) -> None:
        """Forget a subscription that has ended; nothing happens where it is forgotten already."""
        subscriptions = self._subscriptions.get(workspace_id, {})
        if subscription in subscriptions:
            del subscriptions[subscription]
            self._count -= 1
            if not subscriptions:
                del self._subscriptions[workspace_id], self._published[workspace_id]
                self._sent_at.pop(workspace_id, None)
                self._jobs.forget_others(workspace_id)
            self._count_watcher(workspace_id, -1)

    def _leave_run(self, key: tuple[str, str], watch: LocalRunWatch) -> None:
        watches = self._run_watches.get(key, set())
        if watch in watches:
            watches.discard(watch)
            self._count_watcher(key[0], -1)
        if not watches:
            self._run_watches.pop(key, None)

    def _count_watcher(self, workspace_id: str, change: int) -> None:
        before = self._watchers.pop(workspace_id, 0)
        if before + change:
            self._watchers[workspace_id] = before + change
        if not before or not before + change:
            self._watching(workspace_id, is_watched=not before)

    def _wake(self, workspace_id: str) -> None:
        for subscription in self._subscriptions.get(workspace_id, ()):
            subscription.wake()

    def _send_soon(self, workspace_id: str) -> None:
        """Wake subscribers now, or a moment after they were last woken."""
        loop = asyncio.get_running_loop()
        now, due = loop.time(), self._sent_at.get(workspace_id, 0.0) + _GATHER_SECONDS
        if now < due:
            self._gathering.add(workspace_id)
            loop.call_at(due, self._send_gathered, workspace_id)
        else:
            self._sent_at[workspace_id] = now
            self._wake(workspace_id)

    def _send_gathered(self, workspace_id: str) -> None:
        self._gathering.discard(workspace_id)
        if workspace_id in self._subscriptions:
            self._sent_at[workspace_id] = asyncio.get_running_loop().time()
            self._wake(workspace_id)

    def _note_ended(self, workspace_id: str, public_id: str) -> None:
        self._ended_jobs.setdefault(workspace_id, []).append(public_id)
        loop = asyncio.get_running_loop()
        loop.call_later(self._limits.ended_seconds, self._send_ended, workspace_id, public_id)

    def _send_ended(self, workspace_id: str, public_id: str) -> None:
        """Report that no event of a job will follow, unless that was reported in the meantime."""
        ended_jobs = self._ended_jobs.get(workspace_id, [])
        if public_id not in ended_jobs:
            return
        ended_jobs.remove(public_id)
        if not ended_jobs:
            del self._ended_jobs[workspace_id]
        _put(self._subscriptions.get(workspace_id, ()), Broadcast(None, ended_jobs=(public_id,)))
        self._wake(workspace_id)


def _put(subscriptions: Iterable[LocalSubscription], broadcast: Broadcast) -> None:
    sized = SizedBroadcast(broadcast)
    for subscription in list(subscriptions):  # one that is too slow leaves meanwhile
        subscription.put(sized)
