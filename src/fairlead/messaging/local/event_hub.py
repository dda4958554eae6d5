"""The event hub of one process: it writes each event to the subscriptions of its workspace.

Publishers never wait for subscribers. Everything happens in the thread of the event loop.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from fairlead.domain.faults import ConcurrencyLimitExceeded, FaultError
from fairlead.domain.jobs.events import EventEnvelope, Failed, Interrupted, Preview, QueueChanged, Succeeded
from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.event_hub import Broadcast, CloseReason, HubLimits
from fairlead.messaging.local.live_jobs import LiveJobs
from fairlead.messaging.local.subscriptions import LocalRunWatch, LocalSubscription, SizedBroadcast

_GATHER_SECONDS: Final = 0.001
"""How long events wait for others that come right after some were sent: a small job is then sent in three writes
instead of six. The end of a job never waits."""


class LocalEventHub:
    """Passes events on to the subscriptions of this process."""

    def __init__(self, limits: HubLimits | None = None) -> None:
        self._limits = limits or HubLimits()
        self._subscriptions: dict[str, dict[LocalSubscription, None]] = {}
        self._count = 0
        self._jobs = LiveJobs()
        self._ended_jobs: dict[str, list[str]] = {}
        self._gathering: dict[str, bool] = {}
        """The workspaces that were sent something a moment ago, and whether there was more since."""
        self._run_watches: dict[tuple[str, str], set[LocalRunWatch]] = {}
        self._is_closed = False

    def publish(self, envelope: EventEnvelope) -> None:
        """Tell every subscription of the workspace. Never waits, never raises.

        That nothing more will be told of a job goes with the QueueChanged that follows its end, as clients expect it;
        where none follows soon, it goes alone.
        """
        workspace_id = envelope.workspace_id
        progress = self._jobs.note(envelope)
        ended_jobs = self._ended_jobs.pop(workspace_id, ()) if isinstance(envelope.event, QueueChanged) else ()
        subscriptions = self._subscriptions.get(workspace_id)
        if not subscriptions:
            return
        _put(subscriptions, Broadcast(envelope, progress, ended_jobs))
        if isinstance(envelope.event, Succeeded | Failed | Interrupted):
            self._wake(workspace_id)
            if envelope.public_id is not None:
                self._note_ended(workspace_id, envelope.public_id)
        elif workspace_id in self._gathering:
            self._gathering[workspace_id] = True
        else:
            self._wake(workspace_id)
            self._gather(workspace_id)

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
        self._subscriptions.setdefault(workspace_id, {})[subscription] = None
        self._count += 1
        return subscription

    def publish_run(self, change: RunChanged) -> None:
        """Tell every watch of the run."""
        for watch in self._run_watches.get((change.workspace_id, change.run_id), ()):
            watch.put(change)

    def watch_run(self, workspace_id: str, run_id: str) -> LocalRunWatch:
        """Hear of the changes of a run from now on."""
        watch = LocalRunWatch(lambda ended: self._leave_run((workspace_id, run_id), ended))
        self._run_watches.setdefault((workspace_id, run_id), set()).add(watch)
        return watch

    def newest_preview(self, job_id: str) -> Preview | None:
        """The newest preview of a job that is executed here; None where there is none."""
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
                del self._subscriptions[workspace_id]

    def _leave_run(self, key: tuple[str, str], watch: LocalRunWatch) -> None:
        watches = self._run_watches.get(key, set())
        watches.discard(watch)
        if not watches:
            self._run_watches.pop(key, None)

    def _wake(self, workspace_id: str) -> None:
        for subscription in self._subscriptions.get(workspace_id, ()):
            subscription.wake()

    def _gather(self, workspace_id: str) -> None:
        """Let what comes in the next moment wait, and wake subscribers at its end."""
        self._gathering[workspace_id] = False
        asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._gathered, workspace_id)

    def _gathered(self, workspace_id: str) -> None:
        if self._gathering.pop(workspace_id):
            self._wake(workspace_id)
            self._gather(workspace_id)

    def _note_ended(self, workspace_id: str, public_id: str) -> None:
        self._ended_jobs.setdefault(workspace_id, []).append(public_id)
        loop = asyncio.get_running_loop()
        loop.call_later(self._limits.ended_seconds, self._tell_ended, workspace_id, public_id)

    def _tell_ended(self, workspace_id: str, public_id: str) -> None:
        """Tell that nothing more will be told of a job, unless that was told in the meantime."""
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
