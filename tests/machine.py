"""How slow this machine is while the tests run: limits of time that only a broken program reaches follow it.

It is measured once, when a run of the tests starts, and inherited by all of its processes. Beside eight busy loops on
two cores a process has a fifth of the time that it has on an idle machine, and what waits for it waits five times as
long.
"""

import os
import time
from typing import Final

_VARIABLE: Final = "TESTS_SLOWNESS"
_USUAL_SECONDS: Final = 0.3
"""What so many loops take on an idle core of 2.5 GHz."""
_LOOPS: Final = 10_000_000
_SLOWNESS_MAX: Final = 20.0


def measure() -> None:
    """Measure the machine, and write the result where the processes of this run find it."""
    began = time.monotonic()
    for _ in range(_LOOPS):
        pass
    taken = time.monotonic() - began
    os.environ[_VARIABLE] = str(min(_SLOWNESS_MAX, max(1.0, taken / _USUAL_SECONDS)))


def limit(seconds: float) -> float:
    """Return a limit of an idle machine in seconds of this one; the same where nothing was measured."""
    return seconds * float(os.environ.get(_VARIABLE, "1"))
