"""The filters of system calls (seccomp), compiled by libseccomp once in the server, and installed by each process.

One denies what no node needs and Landlock does not govern: other processes, parts of the kernel, sockets, attributes of
files. Where there is no network, another one allows what is listed, so that calls of newer kernels are not there. With
the network libraries of many kinds are at work, and the first is all there is.
"""

import ctypes
import errno
import importlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Final, TypeAlias

from fairlead.processes.confinement.kernel import failure, libc, prctl
from fairlead.processes.confinement.policy import ConfinementError
from fairlead.processes.confinement.syscalls import (
    ALLOWED,
    DENIED,
    NEW_NUMBERS,
    PAGES_IN_PIPES,
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
def syscall_filters(*, network: bool, shared_memory: bool, signals: bool, truncate: bool) -> tuple[bytes, ...]:
    """Compile the filters, in the order in which they are installed. ConfinementError where this machine cannot.

    `network` allows sockets of the Internet; `shared_memory` allows memory that a process's own bound does not count;
    `signals` and `truncate` allow what Landlock governs itself.
    """
    binding = _binding()
    found = _rules(network=network, shared_memory=shared_memory, signals=signals, truncate=truncate)
    denying = _compile(binding, binding.ALLOW, [(binding.ERRNO(number), name, of) for number, name, of in found])
    if network:
        return (denying,)
    # Of two that deny a call, the one that was installed last says with which error.
    allowing = _compile(binding, binding.ERRNO(errno.ENOSYS), [(binding.ALLOW, name, ()) for name in ALLOWED])
    return allowing, denying


def _compile(binding: ModuleType, default: object, rules: Iterable[tuple[object, str, Sequence[Condition]]]) -> bytes:
    """Compile a filter from its action by default, and from those for calls with some arguments."""
    made = binding.SyscallFilter(default)
    made.set_attr(binding.Attr.ACT_BADARCH, binding.KILL_PROCESS)
    for action, name, found in rules:
        number = _number(binding, name)
        if number >= 0:  # else this architecture has no such call
            arguments = [binding.Arg(one.argument, getattr(binding, one.operator), *one.values) for one in found]
            made.add_rule(action, number, *arguments)
    with tempfile.TemporaryFile() as file:
        made.export_bpf(file)
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
    yield from ((errno.ENOSYS, name, ()) for name in (*UNKNOWN, *(() if shared_memory else PAGES_IN_PIPES)))
    yield from conditions(network=network, shared_memory=shared_memory, signals=signals)


def _number(binding: ModuleType, name: str) -> int:
    number = int(binding.resolve_syscall(binding.Arch.NATIVE, name))
    return NEW_NUMBERS.get(name, number) if number == _UNKNOWN_NAME else number


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
