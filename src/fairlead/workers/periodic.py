"""Work that a worker does again and again until it is cancelled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from fairlead.observing.observations import Observer, UnexpectedError


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
