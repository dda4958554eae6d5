"""How many descriptors a process has open: packs leak them, and a process without one left can do nothing more."""

import os
import resource
from typing import Final

_OWN: Final = "/proc/self/fd"
_PORTABLE: Final = "/dev/fd"


def open_descriptors() -> int:
    """How many there are; as many as may be where not even one is left to count them with."""
    try:
        return len(os.listdir(_OWN if os.path.isdir(_OWN) else _PORTABLE))  # noqa: PTH112, PTH208 -- for each job
    except OSError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
