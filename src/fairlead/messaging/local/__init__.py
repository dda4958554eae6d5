"""Messaging within one process: what is published is there at once, and goes to nobody else."""

from collections.abc import Mapping

import msgspec

from fairlead.messaging.event_hub import HubLimits
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.messaging.local.wakeups import LocalWakeups


class LocalMessaging(msgspec.Struct, frozen=True):
    """All ports, within this process."""

    events: LocalEventHub
    wakeups: LocalWakeups

    @property
    def relay(self) -> LocalEventHub:
        """The hub, which also sends what others have published."""
        return self.events

    def counts(self) -> Mapping[str, int]:
        """Empty, as there are no messages to other servers."""
        return {}


def local_messaging(limits: HubLimits | None = None) -> LocalMessaging:
    """Make messaging for one process."""
    return LocalMessaging(LocalEventHub(limits), LocalWakeups())
