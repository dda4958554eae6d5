"""An engine process before it belongs to anybody: it loads what it is told to, is forked, and serves at last.

It has one thread, so that a fork is whole; where a pack leaves more, the server does not have it forked. It is given
nothing of any workspace: what a host gets, it gets over its own socket, which this process hands on and closes.
"""

import fcntl
import gc
import os
import random
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from fairlead.engine.hosts.frames import HEAD_BYTES, framed, length_of, read_to_host
from fairlead.engine.hosts.loading import Loaded, load, preload
from fairlead.engine.hosts.protocol import (
    FRAME_BYTES_MAX,
    HELLO,
    Begin,
    ChildEnded,
    FromHost,
    Load,
    Loading,
    Ping,
    Pong,
    Preload,
    Ready,
    Reap,
    Serve,
    ToHost,
)
from fairlead.engine.nodes.registry import Registry
from fairlead.processes.confinement.applying import apply, narrow
from fairlead.processes.confinement.limits import bound, die_with_parent, keep_orphans
from fairlead.processes.confinement.policy import Policy

_SERVER: Final = 3
_FORKS: Final = 4
"""The numbers of the two sockets, whatever they were opened as."""
_ERRORS: Final = 2
_PASSED: Final = 3
_PIECE: Final = 2**20
_HIGH: Final = 64
_DESCRIPTORS_MAX: Final = 2**16
_TORCH_SEED_BITS: Final = 63

Serving = Callable[[Serve, Policy | None, Loaded, socket.socket], None]


class Template:
    """The process, as it becomes one after the other: what was started, what was forked from that, and so on."""

    def __init__(self, server: int, forks: int, serve: Serving) -> None:
        """Take over the process, whose sockets have some numbers. `serve` is called for the last order, if it comes."""
        self._serve = serve
        self._begun = Begin("")
        self._policy: Policy | None = None
        self._loaded = Loaded(Registry(), frozenset(), (), keeps_folder=False)
        self._take_over(server, forks)

    def run(self) -> None:
        """Do what the server says, until it has gone."""
        while (order := self._next()) is not None:
            match order:
                case Begin():
                    self._begin(order)
                case Preload():
                    preload()
                    self._send(Ready())
                case Load():
                    self._load(order)
                case Serve():
                    self._forks.close()
                    self._serve(order, self._policy, self._loaded, self._server)
                    return
                case Ping():
                    self._send(Pong())
                case Reap(pid=pid):
                    self._forked.discard(pid)
                    with suppress(ChildProcessError):
                        os.waitpid(pid, os.WNOHANG)
                case _:
                    return  # it serves nobody yet

    # Orders.

    def _begin(self, order: Begin) -> None:
        self._begun = order
        if order.policy is None:
            bound(order.memory)
        else:
            apply(order.policy)
        self._send(Ready())

    def _load(self, order: Load) -> None:
        if order.policy is not None:
            narrow(order.policy)
        self._policy = order.policy
        use_folder(order.folder)
        self._loaded = load(order, self._begun.packs, lambda pack: self._send(Loading(pack)))
        for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)  # nothing of a pack runs here from now on
        gc.collect()
        gc.freeze()  # what is loaded stays: no need to look at it again, nor to copy its pages for that
        loaded = self._loaded
        self._send(Ready(loaded.packs, loaded.object_info(), loaded.keeps_folder))

    # What comes in.

    def _next(self) -> ToHost | None:
        """The next order; meanwhile the process is forked as often as it is wanted, and its children are watched."""
        while True:
            poll = select.poll()
            for descriptor in (_SERVER, _FORKS, *self._children):
                poll.register(descriptor, select.POLLIN)
            found = poll.poll()
            self._reap_orphans()
            for descriptor, _ in found:
                if descriptor == _SERVER:
                    return _read(self._server)
                if descriptor == _FORKS:
                    self._fork()
                    break  # who was forked just now has other descriptors
                self._tell_of(descriptor)

    def _tell_of(self, watch: int) -> None:
        """Tell how a child has ended; its number stays taken until the server has seen to the rest of it."""
        pid = self._children.pop(watch)
        os.close(watch)
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if found is not None:
            by_itself = found.si_code == os.CLD_EXITED
            self._send(ChildEnded(pid, found.si_status if by_itself else -found.si_status))

    def _reap_orphans(self) -> None:
        """Let those go that lost their parents, and became ours: nobody else would."""
        with suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if ended.si_pid in self._forked:
                    break  # the server has yet to hear of it, or to see to the rest of it
                os.waitpid(ended.si_pid, os.WNOHANG)

    def _send(self, record: FromHost) -> None:
        try:
            self._server.sendall(framed(record))
        except OSError:
            os._exit(0)  # without a server there is nothing to go on

    # Forking.

    def _fork(self) -> None:
        data, passed, _, _ = socket.recv_fds(self._forks, 1, _PASSED)
        if not data:
            os._exit(0)
        parent = os.getpid()
        try:
            pid = os.fork() if len(passed) == _PASSED else None
        except OSError:  # there is no room for another process; the server sees its end of the socket closed
            pid = None
        if pid == 0:
            self._become(parent, *passed)
            return
        for descriptor in passed:
            os.close(descriptor)
        if pid is not None:
            self._forked.add(pid)
            self._children[os.pidfd_open(pid)] = pid

    def _become(self, parent: int, server: int, forks: int, errors: int) -> None:
        """Be a process of its own, in a group of its own, with nothing open that is its parent's."""
        die_with_parent()
        if os.getppid() != parent:
            os._exit(0)
        os.setsid()
        os.dup2(errors, _ERRORS)
        self._server.detach()
        self._forks.detach()
        _reseed()
        self._take_over(server, forks)

    def _take_over(self, server: int, forks: int) -> None:
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH) for descriptor in (server, forks)]
        os.closerange(_ERRORS + 1, _HIGH)
        os.dup2(high[0], _SERVER, inheritable=False)
        os.dup2(high[1], _FORKS, inheritable=False)
        os.closerange(_FORKS + 1, _DESCRIPTORS_MAX)
        self._server = socket.socket(fileno=_SERVER)
        self._forks = socket.socket(fileno=_FORKS)
        self._children: dict[int, int] = {}
        """Processes that were forked here and have not ended, by the descriptors that tell of their ends."""
        self._forked: set[int] = set()
        """Those, and the ones that the server has not let go."""
        keep_orphans()
        self._server.sendall(HELLO)


def _read(server: socket.socket) -> ToHost | None:
    """The next record of the server; None when that has gone."""
    head = _bytes_of(server, HEAD_BYTES)
    if len(head) < HEAD_BYTES:
        return None
    length = length_of(head, FRAME_BYTES_MAX)
    content = _bytes_of(server, length)
    return read_to_host(content) if len(content) == length else None


def _bytes_of(server: socket.socket, length: int) -> bytes:
    """So many bytes; fewer where there are no more. Nothing is read ahead: a host reads on by other means."""
    content = bytearray()
    while len(content) < length:
        piece = server.recv(min(length - len(content), _PIECE))
        if not piece:
            break
        content += piece
    return bytes(content)


def use_folder(folder: str) -> None:
    """Work in a folder, and have what is temporary written there."""
    os.chdir(folder)
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None


def _reseed() -> None:
    """Draw numbers of its own: two processes of one parent must not draw the same."""
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(random.SystemRandom().getrandbits(_TORCH_SEED_BITS))
