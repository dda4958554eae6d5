"""Whether a process may be forked for several workspaces: a look from outside, which its code cannot answer for itself.

A thread would be lost in the fork. An open file or a shared piece of memory would be a way from one workspace's host to
another's. Code of a pack that leaves any of them behind is loaded by each host for itself.
"""

from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")
_DESCRIPTORS_MAX: Final = 5
"""Input, output, errors, and two sockets."""
_SHARED: Final = "s"
_WRITABLE: Final = "w"


def is_forkable(pid: int) -> bool:
    """Look at a process; False where there is no way to look. May take some milliseconds."""
    own = _PROCESSES / str(pid)
    try:
        if len(list((own / "task").iterdir())) > 1 or len(list((own / "fd").iterdir())) > _DESCRIPTORS_MAX:
            return False
        with (own / "maps").open("r", encoding="utf-8", errors="replace") as maps:
            return not any(_is_shared(line) for line in maps)
    except OSError:
        return False


def _is_shared(line: str) -> bool:
    rights = line.split(maxsplit=2)[1]
    return _SHARED in rights and _WRITABLE in rights
