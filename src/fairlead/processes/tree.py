"""A child process and everything it has started: what is bounded, and what is ended, together."""

import os
import signal
from contextlib import suppress
from typing import Final


class ProcessTree:
    """The processes that go with one child. The child leads a session, and so a group, of its own.

    Here is where the containment of a whole tree belongs: it is told of the child once that runs, and asked to end
    everything, and whether memory ran out.
    """

    def __init__(self, pid: int) -> None:
        self.pid: Final = pid

    def kill(self) -> None:
        """End every process of the tree, at once. To be called before the child's number may be somebody else's."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the child to end."""
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGTERM)

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the system is known to have ended a process of the tree because memory ran out."""
        return False
