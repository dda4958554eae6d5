"""Something with a process that is started when it is first needed, shared by all users, and started again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Generic, Protocol, TypeVar

from fairlead.engine.hosts.process import HostNotStartedError
from fairlead.processes.exits import Restarts

_REST_SECONDS: Final = 10.0
"""The pause after a start that failed."""


class Process(Protocol):
    """A process, or an object that lives as long as one."""

    @property
    def is_gone(self) -> bool:
        """Whether it can no longer be used."""
        ...


T = TypeVar("T", bound=Process)


class KeptProcess(Generic[T]):
    """Holds one such object. A start goes on when the one who waits for it leaves, for the next who needs it."""

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
    async def use(self) -> AsyncIterator[T]:
        """The object, as from `get`; it is not idle meanwhile."""
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
        """The object, once it is started. HostNotStartedError."""
        if self._is_closed and (self._starting is None or self.is_spent):
            raise HostNotStartedError("it is not started again")
        if self._starting is None or self.is_spent:
            self._starting = asyncio.ensure_future(self._start_after_pause(is_first=self._starting is None))
            self._starting.add_done_callback(_forget)
        return await asyncio.shield(self._starting)

    @property
    def value(self) -> T | None:
        """The object, if it is started."""
        task = self._starting
        return task.result() if task is not None and task.done() and not _has_failed(task) else None

    @property
    def is_spent(self) -> bool:
        """Whether it must be started again: its process has ended, or its start failed some time ago."""
        if self._starting is None or not self._starting.done():
            return False
        if self._failed_at is not None:
            return asyncio.get_running_loop().time() - self._failed_at >= self._rest_seconds
        value = self.value
        return value is None or value.is_gone

    async def last(self) -> T | None:
        """The object, once a start under way has ended; None where there is none, or the start failed."""
        self._is_closed = True
        if self._starting is None:
            return None
        await asyncio.wait({self._starting})
        return self.value

    def close(self) -> None:
        """Start nothing more, and cancel a start under way."""
        self._is_closed = True
        if self._starting is not None:
            self._starting.cancel()

    async def _start_after_pause(self, *, is_first: bool) -> T:
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
    """Those who wait get the error; without them, nobody retrieves it."""
    if not task.cancelled():
        task.exception()
