"""Bounds of waits: anyone who is late is told, in order; anyone who was in time is not, and holds nobody up.

And clocks that follow another one.
"""

import asyncio
from collections.abc import Callable
from datetime import date

import pytest

from fairlead.clock import Clock, Deadlines, follow

_SHORT = 0.02
_LONG = 30.0


class Told:
    """Who was told to be late, and what."""

    def __init__(self) -> None:
        self._told: asyncio.Queue[tuple[str, float]] = asyncio.Queue()

    def as_to(self, name: str) -> Callable[[float], None]:
        """What a wait of this name is told by."""
        return lambda seconds: self._told.put_nowait((name, seconds))

    async def all(self, number: int) -> list[str]:
        """So many names, in the order in which they were told, once nobody else is."""
        async with asyncio.timeout(60):
            names = [(await self._told.get())[0] for _ in range(number)]
        await asyncio.sleep(_SHORT * 2)
        assert self._told.empty()
        return names

    async def seconds(self) -> float:
        """What the next is told."""
        async with asyncio.timeout(60):
            return (await self._told.get())[1]


def test_only_late_waits_are_told() -> None:
    """Among many waits of one length only those that have not ended are reported, the oldest first."""

    async def scenario() -> None:
        deadlines, told = Deadlines(), Told()
        loop = asyncio.get_running_loop()
        waits = [deadlines.begin(loop, _SHORT, told.as_to(f"{number}")) for number in range(9)]
        for wait in (waits[0], waits[4], waits[8]):
            wait.cancel()
            wait.cancel()
        assert await told.all(6) == ["1", "2", "3", "5", "6", "7"]

    asyncio.run(scenario())


def test_wait_that_began_later_is_told() -> None:
    """The timer goes on to waits that began while it ran, and starts again after all have ended."""

    async def scenario() -> None:
        deadlines, told = Deadlines(), Told()
        loop = asyncio.get_running_loop()
        deadlines.begin(loop, _SHORT, told.as_to("first"))
        await asyncio.sleep(_SHORT / 2)
        deadlines.begin(loop, _SHORT, told.as_to("second"))
        assert await told.all(2) == ["first", "second"]
        deadlines.begin(loop, _SHORT, told.as_to("third")).cancel()
        deadlines.begin(loop, _SHORT, told.as_to("fourth"))
        assert await told.all(1) == ["fourth"]

    asyncio.run(scenario())


def test_long_wait_does_not_hold_up_a_short_one() -> None:
    """Each length has a timer of its own, and is what the late are told."""

    async def scenario() -> None:
        deadlines, told = Deadlines(), Told()
        loop = asyncio.get_running_loop()
        long = deadlines.begin(loop, _LONG, told.as_to("long"))
        deadlines.begin(loop, _SHORT, told.as_to("short"))
        assert await told.seconds() == _SHORT
        long.cancel()

    asyncio.run(scenario())


def test_failed_callback_does_not_stop_the_next() -> None:
    """What goes wrong in one is for the loop's handler; the next are told all the same."""

    def fail(_seconds: float) -> None:
        raise ValueError("told badly")

    async def scenario() -> None:
        deadlines, told, failures = Deadlines(), Told(), list[object]()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context["exception"]))
        for expire in (fail, told.as_to("second"), fail, told.as_to("fourth")):
            deadlines.begin(loop, _SHORT, expire)
        assert await told.all(2) == ["second", "fourth"]
        assert [str(failure) for failure in failures] == ["told badly"] * 2

    asyncio.run(scenario())


class _Ticks:
    """A clock that ticks when it is told to, and one of a machine that is far ahead."""

    def __init__(self) -> None:
        self.now_ns = 5_000_000_000
        self.clock = follow(Clock(lambda: self.now_ns + 86_400 * 10**9), lambda: self.now_ns)

    def compare(self, told_ms: int, took_ns: int = 0) -> tuple[int, float]:
        """Compare the clock with another, which tells a time halfway through."""

        def tell() -> int:
            self.now_ns += took_ns
            return told_ms

        return self.clock.compare(tell)


@pytest.mark.req("T-07")
def test_clock_follows_what_it_is_compared_with() -> None:
    """It tells the other clock's time, however wrong the one of the machine is, and goes on by ticks in between."""
    ticks = _Ticks()
    assert ticks.compare(1_000_000) == (1_000_000, 86_405 - 1_000)
    ticks.now_ns += 7_000_000
    assert ticks.clock.now_ms() == 1_000_007
    ticks.compare(900_000)
    assert ticks.clock.now_ms() == 900_000
    assert ticks.clock.today() == date(1970, 1, 1)


@pytest.mark.req("T-07")
def test_slow_comparison_does_not_move_a_clock_that_may_be_right() -> None:
    """What the other clock told may have been any time during the comparison."""
    ticks = _Ticks()
    ticks.compare(1_000_000)
    ticks.compare(1_000_900, took_ns=2_000_000_000)
    assert ticks.clock.now_ms() == 1_002_000
    ticks.compare(1_000_900, took_ns=1_000_000_000)
    assert ticks.clock.now_ms() == 1_001_400, "halfway, as it cannot have been right"


def test_clock_that_follows_none_tells_how_far_it_is_ahead() -> None:
    """The machine's own time stays."""
    clock = Clock(lambda: 5_000_000_000)
    assert clock.compare(lambda: 2_000) == (2_000, 3.0)
    assert clock.now_ms() == 5_000
