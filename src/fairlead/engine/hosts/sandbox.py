"""What a host may see of the files of its machine: the programs it is made of, node packs, blobs, its own folder.

Set by the host itself, for good, before any code of others is loaded: Landlock, which Linux has since 5.13. Where the
system has none the host goes on without. Nothing it may read can be listed that is anybody's secret: a blob is found
by its name alone, and no other process can be traced, or (since Linux 6.12) sent a signal.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_CREATE: Final = 444
_ADD: Final = 445
_RESTRICT: Final = 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_NO_NEW_PRIVILEGES: Final = 38
"""PR_SET_NO_NEW_PRIVS of prctl(2), without which nobody may restrict himself."""

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_MAKE_CHAR: Final = 1 << 6
_MAKE_BLOCK: Final = 1 << 11
_IOCTL_DEV: Final = 1 << 15
_RIGHTS: Final = (0, 13, 14, 15, 15, 16)
"""How many rights each version of Landlock knows, as far as they are about files."""
_SCOPED_FROM: Final = 6
_SCOPES: Final = 0b11
"""Abstract sockets and signals stay among the processes of a host."""
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICES: Final = _READ_FILE | _WRITE_FILE | _READ_DIR | _IOCTL_DEV
_MODELS: Final = "models"
_SYSTEM: Final = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/sys")
_OF_PROC: Final = ("self", "cpuinfo", "driver", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version")
"""What may be seen of /proc: the machine and the host itself, no other process."""


def restrict(folder: Path, packs: Iterable[str], blobs: str | None) -> bool:
    """See from now on only what a host needs, and write only in its own folder; False where the system cannot do it.

    Beside each of `packs` the folder of its models can be read, too. Of `blobs` nothing can be listed.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, 0, _VERSION)
    if version < 1:
        return False
    handled = (1 << _RIGHTS[min(version, len(_RIGHTS) - 1)]) - 1
    scopes = _SCOPES if version >= _SCOPED_FROM else 0
    attributes = struct.pack("=QQQ", handled, 0, scopes)
    size = len(attributes) if scopes else 8
    rules = libc.syscall(_CREATE, attributes, size, 0)
    if rules < 0:
        return False
    try:
        for path, rights in _allowed(folder, packs, blobs):
            _allow(libc, rules, path, rights & handled)
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT, rules, 0) == 0)
    finally:
        os.close(rules)


def _allowed(folder: Path, packs: Iterable[str], blobs: str | None) -> Iterable[tuple[str, int]]:
    for path in {*_SYSTEM, sys.prefix, sys.base_prefix, sys.exec_prefix, *(entry for entry in sys.path if entry)}:
        yield path, _READ
    for name in _OF_PROC:
        yield f"/proc/{name}", _READ
    for pack in packs:
        yield pack, _READ
        yield str(Path(pack).with_name(_MODELS)), _READ
    if blobs is not None:
        yield blobs, _READ_FILE
    yield "/dev", _DEVICES
    yield str(folder), ~(_MAKE_CHAR | _MAKE_BLOCK)


def _allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    """Allow something below a path, or of a file; what is not there needs no rule."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not os.path.isdir(path):  # noqa: PTH112 -- an entry of sys.path may be a file
                rights &= _EXECUTE | _READ_FILE | _WRITE_FILE
            libc.syscall(_ADD, rules, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0)
        finally:
            os.close(descriptor)
