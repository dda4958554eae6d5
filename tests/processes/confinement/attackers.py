"""Processes that confine themselves and then do what code of strangers may try."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from fairlead.processes.confinement.landlock import landlock_version
from fairlead.processes.confinement.policy import Policy
from fairlead.processes.confinement.probe import with_filters

NOBODY: Final = 65_534
_SECONDS: Final = 50
_PROGRAM: Final = """
import asyncio, ctypes, json, mmap, multiprocessing, os, resource, shutil, signal, socket, subprocess, sys, tempfile
import threading, time, selectors, concurrent.futures.thread, multiprocessing.connection, encodings.ascii
import msgspec
from fairlead.processes.confinement import applying, limits
from fairlead.processes.confinement.policy import ConfinementError, Policy

def tried(attempt):
    try:
        return attempt()
    except OSError as error:
        return type(error).__name__

policy = msgspec.json.decode(sys.argv[1], type=Policy)
if sys.argv[3]:
    os.setgroups([]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3]))
libc = ctypes.CDLL(None, use_errno=True)
multiprocessing.Pipe()  # the user nobody may not reach this Python any more
subprocess.run(["/bin/true"])
try:
    report = applying.apply(policy)
except ConfinementError as error:
    value = f"refused: {error}"
else:
    value = None
    exec(sys.argv[2])
print(json.dumps(value), flush=True)
"""


def users() -> list[int | None]:
    """As whom attackers can be run here: as who runs the tests, and where that is root as nobody, too."""
    return [None, NOBODY] if os.getuid() == 0 else [None]


def versions() -> list[int]:
    """Versions of Landlock that can be tried here: the newest, and those of older kernels that govern less."""
    newest = min(landlock_version(), 7)
    return [newest, *(version for version in (5, 3, 1) if version < newest)]


needs_landlock: Final = pytest.mark.skipif(landlock_version() < 1, reason="the kernel has no Landlock")


@dataclass(frozen=True)
class Place:
    """A folder with what an attacker may have, and one with what it may not."""

    own: Path
    outside: Path

    def policy(self, **changed: Any) -> Policy:
        """Return what a host of packs may."""
        given = {"writable": (str(self.own),), "protected": (str(self.outside),), "is_required": True, **changed}
        return with_filters(Policy(**given), shared_memory=False)


def place_in(folder: Path) -> Place:
    """Make both folders; anyone who runs an attack may use them as far as the system's own modes go."""
    folder.chmod(0o777)
    made = Place(folder / "own", folder / "outside")
    for one in (made.own, made.outside):
        one.mkdir()
        one.chmod(0o777)
    return made


def attack(policy: Policy, code: str, user: int | None = None) -> Any:
    """Return the `value` that some code leaves in a confined process, or why that could not be confined."""
    done = subprocess.run(
        command(policy, code, user), capture_output=True, text=True, timeout=_SECONDS, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def command(policy: Policy, code: str, user: int | None = None) -> list[str]:
    """Return the command that runs some code in a confined process."""
    words = msgspec.json.encode(policy).decode()
    return [sys.executable, "-P", "-c", _PROGRAM, words, textwrap.dedent(code), "" if user is None else str(user)]
