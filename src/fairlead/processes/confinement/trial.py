"""`python -m fairlead.processes.confinement.trial`: a process confines itself and tries what must fail then.

It reads a Trial from its standard input, as one line of JSON, and answers with a line of Tried. It then waits until its
input ends. `probe` starts it, and looks at what it may have changed.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from fairlead.processes.confinement.applying import apply
from fairlead.processes.confinement.kernel import libc
from fairlead.processes.confinement.policy import (
    CAPABILITIES,
    LANDLOCK,
    MEMORY,
    NETWORK,
    SECCOMP,
    ConfinementError,
    Policy,
    Report,
)

_CLONE_NEWUSER: Final = 0x10000000
_SOMEBODY: Final = 61_234
_PAGE: Final = 4_096
_PIPE_BYTES: Final = 131_072
_PEEK_DATA: Final = 2
_NO_PROCESS: Final = 2**31 - 2
_HIDING_SECONDS: Final = 60.0
_CONNECT_SECONDS: Final = 1.0


class Trial(msgspec.Struct, frozen=True):
    """What is tried under a policy: a file outside, a Unix socket and a port that somebody listens at, shared memory.

    `may_share` says that shared memory is counted, and may be had.
    """

    policy: Policy
    file: str
    socket: str
    port: int
    may_share: bool


class Tried(msgspec.Struct, frozen=True):
    """What came of it: what the process says of itself, each attempt that went well by its mechanism, who hides.

    `error` says why the process could not be confined at all.
    """

    report: Report = Report()
    succeeded: Sequence[tuple[str, str]] = ()
    hidden: int = 0
    error: str | None = None


def try_out(trial: Trial) -> Tried:
    """Confine this process and try; it is confined afterwards."""
    try:
        report = apply(trial.policy)
    except ConfinementError as error:
        return Tried(error=str(error))
    return Tried(report, [(mechanism, what) for mechanism, what, attempt in _attempts(trial) if attempt()], _hide())


def _attempts(trial: Trial) -> Sequence[tuple[str, str, Callable[[], bool]]]:
    file = trial.file
    attempts = [
        (LANDLOCK, "read a file", lambda: _works(lambda: Path(file).read_bytes())),
        (LANDLOCK, "write a file", lambda: _works(lambda: Path(file).write_bytes(b""))),
        (LANDLOCK, "list a folder", lambda: _works(lambda: list(Path(file).parent.iterdir()))),
        (LANDLOCK, "signal the server", lambda: _works(lambda: os.kill(os.getppid(), 0))),
        (SECCOMP, "change a file's mode", lambda: _works(lambda: _change_mode(Path(file)))),
        (SECCOMP, "trace a process", _may_trace),
        (SECCOMP, "make a namespace", lambda: libc().unshare(ctypes.c_int(_CLONE_NEWUSER)) == 0),
        (CAPABILITIES, "become another user", lambda: _works(lambda: os.setuid(_SOMEBODY))),
        (NETWORK, "connect to a Unix socket", lambda: _connects(socket.AF_UNIX, trial.socket)),
        (NETWORK, "listen to the network", lambda: _works(lambda: _raw().close())),
    ]
    if not trial.policy.allows_network:
        address = "127.0.0.1", trial.port
        attempts.append((NETWORK, "connect to a port", lambda: _connects(socket.AF_INET, address)))
        attempts.append((SECCOMP, "make a call that is not listed", _may_make_any_call))
    if not trial.may_share:
        attempts += [
            (MEMORY, "share memory", lambda: _works(lambda: mmap.mmap(-1, _PAGE).close())),
            (MEMORY, "enlarge the buffer of a socket", _enlarges_socket),
            (MEMORY, "enlarge a pipe", _enlarges_pipe),
            (MEMORY, "move pages into a pipe", _moves_pages),
        ]
        if not trial.policy.allows_network:
            attempts.append((MEMORY, "hide a descriptor in a socket", _hides_descriptor))
    return attempts


def _enlarges_socket() -> bool:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        before = ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        _works(lambda: ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * before))
        return ours.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > before


def _enlarges_pipe() -> bool:
    with _pipe() as (_, sending):
        return _works(lambda: fcntl.fcntl(sending, fcntl.F_SETPIPE_SZ, _PIPE_BYTES))


def _moves_pages() -> bool:
    with _pipe() as (receiving, sending), _pipe() as (_, other):
        os.write(sending, b"x")
        return _works(lambda: os.splice(receiving, other, 1))


def _hides_descriptor() -> bool:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        return _works(lambda: socket.send_fds(ours, [b"x"], [theirs.fileno()]))


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def _may_trace() -> bool:
    """Whether it could trace a process, if there were the one that it asks for."""
    libc().ptrace(_PEEK_DATA, _NO_PROCESS, None, None)
    return ctypes.get_errno() == errno.ESRCH


def _may_make_any_call() -> bool:
    """Whether the system knows a call that nodes do not need; there is no such file."""
    libc().syncfs(-1)
    return ctypes.get_errno() == errno.EBADF


def _works(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except OSError:
        return False
    return True


def _change_mode(file: Path) -> None:
    """Change it; PermissionError where nothing was changed, whatever the system says."""
    before = file.stat().st_mode
    file.chmod(before ^ 0o044)
    if file.stat().st_mode == before:
        raise PermissionError(file)


def _raw() -> socket.socket:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW)


def _connects(family: int, address: tuple[str, int] | str) -> bool:
    def connect() -> None:
        with socket.socket(family, socket.SOCK_STREAM) as made:
            made.settimeout(_CONNECT_SECONDS)
            made.connect(address)

    return _works(connect)


def _hide() -> int:
    """Leave a process behind that has neither our session nor a living parent; its number."""
    receiving, sending = os.pipe()
    if os.fork() == 0:
        os.setsid()
        hidden = os.fork()
        if hidden == 0:
            os.close(sending)
            time.sleep(_HIDING_SECONDS)
            os._exit(0)
        os.write(sending, b"%d" % hidden)
        os._exit(0)
    os.close(sending)
    os.wait()
    with os.fdopen(receiving, "rb") as told:
        return int(told.read())


if __name__ == "__main__":
    answer = try_out(msgspec.json.decode(sys.stdin.buffer.readline(), type=Trial))
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()
    sys.stdin.buffer.read()
