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

    def compare(self, tell: Callable[[], int]) -> tuple[int, float]:
        """What another clock tells (ms), and how many seconds the clock of this machine is ahead of it."""
        before = self.now_ns()
        told_ms = tell()
        return told_ms, _seconds_ahead((before, self.now_ns()), told_ms)


class FollowingClock(Clock, frozen=True, kw_only=True):
    """A clock that follows another one, that of the database, which is asked now and then: to be made by `follow`.

    In between it ticks by a clock that nobody sets, so that a wrong clock of the machine decides nothing.
    """

    followed: "FollowedTime"
    machine_ns: Callable[[], int]

    def compare(self, tell: Callable[[], int]) -> tuple[int, float]:
        """The same, and follow what was told."""
        machine = self.machine_ns()
        told_ms = self.followed.compare(tell)
        return told_ms, _seconds_ahead((machine, self.machine_ns()), told_ms)


class FollowedTime:
    """The time of a clock that was asked for it, by another that only ticks."""

    def __init__(self, tick_ns: Callable[[], int]) -> None:
        self._tick_ns = tick_ns
        self._ahead_ns: int | None = None
        """How far the time is ahead of the ticks; None before the clock was asked for the first time."""

    def now_ns(self) -> int:
        """Nanoseconds since 1970."""
        return self._tick_ns() + (self._ahead_ns or 0)

    def compare(self, tell: Callable[[], int]) -> int:
        """What the clock tells (ms). It told that between two ticks, and what is known stays where that allows it."""
        before = self._tick_ns()
        told_ms = tell()
        least, most = told_ms * 1_000_000 - self._tick_ns(), (told_ms + 1) * 1_000_000 - before
        if self._ahead_ns is None or not least <= self._ahead_ns <= most:
            self._ahead_ns = (least + most) // 2
        return told_ms


def follow(clock: Clock, tick_ns: Callable[[], int] = time.monotonic_ns) -> FollowingClock:
    """A clock that follows whatever it is compared with, on a machine with another clock."""
    followed = FollowedTime(tick_ns)
    return FollowingClock(now_ns=followed.now_ns, followed=followed, machine_ns=clock.now_ns)


def _seconds_ahead(around_ns: tuple[int, int], told_ms: int) -> float:
    return (sum(around_ns) / 2_000_000 - told_ms) / 1000


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
