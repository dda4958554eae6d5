"""Computes something slow for all who ask: at most once a second, and never twice at a time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_KEPT_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 1.5
"""How long callers wait, in seconds: operators' tools expect an answer within two."""


class SharedLook(Generic[T]):
    """Calls `look` when somebody asks, and caches its result for a second.

    Nobody waits long for a call that hangs, and it is not repeated meanwhile.
    """

    def __init__(self, look: Callable[[], Awaitable[T]]) -> None:
        self._find = look
        self._look: asyncio.Task[T] | None = None
        self._good_until = 0.0

    async def ask(self) -> T | None:
        """The result; None where it takes too long."""
        loop = asyncio.get_running_loop()
        look = self._look
        if look is None or (look.done() and loop.time() >= self._good_until):
            look = self._look = loop.create_task(self._find_and_keep())
        await asyncio.wait([look], timeout=_PATIENCE_SECONDS)
        return look.result() if look.done() else None

    async def close(self) -> None:
        """Cancel a call that is under way."""
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])

    async def _find_and_keep(self) -> T:
        try:
            return await self._find()
        finally:
            self._good_until = asyncio.get_running_loop().time() + _KEPT_SECONDS
