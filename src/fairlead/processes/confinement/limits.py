"""Resource limits of a process, and its end. It sets them itself; children inherit most, and none can be raised."""

import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.processes.confinement.kernel import prctl
from fairlead.processes.confinement.policy import FILES_OPEN_MAX, Policy

_OOM_SCORE: Final = "700"
_OOM_SCORE_FILE: Final = Path("/proc/self/oom_score_adj")
_PARENT_DEATH_SIGNAL: Final = 1
_CHILD_SUBREAPER: Final = 36
_PROCESSES: Final = Path("/proc")
_SIGNALS_MAX: Final = 1_024
"""How many signals and timers of a user may wait before a confined process is refused more: the kernel keeps them."""


def bound(memory: int, files: int = FILES_OPEN_MAX) -> None:
    """Bound this process: memory in bytes (0: no bound), open files, no core files; the OOM killer prefers it.

    Where a bound cannot be set, as on systems other than Linux, only the server's own watch bounds it.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, files)
    if memory:
        _lower(resource.RLIMIT_DATA, memory)
    with suppress(OSError):
        _OOM_SCORE_FILE.write_text(_OOM_SCORE)


def bound_further(policy: Policy) -> str:
    """Add the bounds that only untrusted code needs; returns those that hold."""
    _lower(resource.RLIMIT_FSIZE, policy.file_bytes)
    if sys.platform == "linux":
        _lower(resource.RLIMIT_MSGQUEUE, 0)
        _lower(resource.RLIMIT_SIGPENDING, _SIGNALS_MAX)
        _lower(resource.RLIMIT_RTPRIO, 0)
    held = f"{policy.files} open files, {policy.file_bytes} bytes a file"
    if os.getuid() == 0:
        return f"{held}; processes of root are counted by the server"
    _lower(resource.RLIMIT_NPROC, _threads_of(os.getuid()) + policy.processes)
    return f"{held}, {policy.processes} processes"


def die_with_parent() -> None:
    """Have the system kill this process when its server dies, even while it executes other code."""
    if sys.platform == "linux":
        prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def keep_orphans() -> None:
    """Become the parent of orphaned descendants, so that none escapes by `setsid` and a second fork."""
    if sys.platform == "linux":
        prctl(_CHILD_SUBREAPER, 1)


def _threads_of(user: int) -> int:
    """How many threads a user has: the system counts them all against the bound of any process of that user."""
    count = 0
    for folder in _PROCESSES.glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if folder.stat().st_uid == user:
                count += folder.joinpath("task").stat().st_nlink - 2
    return count


def _lower(what: int, limit: int) -> None:
    _, hard = resource.getrlimit(what)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(what, (limit, limit))
