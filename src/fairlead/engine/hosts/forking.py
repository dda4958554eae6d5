"""What the system knows about new processes: which one has sent a first byte."""

import os
import socket
import struct
from contextlib import ExitStack
from typing import Final

from fairlead.engine.hosts.service import HELLO
from fairlead.processes.child import readable

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group, as SCM_CREDENTIALS has them."""
CAN_FORK: Final = hasattr(os, "pidfd_open") and hasattr(socket, "SO_PASSCRED")


def sockets(undone: ExitStack) -> tuple[socket.socket, ...]:
    """The two ends of a connection, then those of a channel over which a process is asked to fork.

    The first end learns from the system which process has sent what comes.
    """
    ours, theirs = socket.socketpair()
    our_forks, their_forks = socket.socketpair()
    for one in (ours, theirs, our_forks, their_forks):
        undone.callback(one.close)
    ours.setblocking(False)  # noqa: FBT003 -- the only way to call it
    our_forks.setblocking(False)  # noqa: FBT003 -- likewise
    if CAN_FORK:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs, our_forks, their_forks


async def hear_hello(ours: socket.socket) -> int:
    """Wait for the first byte of a new process, and return its number; 0 where the system does not know it.

    EOFError when the process ends without it, or sends another byte.
    """
    await readable(ours.fileno())
    if not CAN_FORK:
        if ours.recv(1) != HELLO:
            raise EOFError
        return 0
    data, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    for level, kind, content in ancillary:
        if data == HELLO and (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            return int(_CREDENTIALS.unpack_from(content)[0])
    raise EOFError
