"""A child process and everything it has started: what is bounded, and what is ended, together."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from fairlead.processes.confinement.cgroups import ControlGroup, ControlGroups
from fairlead.processes.confinement.descendants import (
    FamilyWatch,
    Process,
    Usage,
    children,
    end_orphans,
    end_tree,
    tree_usage,
    unknown_descendants,
)
from fairlead.processes.confinement.limits import keep_orphans

NICENESS: Final = 5
"""The niceness of children, by which the server comes before them."""
_NICENESS_MAX: Final = 19
_WATCH_SECONDS: Final = 1.0
_LOOKS_MAX: Final = 1_000
_LOOK_SECONDS: Final = 0.005
_bounded: Final[set["ProcessTree"]] = set()
"""The trees that are to be watched."""


class ProcessTree:
    """The processes that go with one child. The child leads a session, and so a group, of its own.

    A child that confines itself (`confinement.apply`) keeps its descendants below it, and those that it leaves behind
    become our children: so a tree ends as a whole, whatever its processes do. Where control groups can be made, `bound`
    puts it into one, which counts and ends it without exception.
    """

    def __init__(self, pid: int, parent: "ProcessTree | None" = None) -> None:
        """Manage a child of ours, or a fork of a `parent` that is our child."""
        self.pid: Final = pid
        self._parent = parent
        self._forks_under_way = 0
        self._forks = 0
        """Counts the begins and the ends of forks."""
        self._group: ControlGroup | None = None
        self._memory = 0
        self._processes = 0
        self._is_over_memory = False
        self.reason: str | None = None
        """Why it was ended by the watch, where that was not for its memory."""
        keep_orphans()
        children.add(pid)
        self.give_way(NICENESS)

    def give_way(self, niceness: int) -> None:
        """Have the server go first when processors are short; `niceness` is added to the server's own.

        To be called before the child has threads. Where Linux shares processors among sessions first, which it does
        outside control groups, the child's session is told too: niceness counts only within one (sched(7)).
        """
        total = min(os.getpriority(os.PRIO_PROCESS, 0) + niceness, _NICENESS_MAX)
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.pid, total)
            Path(f"/proc/{self.pid}/autogroup").write_text(str(total), "utf-8")

    @contextmanager
    def forking(self) -> Iterator[None]:
        """Hold while this process is being forked: until the fork has a tree of its own, it looks like a stray."""
        self._forks_under_way += 1
        self._forks += 1
        try:
            yield
        finally:
            self._forks_under_way -= 1
            self._forks += 1

    def bound(self, groups: ControlGroups | None, memory: int, processes: int) -> None:
        """Bound the memory of the whole tree in bytes (0 no bound), and how many processes and threads it may have.

        To be called before the child is told what to do. The calling thread waits for the system. OSError where it
        cannot be put into a control group.
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
        if self._group is None or not self._group.counts_memory:
            _bounded.add(self)
        if self.pid not in children:  # it was cleaned up in the meantime
            _bounded.discard(self)
            if self._group is not None:
                self._group.remove()

    def end_excess(self, among: Mapping[int, Process] | None = None) -> None:
        """Kill the tree if it takes more than it may. Reads /proc: not for the event loop.

        `among` are the processes there are, where they are known.
        """
        usage = tree_usage(self.pid, self._memory, among)
        if self._memory and usage.memory > self._memory:
            self._is_over_memory = True
            self.kill()
        elif self._processes and usage.threads > self._processes:
            self.reason = f"it had {usage.threads} threads, more than the {self._processes} it may have"
            self.kill()

    def usage(self) -> Usage:
        """The usage of the tree. Reads /proc: not for the event loop."""
        return tree_usage(self.pid, self._memory)

    def kill(self) -> None:
        """End every process of the tree, very soon; does nothing once it was cleaned up."""
        if self.pid not in children:
            return
        if self._group is not None:
            with suppress(OSError):
                self._group.kill()
                return
        # Our own end waits for it: a process that was stopped and never killed would be left behind.
        threading.Thread(target=end_tree, args=(self.pid,), name="end a tree").start()

    def clear(self) -> None:
        """End what the child has left behind, after it has ended. The calling thread waits for that."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # a group has its number for as long as anybody is in it
        if self._group is not None:
            with suppress(OSError):
                self._group.kill()
        children.discard(self.pid)
        _bounded.discard(self)
        end_orphans()
        if self._parent is not None:
            self._parent.end_strays()
        if self._group is not None:
            self._group.remove()

    def end_strays(self) -> None:
        """End what forked processes have left to this one when they ended: all below it that has no tree of its own.

        The calling thread waits for that. A process that is being forked has none yet, so there is nothing to be told
        of what was seen meanwhile, and another look is taken.
        """
        for _ in range(_LOOKS_MAX):
            forks = self._forks
            strays = unknown_descendants(self.pid)
            if self._forks_under_way or forks != self._forks:
                time.sleep(_LOOK_SECONDS)
                continue
            if not strays:
                return
            for pid in strays:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Ask the child to end."""
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGTERM)

    @property
    def has_run_out_of_memory(self) -> bool:
        """Whether a process of the tree is known to have been ended because memory ran out."""
        return self._is_over_memory or (self._group is not None and self._group.has_run_out_of_memory)


async def watch_trees() -> NoReturn:
    """End trees that take more than they may, until cancelled: this is the bound where no control group counts."""
    watch = FamilyWatch()
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        if _bounded:
            await asyncio.to_thread(_end_excess, watch)


def _end_excess(watch: FamilyWatch) -> None:
    if trees := list(_bounded):
        among = watch.look()
        for tree in trees:
            tree.end_excess(among)
