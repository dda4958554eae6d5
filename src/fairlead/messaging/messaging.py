"""All that the parts of servers tell each other, as one value to wire."""

from typing import Protocol

from fairlead.messaging.event_hub import EventHub
from fairlead.messaging.wakeups import Wakeups


class Messaging(Protocol):
    """An implementation of messaging: both of its ports."""

    @property
    def events(self) -> EventHub:
        """What is told to those who watch."""
        ...

    @property
    def wakeups(self) -> Wakeups:
        """What is told to those who would otherwise look a little later."""
        ...
