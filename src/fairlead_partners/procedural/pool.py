"""The threads that make synchronous answers, behind a bounded queue."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .wire import Problem

T = TypeVar("T")

THREADS = 2
WAITING_MAX = 512


class Pool:
    """Runs generations off the event loop; refuses instead of queueing without end."""

    def __init__(self, threads: int = THREADS, waiting_max: int = WAITING_MAX) -> None:
        """Threads start only when the first generation comes."""
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="generate")
        self._held_max = threads + waiting_max
        self._held = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread; Problem 429 with Retry-After when the queue is full."""
        if self._held >= self._held_max:
            message = "Too many generations are waiting; try again in a second."
            raise Problem(429, "too_many_tasks", message, headers=(("retry-after", "1"),))
        self._held += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)
        finally:
            self._held -= 1
