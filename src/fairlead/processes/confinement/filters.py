"""The filter of system calls (seccomp), compiled by libseccomp once in the server, and installed by each process.

It denies what no node needs and Landlock does not govern: other processes, parts of the kernel, sockets, attributes of
files. It lists what is denied, so that a library which uses a new, harmless call goes on working.
"""

import ctypes
import errno
import importlib
import tempfile
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any, Final, TypeAlias

from fairlead.processes.confinement.kernel import failure, libc, prctl
from fairlead.processes.confinement.policy import ConfinementError
from fairlead.processes.confinement.syscalls import (
    DENIED,
    NEW_NUMBERS,
    PRETENDED,
    SHARED_MEMORY,
    SIGNALS,
    UNKNOWN,
    Condition,
    conditions,
)

_SECCOMP: Final = 22
_NO_NEW_PRIVILEGES: Final = 38
_MODE_FILTER: Final = 2
_INSTRUCTION_BYTES: Final = 8
_UNKNOWN_NAME: Final = -1
_MISSING: Final = (
    "the system library libseccomp (libseccomp.so.2) is missing; "
    "install libseccomp2 (Debian, Ubuntu) or libseccomp (Fedora, Alpine, Arch)"
)
_Rule: TypeAlias = tuple[int, str, tuple[Condition, ...]]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


@cache
def syscall_filter(*, network: bool, shared_memory: bool, signals: bool, truncate: bool) -> bytes:
    """Compile a filter. ConfinementError where this machine cannot.

    `network` allows sockets of the Internet; `shared_memory` allows memory that a process's own bound does not count;
    `signals` and `truncate` allow what Landlock governs itself.
    """
    binding = _binding()
    rules = binding.SyscallFilter(binding.ALLOW)
    rules.set_attr(binding.Attr.ACT_BADARCH, binding.KILL_PROCESS)
    for number, name, found in _rules(network=network, shared_memory=shared_memory, signals=signals, truncate=truncate):
        _add(binding, rules, number, name, found)
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def install(program: bytes) -> None:
    """Filter the system calls of this process and its descendants from now on, for good; OSError."""
    prctl(_NO_NEW_PRIVILEGES, 1)
    filled = _Program(len(program) // _INSTRUCTION_BYTES, program)
    if libc().prctl(_SECCOMP, ctypes.c_ulong(_MODE_FILTER), ctypes.byref(filled), 0, 0) != 0:
        raise failure("seccomp")


def _rules(*, network: bool, shared_memory: bool, signals: bool, truncate: bool) -> Iterator[_Rule]:
    denied = [*DENIED]
    denied += [] if shared_memory else SHARED_MEMORY
    denied += [] if signals else SIGNALS
    denied += [] if truncate else ["truncate", "truncate64"]
    yield from ((errno.EPERM, name, ()) for name in denied)
    yield from ((0, name, ()) for name in PRETENDED)
    yield from ((errno.ENOSYS, name, ()) for name in UNKNOWN)
    yield from conditions(network=network, shared_memory=shared_memory, signals=signals)


def _add(binding: ModuleType, rules: Any, number: int, name: str, found: tuple[Condition, ...]) -> None:
    call = binding.resolve_syscall(binding.Arch.NATIVE, name)
    if call == _UNKNOWN_NAME:
        call = NEW_NUMBERS.get(name, call)
    if call < 0:
        return  # this architecture has no such call
    arguments = [binding.Arg(one.argument, getattr(binding, one.operator), *one.values) for one in found]
    rules.add_rule(binding.ERRNO(number), call, *arguments)


def _binding() -> ModuleType:
    """The binding of libseccomp itself where a distribution has installed it, else the one with the same names."""
    for name in ("seccomp", "pyseccomp"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
        except (ImportError, RuntimeError, OSError) as error:
            raise ConfinementError(_MISSING) from error
    raise ConfinementError("the Python package pyseccomp is missing; install it")
