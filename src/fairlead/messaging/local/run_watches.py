"""A watch of one run within the process."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from fairlead.domain.runs.events import RunChanged


class LocalRunWatch:
    """Hears of the changes of one run. `leave` is called when it is closed."""

    def __init__(self, leave: Callable[["LocalRunWatch"], None]) -> None:
        self._leave = leave
        self._woken = asyncio.Event()
        self._newest: RunChanged | None = None

    def put(self, change: RunChanged) -> None:
        """Note that the run has changed."""
        self._newest = change
        self._woken.set()

    async def wait(self, seconds: float) -> RunChanged | None:
        """Wait until the run has changed since the last wait; its newest change, None after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()
        newest, self._newest = self._newest, None
        return newest

    def close(self) -> None:
        """End the watch, and a wait for it."""
        self._woken.set()
        self._leave(self)
