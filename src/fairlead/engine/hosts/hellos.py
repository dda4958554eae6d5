"""The first byte of a new process: the system says who has sent it, whatever the process or its parent says."""

import asyncio
import os
import socket
import struct
from typing import Final

from fairlead.engine.hosts.protocol import HELLO

_CREDENTIALS: Final = struct.Struct("3i")
"""Process, user and group, as SCM_CREDENTIALS has them."""
CAN_FORK: Final = hasattr(os, "pidfd_open") and hasattr(socket, "SO_PASSCRED")


def named_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a stream; the first learns from the system which process has sent what comes."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)  # noqa: FBT003 -- the only way to call it
    if CAN_FORK:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


async def hear_hello(ours: socket.socket) -> int:
    """Wait for the first byte of a new process, and return its number; 0 where the system does not say.

    EOFError when none comes any more, or it is another.
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


async def readable(descriptor: int) -> None:
    """Return when there is something to read from a descriptor."""
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, came.set)
    try:
        await came.wait()
    finally:
        loop.remove_reader(descriptor)
