"""The memory of idempotency keys: the same key and the same request are generated once."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec

from .wire import Answer, Problem

ENTRIES_MAX = 4096
BYTES_MAX = 64 * 1024 * 1024


class _Kept(msgspec.Struct, frozen=True):
    fingerprint: bytes
    answer: Answer


class _Pending(msgspec.Struct, frozen=True):
    fingerprint: bytes
    answer: asyncio.Future[Answer]


class Replays:
    """Successful answers by key, least recently used dropped first; failures are never remembered."""

    def __init__(self, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX) -> None:
        """Bound the memory by a count of answers and by their bytes together."""
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._pending: dict[str, _Pending] = {}

    async def once(self, key: str, fingerprint: bytes, make: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the remembered answer, wait for the one being made, or make it.

        Raises Problem 409 when the key was used for a different request, and whatever `make` raises.
        """
        known = self._kept.get(key) or self._pending.get(key)
        if known is None:
            return await self._make(key, fingerprint, make)
        if known.fingerprint != fingerprint:
            raise conflict()
        if isinstance(known, _Kept):
            self._kept.move_to_end(key)
            answer = known.answer
        else:
            # Shielded: one waiting caller going away must not take the answer from the others.
            answer = await asyncio.shield(known.answer)
        return answer.with_header("idempotent-replay", "true")

    def forget(self, key: str) -> None:
        """Drop a key, because what its answer points to is gone."""
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= len(kept.answer.body)

    async def _make(self, key: str, fingerprint: bytes, make: Callable[[], Awaitable[Answer]]) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[key] = _Pending(fingerprint, future)
        try:
            answer = await make()
        except BaseException as error:
            if isinstance(error, Exception):
                future.set_exception(error)
                future.exception()  # nobody may be waiting, and that is no fault to log
            else:
                future.cancel()
            raise
        else:
            future.set_result(answer)
            self._keep(key, _Kept(fingerprint, answer))
            return answer
        finally:
            del self._pending[key]

    def _keep(self, key: str, kept: _Kept) -> None:
        self._kept[key] = kept
        self._bytes += len(kept.answer.body)
        while len(self._kept) > self._entries_max or self._bytes > self._bytes_max:
            oldest = next(iter(self._kept))
            self.forget(oldest)


def conflict() -> Problem:
    """Return the refusal for a key that was used for another request."""
    message = "This Idempotency-Key was already used for a different request."
    return Problem(409, "idempotency_conflict", message)
