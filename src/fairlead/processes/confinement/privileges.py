"""A process gives up its privileges for good: capabilities, groups, the network of its machine."""

import ctypes
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.processes.confinement.kernel import failure, libc, own_status, prctl

_DUMPABLE: Final = 4
_DROP_BOUNDING: Final = 24
_SECURE_BITS: Final = 28
_NO_NEW_PRIVILEGES: Final = 38
_AMBIENT: Final = 47
_CLEAR_AMBIENT: Final = 4
_NO_PRIVILEGED_USER: Final = 0b1110_1111
"""User 0 gets no capabilities, and all of these bits are locked; see capabilities(7)."""
_CAPABILITY_VERSION: Final = 0x20080522
_CAPABILITIES_MAX: Final = 64
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_EMPTY: Final = ("CapInh", "CapPrm", "CapEff", "CapAmb")


def leave_network() -> str | None:
    """Move to a network of this process alone, where the system lets it; why not otherwise."""
    if sys.platform != "linux":
        return "no namespaces"
    if libc().unshare(_CLONE_NEWNET) == 0:
        return None
    user, group = os.getuid(), os.getgid()
    if libc().unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return failure("unshare").strerror
    with suppress(OSError):  # without the maps it goes by the number of nobody, and has the same files
        _map_ids(user, group)
    return None


def hide_memory() -> None:
    """Keep the memory, the environment and the open files of this process, and of its forks, from other processes.

    Whoever lacks CAP_SYS_PTRACE cannot read these in /proc any more, not even as the same user (ptrace(2)). It ends
    when the process executes another program.
    """
    if sys.platform == "linux":
        prctl(_DUMPABLE, 0)


def drop_capabilities() -> None:
    """Give up every capability, and every way to get one again. OSError where one is left that counts."""
    with suppress(OSError):
        os.setgroups([])
    for capability in range(_CAPABILITIES_MAX):
        with suppress(OSError):  # without CAP_SETPCAP there is a bounding set, and no way to use it
            prctl(_DROP_BOUNDING, capability)
    with suppress(OSError):
        prctl(_SECURE_BITS, _NO_PRIVILEGED_USER)
    prctl(_AMBIENT, _CLEAR_AMBIENT)
    prctl(_NO_NEW_PRIVILEGES, 1)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if libc().capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise failure("capset")
    status = own_status()
    kept = [name for name in _EMPTY if int(status.get(name, "0"), 16)]
    if kept or status.get("NoNewPrivs") != "1":
        raise OSError(f"left after they were dropped: {', '.join(kept) or 'new privileges'}")


def _map_ids(user: int, group: int) -> None:
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny", "utf-8")
    (own / "uid_map").write_text(f"{user} {user} 1", "utf-8")
    (own / "gid_map").write_text(f"{group} {group} 1", "utf-8")
