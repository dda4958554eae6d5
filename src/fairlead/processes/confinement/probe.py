"""Finds out what holds on this machine: a process is confined, tries attacks, and is ended with all it has started."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from fairlead.processes.confinement import landlock
from fairlead.processes.confinement.cgroups import ControlGroup, ControlGroups
from fairlead.processes.confinement.descendants import children, end_tree, processes
from fairlead.processes.confinement.filters import syscall_filters
from fairlead.processes.confinement.limits import keep_orphans
from fairlead.processes.confinement.policy import (
    DESCENDANTS,
    MECHANISMS,
    MEMORY,
    ConfinementError,
    Mechanism,
    Policy,
    Report,
)
from fairlead.processes.confinement.trial import Trial, Tried

_SECONDS: Final = 20.0
_GONE_SECONDS: Final = 2.0
_MODE: Final = 0o600
_OTHER_SYSTEM: Final = "only Linux has it"
_COUNTED: Final = "each process and the tree, with shared memory, by a control group"
_WATCHED: Final = (
    "each process by the system; the tree by the server every second, with buffers of sockets and pipes at their most, "
    "but without other records of the kernel; no shared memory"
)
_GROUP: Final = "ended by a control group"
_ADOPTED: Final = "adopted and ended by the server"


def with_filters(policy: Policy, *, shared_memory: bool) -> Policy:
    """A policy with the filters of system calls that this machine's Landlock asks for. ConfinementError for none."""
    version = min(landlock.landlock_version(), policy.landlock_version_max)
    compiled = syscall_filters(
        network=policy.allows_network,
        shared_memory=shared_memory,
        signals=landlock.governs_signals(version),
        truncate=landlock.governs_truncate(version),
    )
    return msgspec.structs.replace(policy, filters=compiled)


def probe(policy: Policy, groups: ControlGroups | None) -> Report:
    """Try a policy; it is taken without what it requires, so that everything that does not hold is known.

    ConfinementError where no process can be confined by it at all, such as when something protected could be read.
    It takes about a tenth of a second, and the calling thread waits.
    """
    if sys.platform != "linux":
        return Report([Mechanism(name, _OTHER_SYSTEM, is_held=False) for name in MECHANISMS])
    keep_orphans()
    with ExitStack() as stack:
        group = _group(groups, stack)
        may_share = group is not None and group.counts_memory
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlead-probe-")))
        trial = stack.enter_context(_prepare(policy, folder, may_share=may_share))
        process = stack.enter_context(_start(folder / "own"))
        try:
            if group is not None:
                with suppress(OSError):
                    group.add(process.pid)
            tried = _answer(process, trial)
        finally:
            _end(process, group)
        if tried.error is not None:
            raise ConfinementError(tried.error)
        return _report(tried, trial, group)


def _group(groups: ControlGroups | None, stack: ExitStack) -> ControlGroup | None:
    with suppress(OSError):
        group = None if groups is None else groups.create()
        if group is not None:
            stack.callback(group.remove)
        return group
    return None


@contextmanager
def _prepare(policy: Policy, folder: Path, *, may_share: bool) -> Iterator[Trial]:
    """A file, a socket and a port that somebody listens at, none of them for the process that tries."""
    own, outside = folder / "own", folder / "outside"
    own.mkdir()
    outside.mkdir()
    file, path = outside / "file", str(outside / "socket")
    file.touch(_MODE)
    asked = msgspec.structs.replace(
        policy,
        writable=(*policy.writable, str(own)),
        protected=(*policy.protected, str(outside)),
        is_required=False,
    )
    with suppress(ConfinementError):  # without a filter the others are still tried
        asked = with_filters(asked, shared_memory=may_share)
    with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as port:
        unix.bind(path)
        unix.listen()
        yield Trial(asked, str(file), path, port.getsockname()[1], may_share)


@contextmanager
def _start(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "fairlead.processes.confinement.trial"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**kept, "TMPDIR": str(folder)},
    )
    children.add(process.pid)
    try:
        with process:
            yield process
    finally:
        children.discard(process.pid)


def _answer(process: "subprocess.Popen[bytes]", trial: Trial) -> Tried:
    """The process's report; ConfinementError where it ends without one, or sends none in time."""
    stdin, stdout = process.stdin, process.stdout
    if stdin is None or stdout is None:
        raise ConfinementError("a process to try it could not be started")
    with suppress(BrokenPipeError):
        stdin.write(msgspec.json.encode(trial) + b"\n")
        stdin.flush()
    os.set_blocking(stdout.fileno(), False)
    said, until = b"", time.monotonic() + _SECONDS
    while not said.endswith(b"\n") and time.monotonic() < until:
        piece = stdout.read()
        if piece == b"":
            break
        said += piece or b""
        time.sleep(0 if piece else 0.002)
    try:
        return msgspec.json.decode(said, type=Tried)
    except msgspec.MsgspecError:
        raise ConfinementError("a process that was confined to try it ended, or said nothing in time") from None


def _end(process: "subprocess.Popen[bytes]", group: ControlGroup | None) -> None:
    if group is not None:
        with suppress(OSError):
            group.kill()
    end_tree(process.pid)
    process.wait()


def _report(tried: Tried, trial: Trial, group: ControlGroup | None) -> Report:
    told = {mechanism.name: mechanism for mechanism in tried.report.mechanisms}
    told[MEMORY] = Mechanism(MEMORY, _COUNTED if trial.may_share else _WATCHED)
    told[DESCENDANTS] = _descendants(tried.hidden, group)
    succeeded = list(tried.succeeded)
    if Path(trial.file).stat().st_mode & 0o777 != _MODE:
        succeeded.append(("seccomp", "change a file's mode"))
    return Report([_judge(told[name], [what for one, what in succeeded if one == name]) for name in MECHANISMS])


def _judge(mechanism: Mechanism, succeeded: Sequence[str]) -> Mechanism:
    """A mechanism, which does not hold where an attempt went well."""
    if not succeeded:
        return mechanism
    tried = f"a confined process could {', '.join(dict.fromkeys(succeeded))}"
    detail = tried if mechanism.is_held else f"{mechanism.detail}; {tried}"
    return Mechanism(mechanism.name, detail, is_held=False)


def _descendants(hidden: int, group: ControlGroup | None) -> Mechanism:
    until = time.monotonic() + _GONE_SECONDS
    while (left := processes().get(hidden)) is not None and not left.is_dead and time.monotonic() < until:
        time.sleep(0.002)
    if left is not None and not left.is_dead:
        with suppress(ProcessLookupError):
            os.kill(hidden, signal.SIGKILL)
        return Mechanism(DESCENDANTS, "a process that hid outlived the one that started it", is_held=False)
    with suppress(ChildProcessError):  # it became a child of the server, which must reap it
        os.waitpid(hidden, os.WNOHANG)
    return Mechanism(DESCENDANTS, _ADOPTED if group is None else _GROUP)
