"""Ports for servers that must know theirs before they listen, or listen on it again after a stop.

A port that the system gives out may be given to another process, or to a connection, before the server has it.
"""

import random
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

_FIRST: Final = 10_000
_LAST: Final = 32_767
"""Linux gives out ports from 32768, other systems from 49152."""
_ATTEMPTS: Final = 1000


class NoPortError(Exception):
    """So many ports in a row were taken that something else must be wrong."""


def free_ports(count: int) -> Sequence[int]:
    """Choose some ports of this machine that are free, and that the system gives to nobody by itself."""
    found: list[int] = []
    for port in random.sample(range(_FIRST, _LAST + 1), _ATTEMPTS):
        if len(found) == count:
            return found
        with suppress(OSError):
            socket.create_server(("127.0.0.1", port)).close()
            found.append(port)
    raise NoPortError(f"{_ATTEMPTS} ports from {_FIRST} to {_LAST} were tried")
