"""What a confined process may do, and which mechanisms hold it to that. Both are records that travel."""

from collections.abc import Sequence
from typing import Final

import msgspec

LANDLOCK: Final = "landlock"
SECCOMP: Final = "seccomp"
CAPABILITIES: Final = "capabilities"
NETWORK: Final = "network"
LIMITS: Final = "limits"
DESCENDANTS: Final = "descendants"
MEMORY: Final = "memory"
MECHANISMS: Final = (LANDLOCK, SECCOMP, CAPABILITIES, NETWORK, LIMITS, DESCENDANTS, MEMORY)

FILES_OPEN_MAX: Final = 4_096
FILE_BYTES_MAX: Final = 8 * 2**30
PROCESSES_MAX: Final = 1_024


class ConfinementError(Exception):
    """A process cannot be confined as its policy requires; the message says why, and how to fix it."""


class Policy(msgspec.Struct, frozen=True):
    """What a process may see, reach and use.

    Files below `readable` can be read, listed and executed; those below `named` can be read by their names; those
    below `writable` written, too; `devices` are read, written and asked (ioctl). What Python and its libraries need
    comes with it. Nothing `protected` may lie where something can be read: the policy is refused then.

    `filters` are compiled filters of system calls (`with_filters`), to be installed in this order. `memory` bounds each
    process and is the bound of the tree, in bytes, 0 is no bound; `processes` counts processes and threads.

    With `is_required` every mechanism has to hold. A template `is_forked` into processes that `narrow` the policy.
    """

    readable: Sequence[str] = ()
    named: Sequence[str] = ()
    writable: Sequence[str] = ()
    devices: Sequence[str] = ()
    protected: Sequence[str] = ()
    filters: Sequence[bytes] = ()
    allows_network: bool = False
    memory: int = 0
    processes: int = PROCESSES_MAX
    files: int = FILES_OPEN_MAX
    file_bytes: int = FILE_BYTES_MAX
    is_required: bool = False
    is_forked: bool = False
    landlock_version_max: int = 7
    """Newer versions of Landlock are used as this one."""


class Mechanism(msgspec.Struct, frozen=True):
    """One mechanism: whether it holds, and which parts of it, or why not."""

    name: str
    detail: str
    is_held: bool = True


class Report(msgspec.Struct, frozen=True):
    """What holds of a policy."""

    mechanisms: Sequence[Mechanism] = ()

    @property
    def missing(self) -> Sequence[Mechanism]:
        """Those that do not hold."""
        return [mechanism for mechanism in self.mechanisms if not mechanism.is_held]
