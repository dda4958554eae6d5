"""Stores results of runs, and reads them again: for idempotency keys (R-18) and for collectors (R-34)."""

from typing import Final

import msgspec

from fairlead.domain.faults import Fault, FaultError, RequestNotFound
from fairlead.domain.runs.entries import KeptResult
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome
from fairlead.domain.runs.replays import read_fault, write_fault
from fairlead.operations.assets.shared_store import damaged_fault, unreadable_fault
from fairlead.storage.blobs.store import BlobDamagedError, BlobMissingError, Blobs, BlobsUnavailableError

INLINE_MAX: Final = 64 * 1024
"""A larger result, in bytes, is stored as a blob."""
_BLOB_MAX: Final = 2**40


class Answer(msgspec.Struct, frozen=True):
    """How a run ended, for any caller: its outcome, and its charge in 10^-8 dollars.

    `charge` is None for a run with the caller's own credential. `fallback_provider` served the run after another had
    failed; `dropped` is what a translation left out.
    """

    outcome: Outcome
    charge: int | None
    fallback_provider: str | None = None
    dropped: tuple[str, ...] = ()
    is_replay: bool = False


class ResultGoneError(Exception):
    """The blob of a stored result is missing."""


class Results:
    """Stores results: failures and small results in the database, larger ones as blobs."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def keep(self, answer: Answer, expires_at: int, *, most: int | None = None) -> KeptResult | None:
        """Store an answer until a time (ms).

        With `most` (bytes) the result is optional: None if it is larger, or if the store for blobs is unavailable.
        Without, it is stored in the database if need be, because it was paid for.
        """
        outcome = answer.outcome
        if not isinstance(outcome, Completed):
            return KeptResult(expires_at, fault=write_fault(outcome.fault))
        size = len(outcome.content)
        if most is not None and size > most:
            return None
        blob = await self._blob(outcome) if size > INLINE_MAX else None
        if most is not None and blob is None and size > INLINE_MAX:
            return None
        return KeptResult(
            expires_at=expires_at,
            content_type=outcome.content_type,
            content=outcome.content if blob is None else None,
            blob=blob,
            size=size,
            fallback_provider=answer.fallback_provider,
            dropped=dropped_json(answer.dropped) if answer.dropped else None,
        )

    async def read(self, kept: KeptResult) -> Outcome:
        """The stored outcome; ResultGoneError, or FaultError while it cannot be read."""
        if kept.fault is not None:
            return Failed(read_fault(kept.fault))
        return Completed(await self._content(kept), kept.content_type or "application/json", 200)

    async def _blob(self, outcome: Completed) -> str | None:
        writer = self._blobs.writer(_BLOB_MAX)
        try:
            await writer.write(outcome.content)
            return await writer.commit()
        except BlobsUnavailableError:
            return None
        finally:
            await writer.abort()

    async def _content(self, kept: KeptResult) -> bytes:
        if kept.blob is None:
            return kept.content or b""
        try:
            return b"".join([chunk async for chunk in await self._blobs.read(kept.blob, 0, kept.size or 0)])
        except BlobMissingError as error:
            raise ResultGoneError from error
        except BlobDamagedError as error:
            raise FaultError(damaged_fault()) from error
        except BlobsUnavailableError as error:
            raise FaultError(unreadable_fault(error, "The result cannot be read right now.")) from error

    async def loss(self, blob: str, size: int) -> Fault | None:
        """The fault of `read` if the blob of a result is lost; None while it exists, or cannot be read now.

        The content of a blob of more than VERIFIED_BYTES_MAX is not checked.
        """
        try:
            await self._blobs.verify(blob, size)
        except BlobMissingError:
            return RequestNotFound(expired=True)
        except BlobDamagedError:
            return damaged_fault()
        except BlobsUnavailableError:  # unknown for now; a caller that collects it is asked to come back
            return None
        return None


def dropped_json(dropped: tuple[str, ...]) -> str | None:
    """The stored form of what a translation left out; None for nothing."""
    return msgspec.json.encode(dropped).decode() if dropped else None


def read_dropped(kept: KeptResult) -> tuple[str, ...]:
    """What a translation left out, from its stored form."""
    return () if kept.dropped is None else tuple(msgspec.json.decode(kept.dropped, type=list[str]))
