"""Heartbeats: a child that does not answer for some seconds is ended, whatever holds it up.

The server's own delays do not count: while its event loop is late, it cannot read an answer that has arrived.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

BEATS: Final = 4
"""How many beats fit the time a child has to answer: it is ended when it has missed them all."""
_LATE: Final = 0.5
"""How late the loop may be, as a part of a beat, for the beat to count."""


class Beating(Protocol):
    """A child whose heartbeat is checked."""

    def beat(self, *, counts: bool) -> None:
        """Ask for a sign of life if none is awaited yet; else note that a beat was missed, if it `counts`."""
        ...


class Pulse:
    """The heartbeat of one child: how many beats it has missed since it was asked."""

    def __init__(self) -> None:
        self.is_awaited = False
        self._missed = 0

    def ask(self) -> None:
        """Note that it was asked."""
        self.is_awaited, self._missed = True, 0

    def hear(self) -> None:
        """Note that it has answered."""
        self.is_awaited = False

    def miss(self) -> bool:
        """Note a missed beat; returns whether it has missed them all."""
        self._missed += 1
        return self._missed >= BEATS


async def keep_beating(children: Iterable[Beating], seconds: float) -> None:
    """Ask every child of a collection that changes, forever; each has `seconds` to answer. Until cancelled."""
    loop = asyncio.get_running_loop()
    pause = seconds / BEATS
    while True:
        due = loop.time() + pause
        await asyncio.sleep(pause)
        counts = loop.time() - due <= _LATE * pause
        for child in list(children):
            child.beat(counts=counts)
