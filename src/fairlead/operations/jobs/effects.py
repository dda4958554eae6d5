"""The effects of a job, executed in their order while its nodes go on.

A small file is made durable while the next nodes run. Later events wait for it: nobody learns of a file that could be
lost, and the job does not end before all effects are done.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

_WORK_MAX: Final = 16
"""How much work waits at most, in pieces of up to 256 KiB each; then the nodes wait."""


class EffectQueue:
    """Does work and acts one after the other. Where work fails, nothing that came after it is done.

    `failure` is then what the work raised, and `failed` is called at once.
    """

    def __init__(self, failed: Callable[[], None]) -> None:
        self.failure: Exception | None = None
        self._failed = failed
        self._waiting: deque[tuple[Callable[[], Awaitable[None]] | None, Callable[[], None] | None]] = deque()
        self._room = asyncio.Semaphore(_WORK_MAX)
        self._task: asyncio.Task[None] | None = None

    def act(self, act: Callable[[], None]) -> None:
        """Do something short: at once where nothing is queued before it."""
        if self._task is not None:
            self._waiting.append((None, act))
        elif self.failure is None:
            act()

    async def begin(self, work: Callable[[], Awaitable[None]]) -> None:
        """Queue some work; returns as soon as there is room for it."""
        await self._room.acquire()
        if self.failure is not None:
            self._room.release()
            return
        self._waiting.append((work, None))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._do_all())

    async def settle(self) -> None:
        """Return when everything is done; raise the error of work that has failed."""
        while self._task is not None:
            await asyncio.wait([self._task])
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """Discard what waits."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def _do_all(self) -> None:
        try:
            while self._waiting:
                work, act = self._waiting.popleft()
                if work is not None:
                    await work()
                    self._room.release()
                if act is not None:
                    act()
        except Exception as error:  # noqa: BLE001 -- raised to the one that waits for the end of them all
            self.failure = error
            self._waiting.clear()
            self._failed()
            # Those that wait for room go on, and find the failure.
            for _ in range(_WORK_MAX):
                self._room.release()
        finally:
            self._task = None
