"""A child process and everything it has started: what is bounded, and what is ended, together."""

import os
import signal
import threading
from contextlib import suppress
from typing import Final

from fairlead.processes.confinement.cgroups import ControlGroup, ControlGroups
from fairlead.processes.confinement.descendants import Usage, children, end_orphans, end_tree, tree_usage
from fairlead.processes.confinement.limits import keep_orphans


class ProcessTree:
    """The processes that go with one child. The child leads a session, and so a group, of its own.

    A child that confines itself (`confinement.apply`) keeps what it starts below it, and what it leaves behind comes
    to us: so a tree ends as a whole, whatever its processes do. Where we may make control groups, `bound` puts it into
    one, which counts and ends it without exception.
    """

    def __init__(self, pid: int) -> None:
        self.pid: Final = pid
        self._group: ControlGroup | None = None
        self._memory = 0
        self._processes = 0
        self._is_over_memory = False
        keep_orphans()
        children.add(pid)

    def bound(self, groups: ControlGroups | None, memory: int, processes: int) -> None:
        """Bound the memory of the whole tree in bytes (0 no bound), and how many processes and threads it may have.

        To be called before the child is told what to do. OSError where it cannot be put into a control group.
        """
        self._memory, self._processes = memory, processes
        if groups is not None:
            group = groups.create()
            try:
                group.bound(memory, processes)
                group.add(self.pid)
            except OSError:
                group.remove()
                raise
            self._group = group

    def excess(self) -> str | None:
        """What the tree takes more of than it may, in words; None for nothing. Reads /proc: not for the event loop."""
        usage = self.usage()
        if self._memory and usage.memory > self._memory:
            self._is_over_memory = True
            return f"it took {usage.memory >> 20} MiB of memory, more than the {self._memory >> 20} it may have"
        if self._processes and usage.threads > self._processes:
            return f"it had {usage.threads} threads, more than the {self._processes} it may have"
        return None

    def usage(self) -> Usage:
        """What the tree takes. Reads /proc: not for the event loop."""
        return tree_usage(self.pid, self._memory)

    def kill(self) -> None:
        """End every process of the tree, very soon; nothing once it was cleared up."""
        if self.pid not in children:
            return
        if self._group is not None:
            with suppress(OSError):
                self._group.kill()
                return
        threading.Thread(target=end_tree, args=(self.pid,), name="end a tree", daemon=True).start()

    def clear(self) -> None:
        """End what the child has left behind, after it has ended. The calling thread waits for that."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # a group has its number for as long as anybody is in it
        if self._group is not None:
            with suppress(OSError):
                self._group.kill()
        children.discard(self.pid)
        end_orphans()
        if self._group is not None:
            self._group.remove()

    def terminate(self) -> None:
        """Ask the child to end."""
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGTERM)

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether a process of the tree is known to have been ended because memory ran out."""
        return self._is_over_memory or (self._group is not None and self._group.ran_out_of_memory)
