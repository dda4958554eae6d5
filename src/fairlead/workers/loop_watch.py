"""Watching the event loop: a task that sleeps, and notes how much later than it should it is woken."""

import asyncio
from collections.abc import Callable
from typing import Final, NoReturn

EVERY_SECONDS: Final = 0.025
"""A delay that is shorter may begin and end between two looks."""


async def watch_loop(record: Callable[[float, float], None]) -> NoReturn:
    """Record the time and the delay, in seconds by the clock of the event loop, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        expected = loop.time() + EVERY_SECONDS
        await asyncio.sleep(EVERY_SECONDS)
        now = loop.time()
        record(now, max(0.0, now - expected))
