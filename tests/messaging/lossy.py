"""Messaging that a test can have lose or delay what is published, as between servers."""

from fairlead.domain.runs.queue import RunChanged
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.messaging.local.wakeups import LocalWakeups
from fairlead.messaging.wakeups import Wakeup


class LossyWakeups(LocalWakeups):
    """Loses what is published while `is_losing`."""

    def __init__(self) -> None:
        super().__init__()
        self.is_losing = False

    def publish(self, wakeup: Wakeup) -> None:
        """Pass a wake-up on, or lose it."""
        if not self.is_losing:
            super().publish(wakeup)


class HeldEventHub(LocalEventHub):
    """Holds changes of runs back while `is_holding`, until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.is_holding = False
        self.held: list[RunChanged] = []

    def publish_run(self, change: RunChanged) -> None:
        """Publish a change, or hold it back."""
        if self.is_holding:
            self.held.append(change)
        else:
            super().publish_run(change)

    def let_go(self) -> None:
        """Publish what was held back."""
        self.is_holding = False
        for change in self.held:
            super().publish_run(change)
