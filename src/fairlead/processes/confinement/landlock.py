"""Landlock: restricts which files a process can open, and keeps it from ports, signals and abstract sockets outside.

Linux has it since 5.13 (version 1); each version since then governs more. What a version does not govern, such as
`chmod` in all and `truncate` before the third, is left to the filter of system calls. There are bindings on PyPI, all
young; the four calls that are used here are stable parts of the kernel's interface.
"""

import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from fairlead.processes.confinement.kernel import failure, libc, prctl

_CREATE: Final = 444
_ADD: Final = 445
_RESTRICT: Final = 446
_VERSION: Final = 1
_PATH_BENEATH: Final = 1
_NO_NEW_PRIVILEGES: Final = 38
"""PR_SET_NO_NEW_PRIVS of prctl(2), without which no process may restrict itself."""

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_MAKE_CHAR: Final = 1 << 6
_MAKE_SOCK: Final = 1 << 9
_MAKE_BLOCK: Final = 1 << 11
_TRUNCATE: Final = 1 << 14
_IOCTL_DEV: Final = 1 << 15
READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
READ_BY_NAME: Final = _READ_FILE
WRITE: Final = ((1 << 16) - 1) & ~(_MAKE_CHAR | _MAKE_SOCK | _MAKE_BLOCK | _IOCTL_DEV)
USE: Final = _READ_FILE | _WRITE_FILE | _TRUNCATE | _READ_DIR | _IOCTL_DEV
_OF_FILES: Final = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV

_FILE_RIGHTS: Final = (0, 13, 14, 15, 15, 16)
"""How many rights about files each version knows; later versions know no others that are used here."""
_TRUNCATE_FROM: Final = 3
_NETWORK_FROM: Final = 4
_SCOPES_FROM: Final = 6
_BIND_TCP: Final = 1
_CONNECT_TCP: Final = 2
_SCOPES: Final = 0b11
"""Abstract sockets and signals stay among the processes of a domain."""


def landlock_version() -> int:
    """The version of Landlock that the system has; 0 for none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(libc().syscall(_CREATE, None, 0, _VERSION)))


def governs_truncate(version: int) -> bool:
    """Whether a version keeps a process from truncating files by their names."""
    return version >= _TRUNCATE_FROM


def governs_signals(version: int) -> bool:
    """Whether a version keeps a process from sending signals outside."""
    return version >= _SCOPES_FROM


def restrict(rules: Iterable[tuple[str, int]], version: int, *, network: bool) -> str:
    """Restrict this process to some paths and their rights, for good; returns what is governed. OSError.

    Missing paths need no rule. With `network` TCP connections may be made, but no port may be bound.
    """
    handled = (1 << _FILE_RIGHTS[min(version, len(_FILE_RIGHTS) - 1)]) - 1
    ports = 0 if version < _NETWORK_FROM else _BIND_TCP if network else _BIND_TCP | _CONNECT_TCP
    scopes = _SCOPES if governs_signals(version) else 0
    attributes = struct.pack("=QQQ", handled, ports, scopes)
    size = 24 if scopes else 16 if ports else 8
    descriptor = libc().syscall(_CREATE, attributes, size, 0)
    if descriptor < 0:
        raise failure("landlock_create_ruleset")
    try:
        for path, rights in rules:
            _allow(descriptor, path, rights & handled)
        prctl(_NO_NEW_PRIVILEGES, 1)
        if libc().syscall(_RESTRICT, descriptor, 0) != 0:
            raise failure("landlock_restrict_self")
    finally:
        os.close(descriptor)
    governed = ["files", *(["TCP"] if ports else []), *(["signals", "abstract sockets"] if scopes else [])]
    return f"version {version}: {', '.join(governed)}"


def _allow(rules: int, path: str, rights: int) -> None:
    with suppress(FileNotFoundError, PermissionError, NotADirectoryError):  # what cannot be opened needs no rule
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not os.path.isdir(path):  # noqa: PTH112 -- an entry of sys.path may be a file
                rights &= _OF_FILES
            if libc().syscall(_ADD, rules, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0) != 0:
                raise failure(f"landlock_add_rule for {path}")
        finally:
            os.close(descriptor)
