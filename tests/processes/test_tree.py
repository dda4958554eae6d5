"""A child and what it has started end together, also while the process that ends them is ending."""

import subprocess
import sys
from typing import Final

import psutil

_ENDS_AT_ONCE: Final = """
import subprocess, sys, time
from fairlead.processes.confinement import descendants
from fairlead.processes.tree import ProcessTree

end_descendants = descendants.end_descendants

def end_slowly(pid):
    time.sleep(1)
    return end_descendants(pid)

descendants.end_descendants = end_slowly
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleep, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
ProcessTree(child.pid).kill()
print(child.pid, flush=True)
"""
"""Kills a child that takes a while to find all below, and is done itself."""


def test_child_that_is_being_killed_outlives_nobody() -> None:
    """Its parent ends in the middle of that, and leaves nothing that was stopped and never killed."""
    done = subprocess.run([sys.executable, "-c", _ENDS_AT_ONCE], capture_output=True, text=True, check=True, timeout=60)
    pid = int(done.stdout)
    is_left = psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    if is_left:
        psutil.Process(pid).kill()
    assert not is_left
