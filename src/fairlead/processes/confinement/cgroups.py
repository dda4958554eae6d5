"""Control groups (version 2), where the server may make them: a tree of processes is counted and ended as one.

A process cannot escape the end of its group by forking, and all memory counts: private, shared, and files in memory. A
service has such groups where systemd delegates them (`Delegate=yes`), a container seldom.
"""

import errno
import itertools
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.processes.confinement.descendants import descendants

_OWN: Final = Path("/proc/self/cgroup")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_KIND: Final = "cgroup2"
_BEGINNING: Final = "fairlead-"
_OWN_LEAF: Final = "server"
_CONTROLLERS: Final = ("memory", "pids")
_LOOKS_MAX: Final = 200
_LOOK_SECONDS: Final = 0.005
_numbers: Final = itertools.count()


class ControlGroup:
    """The group of one tree of processes."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self.counts_memory: Final = (folder / "memory.max").exists()
        """Whether memory is bounded here."""

    def bound(self, memory: int, processes: int) -> None:
        """Bound the memory in bytes (0 no bound), of which none is swapped out, and the number of threads; OSError."""
        bounds = {"pids.max": processes}
        if memory:
            bounds |= {"memory.max": memory, "memory.swap.max": 0, "memory.oom.group": 1}
        for name, value in bounds.items():
            if (self.folder / name).exists():
                (self.folder / name).write_text(str(value), "utf-8")

    def add(self, pid: int) -> None:
        """Move a process into it, with all that it starts from now on; OSError."""
        (self.folder / "cgroup.procs").write_text(str(pid), "utf-8")

    def kill(self) -> None:
        """Kill every process of it, at once; OSError where the system cannot (before Linux 5.14)."""
        (self.folder / "cgroup.kill").write_text("1", "utf-8")

    @property
    def has_run_out_of_memory(self) -> bool:
        """Whether the system has killed a process of it because its memory was used up."""
        with suppress(OSError, ValueError):
            events = dict(line.split() for line in (self.folder / "memory.events").read_text("utf-8").splitlines())
            return int(events.get("oom_kill", "0")) > 0
        return False

    def remove(self) -> None:
        """Remove it once it is empty, shortly after the kill; a group that still has processes is left."""
        for _ in range(_LOOKS_MAX):
            try:
                return self.folder.rmdir()
            except FileNotFoundError:
                return None
            except OSError:
                time.sleep(_LOOK_SECONDS)
        return None


class ControlGroups:
    """The parent group in which a server makes groups."""

    def __init__(self, parent: Path) -> None:
        self._parent: Final = parent

    def create(self) -> ControlGroup:
        """Make a group; OSError."""
        folder = self._parent / f"{_BEGINNING}{os.getpid()}-{next(_numbers)}"
        folder.mkdir()
        return ControlGroup(folder)

    def end_left(self) -> None:
        """End what is left of servers that have ended, and remove their groups."""
        for folder in self._parent.glob(f"{_BEGINNING}*-*"):
            owner = folder.name.removeprefix(_BEGINNING).partition("-")[0]
            if owner.isdigit() and not Path(f"/proc/{owner}").exists():
                group = ControlGroup(folder)
                with suppress(OSError):
                    group.kill()
                group.remove()


def find_control_groups(root: Path | None = None) -> ControlGroups | None:
    """The place where this server may make groups, if possible with bounds; None where it may make none.

    `root` is the folder of this process's own group, where it is known.
    """
    own = _own_folder() if root is None else root
    if own is None or not os.access(own, os.W_OK):
        return None
    groups = ControlGroups(own)
    try:
        with suppress(OSError):
            _delegate(own)
        group = groups.create()
    except OSError:
        return None
    is_whole = (group.folder / "cgroup.kill").exists()
    group.remove()
    return groups if is_whole else None


def _own_folder() -> Path | None:
    """The folder of the group this process is in."""
    with suppress(OSError, StopIteration):
        mounts = (line.split() for line in _MOUNTS.read_text("utf-8", "replace").splitlines())
        mount = next(fields for fields in mounts if fields[fields.index("-") + 1] == _KIND)
        lines = _OWN.read_text("utf-8", "replace").splitlines()
        path = next(line.removeprefix("0::") for line in lines if line.startswith("0::"))
        folder = Path(mount[4]) / os.path.relpath(path, mount[3])
        return folder if folder.is_dir() else None
    return None


def _delegate(own: Path) -> None:
    """Have groups below ours count memory and processes; OSError where that is not possible.

    Only a group without processes of its own can do that, so they move to one below it, if all of them are ours.
    """
    offered = (own / "cgroup.controllers").read_text("utf-8").split()
    wanted = " ".join(f"+{name}" for name in _CONTROLLERS if name in offered)
    if not wanted:
        return
    control = own / "cgroup.subtree_control"
    try:
        control.write_text(wanted, "utf-8")
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        inside = {int(pid) for pid in (own / "cgroup.procs").read_text("utf-8").split()}
        ours = {os.getpid(), *(process.pid for process in descendants(os.getpid()))}
        if not inside <= ours:
            raise  # such as a terminal's, whose other processes must not be moved
        leaf = own / _OWN_LEAF
        leaf.mkdir(exist_ok=True)
        for pid in inside:
            (leaf / "cgroup.procs").write_text(str(pid), "utf-8")
        control.write_text(wanted, "utf-8")
