"""Runs work periodically until it is cancelled, such as measuring how late the event loop is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

from fairlead.observing.observations import Observer, UnexpectedError

_LOOP_SECONDS: Final = 0.025
"""How often the delay of the event loop is measured; a shorter delay may fall between two measurements."""


async def run_periodically(
    work: Callable[[], Awaitable[None]], seconds: float, doing: str, observe: Observer
) -> NoReturn:
    """Do some work, wait for `seconds`, and do it again until cancelled.

    An exception does not end the loop: it is observed as an error while `doing` something, and the next turn goes on.
    """
    while True:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 -- observed; the next turn tries again
            observe(UnexpectedError(doing, error))
        await asyncio.sleep(seconds)


async def watch_loop(record: Callable[[float, float], None]) -> NoReturn:
    """Record the time and the delay, in seconds by the clock of the event loop, until cancelled."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[NoReturn] = loop.create_future()
    timer: asyncio.TimerHandle

    def look(expected: float) -> None:  # a task that sleeps would cost several times as much
        nonlocal timer
        now = loop.time()
        record(now, max(0.0, now - expected))
        timer = loop.call_at(now + _LOOP_SECONDS, look, now + _LOOP_SECONDS)

    timer = loop.call_at(loop.time() + _LOOP_SECONDS, look, loop.time() + _LOOP_SECONDS)
    try:
        await ended
    finally:
        timer.cancel()
