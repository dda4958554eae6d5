"""Messaging within one process: what is published is there at once, and goes to nobody else."""

import msgspec

from fairlead.messaging.event_hub import HubLimits
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.messaging.local.wakeups import LocalWakeups


class LocalMessaging(msgspec.Struct, frozen=True):
    """Both ports, within this process."""

    events: LocalEventHub
    wakeups: LocalWakeups


def local_messaging(limits: HubLimits | None = None) -> LocalMessaging:
    """Make messaging for one process."""
    return LocalMessaging(LocalEventHub(limits), LocalWakeups())
