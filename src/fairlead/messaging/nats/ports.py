"""The ports between servers: this server's messages are published at once, those of others as NATS brings them."""

from collections.abc import Callable

from fairlead.domain.jobs.events import EventEnvelope, Preview
from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.event_hub import EventSubscription, HubLimits, RunWatch
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.messaging.local.wakeups import LocalWakeups
from fairlead.messaging.nats import wire
from fairlead.messaging.nats.link import NatsLink
from fairlead.messaging.wakeups import Listener, Topic, Wakeup


class NatsEventHub:
    """Passes events on to the subscriptions of this server, its `local` hub, and of all others.

    At NATS it subscribes only to workspaces that somebody watches at this server.
    """

    def __init__(self, link: NatsLink, installation: str, limits: HubLimits | None) -> None:
        self.local = LocalEventHub(limits, self._watching)
        self._link = link
        self._subjects = wire.Subjects(installation)
        self._leave: dict[str, Callable[[], None]] = {}

    def publish(self, envelope: EventEnvelope) -> None:
        """Send an event to every subscription of its workspace."""
        self.local.publish(envelope)
        self._link.publish(self._subjects.event(envelope.workspace_id), lambda: wire.encode(envelope))

    def subscribe(self, workspace_id: str) -> EventSubscription:
        """Subscribe to a workspace from now on; FaultError where the limit of subscribers is reached."""
        return self.local.subscribe(workspace_id)

    def publish_run(self, change: RunChanged) -> None:
        """Send a change to every watch of its run."""
        self.local.publish_run(change)
        self._link.publish(self._subjects.run(change.workspace_id), lambda: wire.encode(change))

    def watch_run(self, workspace_id: str, run_id: str) -> RunWatch:
        """Watch the changes of a run from now on."""
        return self.local.watch_run(workspace_id, run_id)

    def newest_preview(self, job_id: str) -> Preview | None:
        """The newest preview of a job, if it was published or received here; None where there is none."""
        return self.local.newest_preview(job_id)

    def close(self) -> None:
        """End all subscriptions, now and later: the server stops. Watches of runs go on."""
        self.local.close()

    def _watching(self, workspace_id: str, *, is_watched: bool) -> None:
        if is_watched:
            self._leave[workspace_id] = self._link.subscribe(self._subjects.watch(workspace_id), self._hear)
        else:
            self._leave.pop(workspace_id)()

    def _hear(self, subject: str, content: bytes) -> None:
        found = wire.read_watched(subject, content)
        if isinstance(found, RunChanged):
            self.local.publish_run(found)
        else:
            self.local.hear(found)


class NatsWakeups:
    """Wakes the listeners of all servers of the installation."""

    def __init__(self, link: NatsLink, installation: str) -> None:
        self._local = LocalWakeups()
        self._link = link
        self._subjects = wire.Subjects(installation)
        link.subscribe(self._subjects.all_wakeups, self._hear)

    def publish(self, wakeup: Wakeup) -> None:
        """Wake the listeners of the topic."""
        self._local.publish(wakeup)
        self._link.publish(self._subjects.wakeup(wakeup.workspace_id), lambda: wire.encode(wakeup))

    def listen(self, topic: Topic, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the wake-ups of a topic from now on; the returned function ends that."""
        return self._local.listen(topic, listener)

    def _hear(self, subject: str, content: bytes) -> None:
        self._local.publish(wire.read_wakeup(subject, content))
