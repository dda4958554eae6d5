"""What a host may take of the machine, and how it dies: set by itself, before any code of others is loaded."""

import ctypes
import faulthandler
import os
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_FILES_OPEN_MAX: Final = 4096
_OOM_SCORE: Final = "700"
_OOM_SCORE_FILE: Final = Path("/proc/self/oom_score_adj")
_PARENT_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def confine(memory: int) -> None:
    """Bound this process: memory in bytes (0 no bound), open files, no core files; the system takes it first.

    Where a bound cannot be set, as on systems other than Linux, the server's own watch has to do.
    """
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_NOFILE, _FILES_OPEN_MAX)
    if memory:
        _lower(resource.RLIMIT_DATA, memory)
    with suppress(OSError):
        _OOM_SCORE_FILE.write_text(_OOM_SCORE)


def die_with_parent() -> None:
    """Have the system kill this process when its server dies, even while no code of ours gets a turn."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)


def be_quiet() -> None:
    """Send what nodes print to nowhere. What kills the process is still written where errors went until now."""
    last_words = os.fdopen(os.dup(2), "wb", buffering=0)
    faulthandler.enable(last_words)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _lower(what: int, bound: int) -> None:
    _, hard = resource.getrlimit(what)
    bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(what, (bound, bound))
