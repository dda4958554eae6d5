"""Ends whatever a run of the tests, the attacks, the catalog or a benchmark has started, however the run itself ended.

A run that is killed cannot stop its servers. So each run starts this program, marks its own environment, which all its
processes inherit, and holds one end of a pipe. The pipe breaks when the run ends, for whatever reason; the program then
kills every process that carries the mark, with its descendants, and removes the run's folders of databases.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil

_PREFIX: Final = "TESTS_RUN_"
_FOLDERS: Final = "fairlead-pg"
PLACES: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 -- mkdtemp makes our own inside
"""Where folders for PostgreSQL may be when the usual place is closed to others."""

_GRACE_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.05


def watch_this_run() -> None:
    """Mark this process's environment, and start the program that cleans up once this process has ended."""
    mark = _PREFIX + uuid4().hex
    theirs, ours = os.pipe()  # neither is inherited by what the tests start
    nowhere = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
    os.posix_spawn(
        sys.executable, [sys.executable, "-P", __file__, mark], os.environ, setsid=True,  # Ctrl-C is for the tests
        file_actions=[(os.POSIX_SPAWN_DUP2, theirs, 0), *nowhere],
    )  # fmt: skip
    os.close(theirs)
    os.environ[mark] = str(ours)


def run_variables() -> dict[str, str]:
    """Return the variables by which processes of this run are known, for those that get few other ones."""
    return {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}


def folder_prefix() -> str:
    """Return what the name of a temporary folder must begin with to be removed at the end of this run."""
    return "-".join([_FOLDERS, *(name.removeprefix(_PREFIX) for name in run_variables()), ""])


def main(mark: str) -> None:
    """Wait for the end of a run, then end what is left of it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    kill_at = time.monotonic() + _GRACE_SECONDS
    give_up_at = kill_at + _GRACE_SECONDS
    while (found := _processes_of(mark)) and time.monotonic() < give_up_at:
        for process in found:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                _end(process, gently=time.monotonic() < kill_at)
        time.sleep(_PAUSE_SECONDS)
    for parent in {tempfile.gettempdir(), *PLACES}:
        for folder in Path(parent).glob(f"{_FOLDERS}*{mark.removeprefix(_PREFIX)}*"):
            shutil.rmtree(folder, ignore_errors=True)


def _processes_of(mark: str) -> AbstractSet[psutil.Process]:
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):  # what may not be read ends with its parent
            if process.status() != psutil.STATUS_ZOMBIE and mark in process.environ():
                found |= {process, *process.children(recursive=True)}
    return found


def _end(process: psutil.Process, *, gently: bool) -> None:
    """Kill a process; PostgreSQL, which would leave shared memory behind, is first asked to stop at once."""
    asked = gently and process.name() == "postgres"
    process.send_signal(signal.SIGQUIT if asked else signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
