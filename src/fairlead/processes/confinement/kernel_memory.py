"""What the kernel holds for a process beside its pages, at the most: no file of /proc says how much it is.

A filter keeps a confined process from making buffers larger, from handing pages of its own to the kernel, and from
sending descriptors to where nobody sees them (`syscalls`). So each descriptor is worth a known number of bytes at most.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

_PROCESSES: Final = Path("/proc")
_SETTINGS: Final = Path("/proc/sys/net/core")
_SENT_BYTES: Final = 212_992
_OPTION_BYTES: Final = 131_072
_SENDS: Final = 3
"""What waits in a socket, in sizes of its buffer: that is passed by one message, which may take two of it."""
_PIPE_BYTES: Final = 65_536
_WATCH_BYTES: Final = 256
"""What epoll keeps for each descriptor that it watches."""
_DESCRIPTOR_BYTES: Final = 1_024
THREAD_BYTES: Final = 32_768
"""The stack and the record of a thread."""


def buffers_at_most(pid: int) -> int:
    """The bytes of buffers that a process can have at the most with as many descriptors as it has. Takes one look."""
    count = _count(pid)
    return count * _socket_bytes() + (count // 2) ** 2 * _WATCH_BYTES


def buffers_of(pids: Collection[int]) -> int:
    """The same of several processes by the kinds of their descriptors, where those can be seen: that takes longer.

    A socket or a pipe that several of them have counts once.
    """
    shared, total = set[str](), 0
    for pid in pids:
        links = list(_links(pid))
        if not links:
            total += buffers_at_most(pid)
            continue
        kinds = Counter(link.partition(":")[0] for link in links)
        shared.update(link for link in links if link.startswith(("socket:", "pipe:")))
        watching = sum(link == "anon_inode:[eventpoll]" for link in links)
        total += kinds.total() * (_DESCRIPTOR_BYTES + watching * _WATCH_BYTES)
    return total + sum(_socket_bytes() if link.startswith("socket:") else _PIPE_BYTES for link in shared)


@cache
def _socket_bytes() -> int:
    """What a socket whose buffer was not made larger takes at the most: what waits in it, and its options."""
    return _SENDS * _setting("wmem_default", _SENT_BYTES) + _setting("optmem_max", _OPTION_BYTES)


def _setting(name: str, default: int) -> int:
    with suppress(OSError, ValueError):
        return int((_SETTINGS / name).read_text("ascii"))
    return default  # it is not shown in every network namespace


def _count(pid: int) -> int:
    """How many descriptors a process has; where nobody may see that, for how many it has room."""
    process = _PROCESSES / str(pid)
    with suppress(OSError):
        if count := (process / "fd").stat().st_size:  # since Linux 6.2, of every process
            return count
        return sum(1 for _ in (process / "fd").iterdir())
    with suppress(OSError, StopIteration, ValueError):
        lines = (process / "status").read_text("utf-8", "replace").splitlines()
        return int(next(line for line in lines if line.startswith("FDSize:")).split()[1])
    return 0  # it has ended


def _links(pid: int) -> Iterator[str]:
    """What the descriptors of a process lead to; nothing where it lets nobody see."""
    with suppress(OSError):
        for path in (_PROCESSES / str(pid) / "fd").iterdir():
            with suppress(OSError):
                yield str(path.readlink())
