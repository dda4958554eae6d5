"""Something with a process that is started when it is first wanted, shared by all who want it, and started again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

from fairlead.engine.hosts.process import HostNotStartedError
from fairlead.processes.exits import Restarts

_REST_SECONDS: Final = 10.0
"""How long nothing is started that could not be a moment ago."""


class Process(Protocol):
    """A process, or what lives as long as one does."""

    @property
    def is_gone(self) -> bool:
        """Whether nothing can be asked of it any more."""
        ...


T = TypeVar("T", bound=Process)


class KeptProcess(Generic[T]):
    """One thing at a time. Who leaves while it is being started has it started all the same, for who comes next."""

    def __init__(self, start: Callable[[], Awaitable[T]], *, rest_seconds: float = _REST_SECONDS) -> None:
        self._start = start
        self._rest_seconds = rest_seconds
        self._restarts = Restarts()
        self._starting: asyncio.Task[T] | None = None
        self._began = 0.0
        self._failed_at: float | None = None
        self._is_closed = False
        self._users = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @asynccontextmanager
    async def used(self) -> AsyncIterator[T]:
        """What is kept, as `get` has it; it is not idle meanwhile."""
        self._users += 1
        self._is_idle.clear()
        try:
            yield await self.get()
        finally:
            self._users -= 1
            if not self._users:
                self._is_idle.set()

    @property
    def is_idle(self) -> bool:
        """Whether nobody uses it, or waits for it."""
        return not self._users

    async def until_idle(self) -> None:
        """Return when nobody uses it."""
        await self._is_idle.wait()

    async def get(self) -> T:
        """What is kept, as soon as it is there. HostNotStartedError."""
        if self._is_closed and (self._starting is None or self.is_spent):
            raise HostNotStartedError("it is not started again")
        if self._starting is None or self.is_spent:
            self._starting = asyncio.ensure_future(self._started(is_first=self._starting is None))
            self._starting.add_done_callback(_forget)
        return await asyncio.shield(self._starting)

    @property
    def value(self) -> T | None:
        """What is kept, where it is there."""
        task = self._starting
        return task.result() if task is not None and task.done() and not _has_failed(task) else None

    @property
    def is_spent(self) -> bool:
        """Whether it has to be started again: its process is gone, or could not be started some time ago."""
        if self._starting is None or not self._starting.done():
            return False
        if self._failed_at is not None:
            return asyncio.get_running_loop().time() - self._failed_at >= self._rest_seconds
        value = self.value
        return value is None or value.is_gone

    async def last(self) -> T | None:
        """What is kept or being started, when it is there; None where there is none, or none comes."""
        self._is_closed = True
        if self._starting is None:
            return None
        await asyncio.wait({self._starting})
        return self.value

    def close(self) -> None:
        """Start nothing more, and give up what is being started."""
        self._is_closed = True
        if self._starting is not None:
            self._starting.cancel()

    async def _started(self, *, is_first: bool) -> T:
        loop = asyncio.get_running_loop()
        if not is_first:
            await asyncio.sleep(self._restarts.pause_after(loop.time() - self._began))
        self._began, self._failed_at = loop.time(), None
        try:
            return await self._start()
        except BaseException:
            self._failed_at = loop.time()
            raise


def _has_failed(task: "asyncio.Task[T]") -> bool:
    return task.cancelled() or task.exception() is not None


def _forget(task: "asyncio.Task[T]") -> None:
    """Who waits is told; where nobody does, nobody asks."""
    if not task.cancelled():
        task.exception()
