"""Everything a process has started, however it hides: found, counted, and ended.

A descendant may begin a session and lose its parent. It then becomes a child of the next ancestor that keeps orphans
(`limits.keep_orphans`), which a confined process does and cannot undo; so it stays below the process it came from, and
where that has ended below the one that started it.
"""

import os
import signal
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from fairlead.processes.confinement.kernel_memory import THREAD_BYTES, buffers_at_most, buffers_of

_PROCESSES: Final = Path("/proc")
_PAUSE_SECONDS: Final = 0.002
_END_SECONDS: Final = 5.0
_DEAD: Final = (b"Z", b"X")
_STAT_BYTES: Final = 4096
_KIB: Final = 1024

children: Final[set[int]] = set()
"""The numbers of this process's managed children, until they are cleaned up."""


class Process(msgspec.Struct, frozen=True):
    """A process of this machine, as the kernel reports it."""

    pid: int
    parent: int
    is_dead: bool
    threads: int


class Usage(msgspec.Struct, frozen=True):
    """The usage of a tree of processes: their number, their threads, and their memory in bytes."""

    processes: int
    threads: int
    memory: int


def processes() -> Mapping[int, Process]:
    """Every visible process, by its number; none on systems without /proc.

    They are read in ascending order, so that what a process has started before it ended comes after it.
    """
    found: dict[int, Process] = {}
    with suppress(OSError), os.scandir(_PROCESSES) as entries:
        for entry in entries:
            if entry.name.isdigit() and (process := _read(int(entry.name))) is not None:
                found[process.pid] = process
    return found


class FamilyWatch:
    """Repeatedly lists this process and everything below it, without reading all others each time.

    An unrelated process stays unrelated: forks below us are new processes, and their orphans become our children. It is
    recognized by its number and the inode of its directory, which no later process of that number has.
    """

    def __init__(self) -> None:
        self._strangers: dict[int, int] = {}

    def look(self) -> Mapping[int, Process]:
        """This process, everything below it, and some others, by their numbers."""
        found: dict[int, Process] = {}
        inodes: dict[int, int] = {}
        with suppress(OSError), os.scandir(_PROCESSES) as entries:
            for entry in entries:
                if entry.name.isdigit():
                    pid = int(entry.name)
                    inodes[pid] = entry.inode()
                    if self._strangers.get(pid) != inodes[pid] and (process := _read(pid)) is not None:
                        found[pid] = process
        strangers = {0, *(pid for pid, inode in self._strangers.items() if inodes.get(pid) == inode)}
        unknown = {pid: process.parent for pid, process in found.items() if pid != os.getpid()}
        while more := {pid for pid, parent in unknown.items() if parent in strangers}:
            strangers |= more  # a process whose parent has just ended may be related, and is read again
            unknown = {pid: parent for pid, parent in unknown.items() if pid not in more}
        self._strangers = {pid: inodes[pid] for pid in strangers if pid}
        return found


def descendants(pid: int, among: Mapping[int, Process] | None = None) -> Sequence[Process]:
    """The living processes below one."""
    children: dict[int, list[Process]] = {}
    for process in (processes() if among is None else among).values():
        children.setdefault(process.parent, []).append(process)
    found, ahead = [], [pid]
    while ahead:
        below = children.get(ahead.pop(), [])
        found += [process for process in below if not process.is_dead]
        ahead += [process.pid for process in below]
    return found


def unknown_descendants(pid: int) -> Sequence[int]:
    """The living processes below one, except our `children` and what is below those."""
    others = children - {pid}
    everything = {number: process for number, process in processes().items() if number not in others}
    return [process.pid for process in descendants(pid, everything)]


def end_descendants(pid: int, *, keep: Collection[int] = ()) -> Collection[int]:
    """Kill everything below a process except `keep` and what is below those; returns which these were.

    It gives up after some seconds, even if something is left.
    """
    until = time.monotonic() + _END_SECONDS
    killed: set[int] = set()
    while time.monotonic() < until and (strays := _without(pid, keep)):
        for process in strays:
            _kill(process.pid)
            killed.add(process.pid)
        time.sleep(_PAUSE_SECONDS)
    return killed


def end_tree(pid: int) -> None:
    """Kill a process that was not reaped yet, and everything below it. The calling thread waits for that.

    A process that is a child of this one must still be reaped; those below it need not.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGSTOP)  # so that orphans become its children, and are found below it
    killed = end_descendants(pid)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    _kill(pid)
    until = time.monotonic() + _END_SECONDS
    while (process := _read(pid)) and not process.is_dead and time.monotonic() < until:
        time.sleep(_PAUSE_SECONDS)
    for number in killed:
        with suppress(ChildProcessError):  # it has another parent, which reaps it
            os.waitpid(number, os.WNOHANG)


def end_orphans() -> int:
    """Kill and reap the confined processes that have become children of this one; returns how many.

    They are what a confined process has left behind when it ended by itself, and not among `children`.
    """
    if sys.platform != "linux":
        return 0
    count, until = 0, time.monotonic() + _END_SECONDS
    while (orphans := _orphans()) and time.monotonic() < until:
        for orphan in orphans:
            end_tree(orphan)
            _wait_for(orphan)
        count += len(orphans)
    return count


def _orphans() -> Sequence[int]:
    own, filters = os.getpid(), _filters_of(os.getpid())
    found = (process.pid for process in processes().values() if process.parent == own)
    return [pid for pid in found if pid not in children and _filters_of(pid) > filters]


def tree_usage(pid: int, above: int = 0, among: Mapping[int, Process] | None = None) -> Usage:
    """The usage of a process and everything below it, except other `children` of ours and what is below them.

    `among` are the existing processes, where they are known. Its memory is that in no file, with what the kernel may
    hold for it. Where the first count is `above` so many bytes, what several share is counted once, and descriptors by
    their kinds, which takes longer.
    """
    others = children - {pid}
    there = processes() if among is None else among
    everything = {number: process for number, process in there.items() if number not in others}
    tree = [*([everything[pid]] if pid in everything else []), *descendants(pid, everything)]
    threads = sum(process.threads for process in tree)
    memory = sum(_resident(process.pid) + buffers_at_most(process.pid) for process in tree)
    if above and memory > above:
        pids = [process.pid for process in tree]
        memory = sum(map(_proportional, pids)) + buffers_of(pids)
    return Usage(len(tree), threads, memory + threads * THREAD_BYTES)


def _without(pid: int, keep: Collection[int]) -> Sequence[Process]:
    everything = {number: process for number, process in processes().items() if number not in keep}
    return descendants(pid, everything)


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _wait_for(pid: int) -> None:
    until = time.monotonic() + _END_SECONDS
    with suppress(ChildProcessError):
        while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)


def _read(pid: int) -> Process | None:
    with suppress(OSError, ValueError, IndexError):  # it has just ended
        descriptor = os.open(f"{_PROCESSES}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)  # takes half the time of a Path
        try:
            fields = os.read(descriptor, _STAT_BYTES).rpartition(b")")[2].split()
        finally:
            os.close(descriptor)
        return Process(pid, int(fields[1]), fields[0] in _DEAD, int(fields[17]))
    return None


def _filters_of(pid: int) -> int:
    """How many filters of system calls a process has."""
    return next((int(value) for name, value in _lines(pid, "status") if name == "Seccomp_filters"), 0)


def _resident(pid: int) -> int:
    """The memory of a process that is in no file: its own, what it shares, and the tables of its pages."""
    return _KIB * sum(int(value.split()[0]) for name, value in _lines(pid, "status") if name in _IN_NO_FILE)


def _proportional(pid: int) -> int:
    """The same with its share of what several have; all of it where the process lets nobody see."""
    found = {name: int(value.split()[0]) for name, value in _lines(pid, "smaps_rollup") if name in _SHARES}
    if not found:
        return _resident(pid)
    tables = [int(value.split()[0]) for name, value in _lines(pid, "status") if name == _TABLES]
    return _KIB * (sum(found.values()) + sum(tables))


_TABLES: Final = "VmPTE"
_IN_NO_FILE: Final = ("RssAnon", "RssShmem", "VmSwap", _TABLES)
_SHARES: Final = ("Pss_Anon", "Pss_Shmem", "SwapPss")


def _lines(pid: int, name: str) -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        for line in (_PROCESSES / str(pid) / name).read_text("utf-8", "replace").splitlines():
            key, _, value = line.partition(":")
            yield key, value
