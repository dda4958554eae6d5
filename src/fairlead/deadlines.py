"""Bounds of waits that nearly all end in time: one timer of the event loop for all waits of one length."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

_Waits: TypeAlias = "dict[Deadline, None]"

_SOON: Final = 0.001
"""Timers of an event loop may go off a millisecond early."""


class Deadline(msgspec.Struct, eq=False):
    """The bound of one wait."""

    _waits: _Waits
    due_at: float
    expire: Callable[[float], None]

    def cancel(self) -> None:
        """End the wait, or give it up."""
        self._waits.pop(self, None)


class Deadlines:
    """The time limits of waits in one event loop; an expired wait learns how many seconds it had.

    A timer of the loop costs a microsecond and a quarter of a kilobyte, and every run needs two that are cancelled a
    moment later. Waits of one length end in the order in which they begin, so that only the oldest needs a timer. When
    it fires, most waits have ended already, and it is set again for the oldest that is left.
    """

    def __init__(self) -> None:
        self._waits: dict[float, _Waits] = {}

    def begin(self, loop: asyncio.AbstractEventLoop, seconds: float, expire: Callable[[float], None]) -> Deadline:
        """Begin a wait of so many seconds."""
        waits = self._waits.get(seconds)
        if waits is None:
            waits = self._waits[seconds] = {}
            loop.call_later(seconds, self._look, loop, seconds)
        deadline = Deadline(waits, loop.time() + seconds, expire)
        waits[deadline] = None
        return deadline

    def _look(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """End the waits that are due, and look again when the next one is."""
        waits, now = self._waits[seconds], loop.time()
        try:
            while waits and (oldest := next(iter(waits))).due_at <= now + _SOON:
                oldest.cancel()
                oldest.expire(seconds)
        finally:
            if waits:
                loop.call_later(next(iter(waits)).due_at - now, self._look, loop, seconds)
            else:
                del self._waits[seconds]
