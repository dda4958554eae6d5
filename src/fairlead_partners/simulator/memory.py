"""What all vendors share: clock, tasks, files and webhooks."""

from dataclasses import dataclass, field

from .files import Files
from .tasks import Clock, Tasks
from .webhooks import Webhooks


@dataclass(slots=True)
class Memory:
    """The memory of one simulator."""

    clock: Clock = field(default_factory=Clock)
    tasks: Tasks = field(init=False)
    files: Files = field(init=False)
    webhooks: Webhooks = field(init=False)
    held_bytes: int = 0
    """The bodies of the calls being answered."""

    def __post_init__(self) -> None:
        """Make what runs by the clock."""
        self.tasks = Tasks(self.clock)
        self.files = Files(self.clock)
        self.webhooks = Webhooks(self.clock)
