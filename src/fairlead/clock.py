"""Ids, the time of day, and time limits of waits.

The ids and times that are recorded are made here, so that rules and storage get them as parameters.
"""

import asyncio
import functools
import time
from collections.abc import Callable
from datetime import date
from typing import Final, TypeAlias

import msgspec
import uuid_utils

_DAY_NS: Final = 86_400 * 1_000_000_000
_DAY_0: Final = date(1970, 1, 1).toordinal()
_SOON: Final = 0.001
"""Timers of an event loop may go off a millisecond early."""
_Waits: TypeAlias = "dict[Deadline, None]"


def new_id() -> str:
    """A UUIDv7: it sorts by the time it was made, which keeps indexes local."""
    return str(uuid_utils.uuid7())


class Clock(msgspec.Struct, frozen=True):
    """The time of day. `now_ns` is nanoseconds since 1970; tests give their own."""

    now_ns: Callable[[], int] = time.time_ns

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self.now_ns() // 1_000_000

    def today(self) -> date:
        """The date in UTC."""
        return _date_of(self.now_ns() // _DAY_NS)


@functools.lru_cache(maxsize=4)
def _date_of(number: int) -> date:
    """The date of a day counted from 1970; every run asks twice, and it is nearly always the same."""
    return date.fromordinal(_DAY_0 + number)


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
