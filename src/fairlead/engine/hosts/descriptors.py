"""How many descriptors a process has open: packs leak them, and a process without one left can do nothing more."""

import os
import resource
from typing import Final

_ERRORS: Final = 2


def open_descriptors() -> int:
    """How many there are at least: the lowest number that is free; as many as may be where none is free.

    What is leaked fills the gaps first, so the number grows with it. It is asked for after each job, and to list all of
    them takes twenty times as long.
    """
    try:
        free = os.dup(_ERRORS)
    except OSError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.close(free)
    return free
