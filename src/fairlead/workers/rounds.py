"""How a worker that looks after something goes on for ever."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

from fairlead.observing.observations import Observer, UnexpectedError


async def look_for_ever(look: Callable[[], Awaitable[None]], seconds: float, doing: str, observe: Observer) -> NoReturn:
    """Look, rest for some seconds, and look again until cancelled; nothing that a look meets may end it.

    What it meets is observed as an error while `doing` something, and the next look tries again.
    """
    while True:
        try:
            await look()
        except Exception as error:  # noqa: BLE001 -- observed; the next look tries again
            observe(UnexpectedError(doing, error))
        await asyncio.sleep(seconds)
