"""Telling again how a run ended, to whoever calls with its idempotency key (R-18)."""

from typing import Final

import msgspec

from fairlead.domain.faults import FaultError, KeyConflict, ProviderError, ServiceUnavailable, StillRunning
from fairlead.domain.runs.entries import IdempotencyKey, KeptResult
from fairlead.domain.runs.failures import read_fault, write_fault
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome
from fairlead.domain.runs.replays import is_recorded
from fairlead.domain.runs.states import RunState
from fairlead.operations.clock import Clock
from fairlead.storage.blobs import BlobMissingError, Blobs, BlobsUnavailableError
from fairlead.storage.database import Database, DatabaseUnavailableError
from fairlead.storage.idempotency import ended_run, forget_expired, key_in_use

_FORGOTTEN_AT_ONCE: Final = 500
_RESULT: Final = "The result of this idempotency key"
INLINE_MAX: Final = 64 * 1024
"""A larger result is kept as a blob, in bytes."""


class Answer(msgspec.Struct, frozen=True):
    """How a run ended, for whoever asks: its outcome, and what was charged in 10^-8 dollars.

    `charge` is None for a run with the caller's own credential. `fallback_provider` served it after another had
    failed; `dropped` is what a translation left out.
    """

    outcome: Outcome
    charge: int | None
    fallback_provider: str | None = None
    dropped: tuple[str, ...] = ()
    is_replay: bool = False


class Replayer:
    """Keeps results for keys and tells them again. Sizes are in bytes, times in seconds.

    A result larger than `most` is not kept; one that names a partner's links can be told again for `with_links`.
    """

    def __init__(self, database: Database, blobs: Blobs, clock: Clock, *, most: int, with_links: int) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._most = most
        self._with_links = with_links

    async def is_known(self, key: IdempotencyKey) -> bool:
        """Whether a key was used before; FaultError when that cannot be read."""
        now = self._clock.now_ms()
        try:
            return await self._database.read(lambda c: key_in_use(c, key.id, now))
        except DatabaseUnavailableError as error:
            raise FaultError(_away()) from error

    async def tell(self, run_id: str) -> Answer:
        """How a run ended; FaultError while it has not, or when that can no longer be told."""
        try:
            ended = await self._database.read(lambda c: ended_run(c, run_id))
        except DatabaseUnavailableError as error:
            raise FaultError(_away()) from error
        # A run that ended without a result has just freed its key: the same call again is a new run.
        if ended is None or (ended.result is None and ended.state is not RunState.LOST):
            raise FaultError(StillRunning())
        if ended.result is None:
            lost = ProviderError("The outcome of this run could not be determined; it was not charged. Use a new key.")
            return Answer(Failed(lost), None, is_replay=True)
        return Answer(
            outcome=await self._outcome(ended.result),
            charge=None if ended.byok else ended.charge,
            fallback_provider=ended.result.fallback_provider,
            dropped=_dropped(ended.result),
            is_replay=True,
        )

    async def keep(self, answer: Answer, key: IdempotencyKey, *, has_links: bool) -> KeptResult | None:
        """What is kept of an answer for its key; None where the key is to be free again."""
        outcome = answer.outcome
        if not is_recorded(outcome):
            return None
        if isinstance(outcome, Failed):
            return KeptResult(key.expires_at, fault=write_fault(outcome.fault))
        size = len(outcome.content)
        until = self._clock.now_ms() + self._with_links * 1000 if has_links else None
        blob = await self._blob(outcome) if INLINE_MAX < size <= self._most else None
        is_kept = size <= INLINE_MAX or blob is not None
        return KeptResult(
            expires_at=key.expires_at,
            content_type=outcome.content_type,
            content=outcome.content if size <= INLINE_MAX else None,
            blob=blob,
            size=size,
            fallback_provider=answer.fallback_provider,
            dropped=msgspec.json.encode(answer.dropped).decode() if answer.dropped else None,
            replayable_until=until if is_kept else 0,
        )

    async def forget(self) -> int:
        """Delete a batch of keys and results whose time is up; how many, 0 when there are none left."""
        now = self._clock.now_ms()
        try:
            return await self._database.write(lambda c: forget_expired(c, now, _FORGOTTEN_AT_ONCE))
        except DatabaseUnavailableError:
            return 0

    async def _blob(self, outcome: Completed) -> str | None:
        """Store a result beside the database; None when the store is away, which costs the replay and nothing else."""
        writer = self._blobs.writer(self._most)
        try:
            await writer.write(outcome.content)
            return await writer.commit()
        except BlobsUnavailableError:
            return None
        finally:
            await writer.abort()

    async def _outcome(self, kept: KeptResult) -> Outcome:
        if kept.fault is not None:
            return Failed(read_fault(kept.fault))
        if kept.replayable_until is not None and kept.replayable_until <= self._clock.now_ms():
            reason = "is too large to be kept" if kept.replayable_until == 0 else "named links that have expired"
            raise FaultError(KeyConflict(f"{_RESULT} {reason}; use a new key."))
        return Completed(await self._content(kept), kept.content_type or "application/json", 200)

    async def _content(self, kept: KeptResult) -> bytes:
        if kept.blob is None:
            return kept.content or b""
        try:
            return b"".join([chunk async for chunk in await self._blobs.read(kept.blob, 0, kept.size or 0)])
        except BlobMissingError as error:
            raise FaultError(KeyConflict(f"{_RESULT} is no longer there; use a new key.")) from error
        except BlobsUnavailableError as error:
            raise FaultError(_away()) from error


def _dropped(kept: KeptResult) -> tuple[str, ...]:
    return () if kept.dropped is None else tuple(msgspec.json.decode(kept.dropped, type=list[str]))


def _away() -> ServiceUnavailable:
    return ServiceUnavailable("What this idempotency key was used for cannot be read right now.")
