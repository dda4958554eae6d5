"""Waiting in an event loop until something is so: the only thing a test may wait for that has no event."""

import asyncio
from collections.abc import Callable

from machine import limit

_SECONDS = 60.0


async def until(is_so: Callable[[], object], seconds: float = _SECONDS) -> None:
    """Ask until the answer is true; TimeoutError after a bound that only a broken program reaches.

    `seconds` are those of an idle machine.
    """
    async with asyncio.timeout(limit(seconds)):
        while not is_so():  # noqa: ASYNC110 -- what is waited for has no event to set
            await asyncio.sleep(0.005)
