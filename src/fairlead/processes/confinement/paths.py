"""Finds the files that a Python program needs, and checks that nothing protected is among them."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairlead.processes.confinement import landlock
from fairlead.processes.confinement.policy import ConfinementError, Policy

_PROGRAMS: Final = ("/usr/bin", "/bin", "/usr/local/bin")
_LIBRARIES: Final = ("/usr/lib", "/lib", "/usr/lib64", "/lib64", "/usr/lib32", "/usr/libexec", "/usr/local/lib")
_DATA: Final = (
    "/usr/share/fontconfig",
    "/usr/share/fonts",
    "/usr/share/locale",
    "/usr/share/mime",
    "/usr/share/zoneinfo",
    "/usr/local/share/fonts",
    "/var/cache/fontconfig",
)
_CONFIGURATION: Final = (
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
_OF_NETWORK: Final = (
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/pki/tls",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
    "/usr/share/ca-certificates",
)
_MACHINE: Final = (
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/random",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/random",
    "/dev/urandom",
)
_OWN: Final = "/proc/self"
_PROCESSES: Final = "/proc"
_NOWHERE: Final = "/dev/null"


def python_paths() -> Iterator[str]:
    """The paths of this interpreter, its libraries and the modules that it can import."""
    yield from (sys.executable, os.path.realpath(sys.executable), f"{sys.prefix}/pyvenv.cfg")
    yield os.path.dirname(os.__file__)  # noqa: PTH120 -- entries are texts
    with suppress(OSError):
        yield from (str(path) for path in Path(sys.base_prefix, "lib").glob("libpython*"))
    for entry in sys.path:
        if entry and os.path.isabs(entry):  # noqa: PTH117 -- entries are texts
            yield entry


def readable_paths(policy: Policy) -> Sequence[str]:
    """Everything below which files can be read under a policy, except what is also writable."""
    of_network = _OF_NETWORK if policy.allows_network else ()
    processes = _PROCESSES if policy.is_forked else _OWN
    fixed = (*_PROGRAMS, *_LIBRARIES, *_DATA, *_CONFIGURATION, *of_network, *_MACHINE, processes)
    return tuple(dict.fromkeys((*fixed, *python_paths(), *policy.readable)))


def rules_of(policy: Policy) -> Iterator[tuple[str, int]]:
    """The rules of a policy. ConfinementError where something can be read that is to be protected."""
    readable = readable_paths(policy)
    refuse_exposed(policy.protected, (*readable, *policy.named, *policy.writable))
    for path in readable:
        yield path, landlock.READ
    for path in policy.named:
        yield path, landlock.READ_BY_NAME
    for path in policy.writable:
        yield path, landlock.WRITE
    for path in (*policy.devices, _NOWHERE):
        yield path, landlock.USE


def refuse_exposed(protected: Iterable[str], readable: Iterable[str]) -> None:
    """ConfinementError where a protected path lies below one that can be read, by whatever name."""
    below = {identity: path for path in readable for identity in _identities(path)}
    for path in protected:
        for ancestor in (Path(path).resolve(), *Path(path).resolve().parents):
            exposing = next((below[one] for one in _identities(str(ancestor)) if one in below), None)
            if exposing is not None:
                words = f"{path} lies below {exposing}, which confined processes can read; move it somewhere else"
                raise ConfinementError(words)


def _identities(path: str) -> Iterator[tuple[int, int] | str]:
    """The identity of a file: its real path, and if it exists its device and inode."""
    real = os.path.realpath(path)
    yield real
    try:
        found = os.stat(real)  # noqa: PTH116 -- of texts, hundreds of times
    except OSError:
        return
    yield found.st_dev, found.st_ino
