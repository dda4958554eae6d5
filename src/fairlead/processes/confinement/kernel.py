"""Calls of the Linux kernel that Python does not wrap."""

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/status")
_TASKS: Final = Path("/proc/self/task")


@cache
def libc() -> ctypes.CDLL:
    """The C library, with its error numbers kept for `failure`."""
    return ctypes.CDLL(None, use_errno=True)


def failure(what: str) -> OSError:
    """The error of the call that has just failed."""
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


def prctl(option: int, argument: int, *others: int) -> None:
    """Change an attribute of this process; OSError."""
    padded = (argument, *others, 0, 0, 0)[:4]
    if libc().prctl(option, *(ctypes.c_ulong(value) for value in padded)) != 0:
        raise failure(f"prctl {option}")


def own_status() -> dict[str, str]:
    """The status of this process from the kernel: `CapEff`, `Seccomp`, `NoNewPrivs` and others."""
    lines = _STATUS.read_text("utf-8", "replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def thread_count() -> int:
    """How many threads this process has."""
    return sum(1 for _ in _TASKS.iterdir())
