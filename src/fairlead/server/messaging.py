"""Messaging as this server has it: which implementation it is, who publishes, and who listens."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack

from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.event_hub import EventHub, HubLimits
from fairlead.messaging.local import local_messaging
from fairlead.messaging.messaging import Messaging
from fairlead.messaging.wakeups import Topic, Wakeup, Wakeups
from fairlead.server.settings import Settings


def ready_messaging(settings: Settings) -> Messaging:
    """Make messaging ready. The one place that names an implementation."""
    return local_messaging(HubLimits(per_workspace=settings.sockets_per_workspace))


def publish_released(wakeups: Wakeups, topic: Topic) -> Callable[[Sequence[tuple[str, str]]], None]:
    """Return what a journal calls with the work that it has released: ids, and those of workspaces."""

    def publish(released: Sequence[tuple[str, str]]) -> None:
        for id_, workspace_id in released:
            wakeups.publish(Wakeup(topic, workspace_id, id_))

    return publish


def publish_changed_runs(events: EventHub) -> Callable[[Sequence[RunChanged]], None]:
    """Return what the journal of runs calls with the queued runs that it has changed."""

    def publish(changed: Sequence[RunChanged]) -> None:
        for change in changed:
            events.publish_run(change)

    return publish


def publish_changed_workspace(wakeups: Wakeups) -> Callable[[str], None]:
    """Return what is called with the id of a workspace whose configuration was changed."""
    return lambda workspace_id: wakeups.publish(Wakeup(Topic.CONFIGURATION_CHANGED, workspace_id))


def listen_for_released(
    wakeups: Wakeups, topic: Topic, claim: Callable[[Sequence[tuple[str, str]]], None], stack: AsyncExitStack
) -> None:
    """Have a worker told of work that may be claimed: ids, and those of workspaces."""
    stack.callback(wakeups.listen(topic, lambda found: claim([(wakeup.id, wakeup.workspace_id) for wakeup in found])))


def listen_for_cancelled(
    wakeups: Wakeups, topic: Topic, cancel: Callable[[Collection[str]], None], stack: AsyncExitStack
) -> None:
    """Have an executor told of work that is not wanted any more; what is not its own it ignores."""
    stack.callback(wakeups.listen(topic, lambda found: cancel([wakeup.id for wakeup in found])))


def listen_for_changed_workspaces(wakeups: Wakeups, forget: Callable[[str], None], stack: AsyncExitStack) -> None:
    """Have what is remembered of a workspace forgotten when its configuration was changed."""

    def forget_all(changed: Sequence[Wakeup]) -> None:
        for wakeup in changed:
            forget(wakeup.workspace_id)

    stack.callback(wakeups.listen(Topic.CONFIGURATION_CHANGED, forget_all))
