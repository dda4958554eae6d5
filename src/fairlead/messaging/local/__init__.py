"""Messaging within one process: what is published is there at once, and goes to nobody else."""

from dataclasses import dataclass

from fairlead.messaging.event_hub import HubLimits
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.messaging.local.wakeups import LocalWakeups


@dataclass(frozen=True, slots=True)
class LocalMessaging:
    """Both ports, within this process."""

    events: LocalEventHub
    wakeups: LocalWakeups


def local_messaging(limits: HubLimits | None = None) -> LocalMessaging:
    """Make messaging for one process."""
    return LocalMessaging(LocalEventHub(limits), LocalWakeups())
