"""An engine process before it serves a workspace: it loads what it is asked to, is forked, or becomes a host.

It has one thread, so that a fork is complete. A process that is forked has run no code of any pack, and gets no data of
any workspace: a host gets those over its own socket, which this process passes on and closes.
"""

import fcntl
import gc
import os
import random
import resource
import select
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, Protocol, TypeAlias

from fairlead.engine.hosts.loading import Loaded, load_engine, preload
from fairlead.engine.hosts.service import (
    FRAME_BYTES_MAX,
    HELLO,
    PROCESS_NOTICES,
    TEMPLATE_SERVICE,
    PackReport,
    ProcessNotices,
)
from fairlead.engine.nodes.registry import Registry
from fairlead.processes.confinement.applying import apply, narrow
from fairlead.processes.confinement.kernel import thread_count
from fairlead.processes.confinement.limits import bound, die_with_parent, keep_orphans
from fairlead.processes.confinement.policy import Policy
from fairlead.processes.rpc import Answer, Call, Record, encode_frame, finish, read_frame

_SERVER: Final = 3
_FORKS: Final = 4
"""The numbers that the two sockets always get."""
_ERRORS: Final = 2
_PASSED: Final = 3
_PIECE: Final = 2**20
_HIGH: Final = 64
_DESCRIPTORS_MAX: Final = 2**16
_TORCH_SEED_BITS: Final = 63
_OWN: Final = Path("/proc/self")
_INHERITED_MAX: Final = 5
"""Input, output, errors, and two sockets."""
_SHARED: Final = "s"
_WRITABLE: Final = "w"

P = ParamSpec("P")


class Serves(Protocol):
    """A host that a template has become."""

    def serve(self) -> None:
        """Do what the server asks, until it has ended."""
        ...


Become: TypeAlias = Callable[[str, int, Loaded, socket.socket], Serves]
"""Makes a host of a process, given its folder, the bytes of its cache, its nodes and the socket to the server."""


class Template:
    """The current process: the one that was started, one that was forked from that, and so on.

    Implements `service.TemplateService`.
    """

    def __init__(self, server: int, forks: int, become: Become) -> None:
        """Take over the process; `server` and `forks` are the numbers of its sockets."""
        self._become_host = become
        self._host: Serves | None = None
        self._packs: Sequence[str] = ()
        self._folder = ""
        self._loaded = Loaded(Registry())
        self._take_over(server, forks)

    def run(self) -> None:
        """Do what the server asks, until it has ended."""
        while self._host is None:
            call = self._next()
            if not isinstance(call, Call) or call.method not in TEMPLATE_SERVICE:
                return  # it serves nobody yet
            work = TEMPLATE_SERVICE[call.method].call(self, call.arguments)
            if call.number:
                self._send(Answer(call.number, finish(work)))
        self._host.serve()

    # What the server calls.

    async def begin(self, packs: Sequence[str], memory: int, policy: Policy | None) -> None:
        """Confine the process."""
        self._packs = packs
        if policy is None:
            bound(memory)
        else:
            apply(policy)

    async def load_engine(self, partner_nodes: bytes) -> bool:
        """Load the classes of no pack."""
        self._loaded = load_engine(partner_nodes)
        return self._may_be_forked()

    async def preload(self) -> bool:
        """Import what takes long."""
        preload()
        return self._may_be_forked()

    async def load(self, folder: str, selection: Sequence[str], policy: Policy | None) -> Sequence[PackReport]:
        """Load packs, confined further before their code is executed."""
        if policy is not None:
            narrow(policy)
        self._folder = folder
        use_folder(folder)
        return self._loaded.take_packs(selection, self._packs, self._announce)

    async def describe(self) -> bytes:
        """Describe what was loaded."""
        return self._loaded.describe()

    async def serve(self, cache: int) -> int:
        """Become a host."""
        self._forks.close()
        self._host = self._become_host(self._folder, cache, self._loaded, self._server)
        return open_descriptors()

    async def ping(self) -> None:
        """Give a sign of life."""

    def reap(self, pid: int) -> None:
        """Forget a process that was forked here."""
        self._forked.discard(pid)
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

    # What comes in.

    def _next(self) -> Record | None:
        """The next message of the server; meanwhile the process is forked on request, and its children are watched."""
        while True:
            poll = select.poll()
            for descriptor in (_SERVER, _FORKS, *self._children):
                poll.register(descriptor, select.POLLIN)
            found = poll.poll()
            self._reap_orphans()
            for descriptor, _ in found:
                if descriptor == _SERVER:
                    return read_frame(self._bytes_of, FRAME_BYTES_MAX)
                if descriptor == _FORKS:
                    self._fork()
                    break  # a process that was just forked has other descriptors
                self._tell_of(descriptor)

    def _tell_of(self, watch: int) -> None:
        """Report how a child has ended; its number stays in use until the server has ended its descendants."""
        pid = self._children.pop(watch)
        os.close(watch)
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        if found is not None:
            by_itself = found.si_code == os.CLD_EXITED
            self._tell(ProcessNotices.child_ended, pid, found.si_status if by_itself else -found.si_status)

    def _reap_orphans(self) -> None:
        """Reap the orphans that became our children, because nobody else would."""
        with suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                if ended.si_pid in self._forked:
                    break  # the server has yet to learn of it, or to end its descendants
                os.waitpid(ended.si_pid, os.WNOHANG)

    def _announce(self, pack: str) -> None:
        self._tell(ProcessNotices.loading, pack)

    def _tell(self, notice: Callable[Concatenate[ProcessNotices, P], None], *given: P.args, **named: P.kwargs) -> None:
        method = PROCESS_NOTICES[notice.__name__]
        self._send(Call(0, 0, method.name, method.arguments(given, named)))

    def _send(self, record: object) -> None:
        try:
            self._server.sendall(encode_frame(record, FRAME_BYTES_MAX))
        except OSError:
            os._exit(0)  # without a server there is nothing to go on

    def _bytes_of(self, length: int) -> bytes:
        """`length` bytes, or fewer at the end. Nothing is read ahead, because a host reads on by other means."""
        content = bytearray()
        while len(content) < length:
            piece = self._server.recv(min(length - len(content), _PIECE))
            if not piece:
                break
            content += piece
        return bytes(content)

    # Forking.

    def _may_be_forked(self) -> bool:
        gc.collect()
        gc.freeze()  # what is loaded stays: collecting it again would only copy its pages
        return _is_forkable()

    def _fork(self) -> None:
        data, passed, _, _ = socket.recv_fds(self._forks, 1, _PASSED)
        if not data:
            os._exit(0)
        parent = os.getpid()
        try:
            # The system drops descriptors for which a process has no number left.
            pid = os.fork() if len(passed) == _PASSED else None
        except OSError:  # the system allows no further process; the server sees its end of the socket closed
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
        """Become a process in a group of its own, without open descriptors of its parent."""
        die_with_parent()
        # The parent may have ended before its end could be noticed.
        if os.getppid() != parent:
            os._exit(0)
        os.setsid()
        os.dup2(errors, _ERRORS)
        # Their numbers are given to other sockets below, which these objects must not close.
        self._server.detach()
        self._forks.detach()
        _reseed()
        self._take_over(server, forks)

    def _take_over(self, server: int, forks: int) -> None:
        # Either descriptor may have the number that the other is to get, so both are moved out of the way first.
        high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _HIGH) for descriptor in (server, forks)]
        os.closerange(_ERRORS + 1, _HIGH)
        os.dup2(high[0], _SERVER, inheritable=False)
        os.dup2(high[1], _FORKS, inheritable=False)
        # Nothing that the parent had open is left to a process that will belong to a workspace.
        os.closerange(_FORKS + 1, _DESCRIPTORS_MAX)
        self._server = socket.socket(fileno=_SERVER)
        self._forks = socket.socket(fileno=_FORKS)
        self._children: dict[int, int] = {}
        """Processes that were forked here and have not ended, by the descriptors that signal their ends."""
        self._forked: set[int] = set()
        """Those, and the ones that the server has not released."""
        keep_orphans()
        self._server.sendall(HELLO)


def use_folder(folder: str) -> None:
    """Change to a folder, and have temporary files written there."""
    os.chdir(folder)
    os.environ["TMPDIR"] = folder
    tempfile.tempdir = None


def _reseed() -> None:
    """Seed the random numbers: two forks of one parent must not draw the same."""
    random.seed()
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(random.SystemRandom().getrandbits(_TORCH_SEED_BITS))


def _is_forkable() -> bool:
    """Whether this process can be forked for several workspaces; False also where it cannot see.

    A thread would be lost in a fork; an open file or shared memory would connect the hosts of two workspaces. No pack
    has run here, but a library that was imported may have left any of these.
    """
    try:
        descriptors = len(list((_OWN / "fd").iterdir())) - 1  # one is open to list them
        if thread_count() > 1 or descriptors > _INHERITED_MAX:
            return False
        with (_OWN / "maps").open("r", encoding="utf-8", errors="replace") as maps:
            return not any(_is_shared(line) for line in maps)
    except OSError:
        return False


def _is_shared(line: str) -> bool:
    rights = line.split(maxsplit=2)[1]
    return _SHARED in rights and _WRITABLE in rights


def open_descriptors() -> int:
    """The lowest free descriptor, as an estimate of how many are open; the limit where none is free.

    Packs leak descriptors, and a process without a free one can do nothing more. Leaked ones fill the gaps first, so
    the number grows with them. It is read after each job, and counting all of them takes twenty times as long.
    """
    try:
        free = os.dup(_ERRORS)
    except OSError:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.close(free)
    return free
