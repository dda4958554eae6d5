"""The messaging of this server: its implementation, the publishers, and the listeners."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AsyncExitStack
from typing import Final

from fairlead.domain.work.entries import Released
from fairlead.messaging import Messaging
from fairlead.messaging.event_hub import EventHub, HubLimits
from fairlead.messaging.local import local_messaging
from fairlead.messaging.wakeups import Topic, Wakeup, Wakeups
from fairlead.observing.deliveries import MessengerConnected, MessengerLost
from fairlead.observing.observations import Observer
from fairlead.operations.accounts.workspaces import installation_name
from fairlead.server.settings import Settings
from fairlead.storage.db.database import Database
from fairlead.storage.runs.batch import Written


class MessagingUnavailableError(Exception):
    """No messaging server can be used; the text says why, without anything secret."""


FOLLOW_SECONDS: Final = 0.5
"""How often a server reads what others have done to what is watched here: half of the second that M-04 allows."""


async def ready_messaging(
    settings: Settings, database: Database, observe: Observer, stack: AsyncExitStack
) -> Messaging:
    """Start messaging; the stack stops it. The one place that names implementations.

    A server also starts without its NATS.
    """
    limits = HubLimits(per_workspace=settings.sockets_per_workspace)
    if not settings.messaging:
        return local_messaging(limits)
    from fairlead.messaging.nats import nats_messaging  # noqa: PLC0415 -- 3 MB that few servers need
    from fairlead.messaging.nats.link import LinkState  # noqa: PLC0415 -- the same

    def report(state: LinkState) -> None:
        observe(MessengerConnected(state.detail) if state.is_connected else MessengerLost(state.detail))

    messaging = nats_messaging(
        settings.messaging,
        await installation_name(database),
        credentials=settings.messaging_credentials,
        limits=limits,
        report=report,
    )
    messaging.start()
    stack.push_async_callback(messaging.close)
    return messaging


async def try_messaging(settings: Settings) -> tuple[str, float]:
    """Connect to NATS once: the address of a server, and the seconds to it and back. MessagingUnavailableError."""
    from fairlead.messaging.nats.link import NatsUnavailableError, try_servers  # noqa: PLC0415 -- the same

    try:
        return await try_servers(settings.messaging, settings.messaging_credentials)
    except NatsUnavailableError as error:
        raise MessagingUnavailableError(str(error)) from None


def publish_released(wakeups: Wakeups, topic: Topic) -> Callable[[Sequence[Released]], None]:
    """The function that a journal calls with the work that it has released."""

    def publish(released: Sequence[Released]) -> None:
        for one in released:
            wakeups.publish(Wakeup(topic, one.workspace_id, one.id, one.pool))

    return publish


def publish_changed_runs(events: EventHub, delete: Callable[[Sequence[str]], None]) -> Callable[[Written], None]:
    """The function that the journal of runs calls with what it has written; unneeded blobs are passed to `delete`."""

    def publish(written: Written) -> None:
        for change in written.changed:
            events.publish_run(change)
        if written.unneeded:
            delete(written.unneeded)

    return publish


def publish_changed_workspace(wakeups: Wakeups) -> Callable[[str], None]:
    """The function to be called with the id of a workspace whose configuration was changed."""
    return lambda workspace_id: wakeups.publish(Wakeup(Topic.CONFIGURATION_CHANGED, workspace_id))


def listen_for_released(
    wakeups: Wakeups, topic: Topic, claim: Callable[[Sequence[Released]], None], stack: AsyncExitStack
) -> None:
    """Tell a worker about work of any pool that may be claimed."""

    def tell(found: Sequence[Wakeup]) -> None:
        claim([Released(wakeup.id, wakeup.workspace_id, wakeup.pool) for wakeup in found])

    stack.callback(wakeups.listen(topic, tell))


def listen_for_cancelled(
    wakeups: Wakeups, topic: Topic, cancel: Callable[[Collection[str]], None], stack: AsyncExitStack
) -> None:
    """Tell an executor about cancelled work; it ignores work of other servers."""
    stack.callback(wakeups.listen(topic, lambda found: cancel([wakeup.id for wakeup in found])))


def listen_for_changed_workspaces(wakeups: Wakeups, forget: Callable[[str], None], stack: AsyncExitStack) -> None:
    """Clear the cached data of a workspace when its configuration was changed."""

    def forget_all(changed: Sequence[Wakeup]) -> None:
        for wakeup in changed:
            forget(wakeup.workspace_id)

    stack.callback(wakeups.listen(Topic.CONFIGURATION_CHANGED, forget_all))
