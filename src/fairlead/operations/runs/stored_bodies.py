"""Large bodies of live runs, kept as blobs: in the database's one writer, others would wait behind each (S-02).

Such a blob is its run's alone, because the run's id stands in it before the body. So it can be deleted as soon as the
run has ended, whatever others have sent. What a crash leaves behind is swept with other blobs that nobody names.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from fairlead.document_readers import INLINE_BYTES
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.runs.entries import RequestBlob
from fairlead.observing.observations import BlobTrouble, Observer
from fairlead.storage.blobs import BlobLostError, Blobs, BlobsUnavailableError

_CLOSE_SECONDS: Final = 5.0
_NOT_KEPT: Final = "The request body cannot be stored right now; nothing was started."
_NOT_READ: Final = "The request body cannot be read right now."


class BodyLostError(Exception):
    """The stored body of a run is missing, or is not what was stored."""


class StoredBodies:
    """Keeps the bodies of runs while they are live: with the run itself, or as blobs if of more than `inline_bytes`."""

    def __init__(self, blobs: Blobs, observe: Observer, inline_bytes: int = INLINE_BYTES) -> None:
        self.inline_bytes = inline_bytes
        """The most that a body may have to be kept with its run."""
        self._blobs = blobs
        self._observe = observe
        self._deleting = set[asyncio.Task[None]]()

    async def keep(self, run_id: str, content: bytes) -> RequestBlob:
        """The blob that a body is in now; FaultError(ServiceUnavailable) where the store is away."""
        head = run_id.encode()
        writer = self._blobs.writer(len(head) + len(content))
        try:
            await writer.write(head)
            await writer.write(content)
            return RequestBlob(await writer.commit(), len(head) + len(content))
        except BlobsUnavailableError as error:
            self._observe(BlobTrouble("store a request body", str(error)))
            raise FaultError(ServiceUnavailable(_NOT_KEPT)) from error
        finally:
            await writer.abort()

    async def read(self, run_id: str, kept: bytes | RequestBlob) -> bytes:
        """The body of a run; BodyLostError, or FaultError(ServiceUnavailable) where the store is away."""
        if not isinstance(kept, RequestBlob):
            return kept
        try:
            pieces = [piece async for piece in await self._blobs.read(kept.name, 0, kept.size)]
        except BlobLostError as error:
            raise BodyLostError from error
        except BlobsUnavailableError as error:
            self._observe(BlobTrouble("read a request body", str(error)))
            raise FaultError(ServiceUnavailable(_NOT_READ)) from error
        head = run_id.encode()
        if not pieces or not pieces[0].startswith(head) or sum(map(len, pieces)) != kept.size:
            raise BodyLostError
        pieces[0] = pieces[0][len(head) :]
        return await asyncio.to_thread(b"".join, pieces)  # without the interpreter lock

    async def delete(self, names: Sequence[str]) -> None:
        """Delete the blobs of runs that never began; those that cannot be deleted now are swept."""
        try:
            for name in names:
                await self._blobs.delete(name)
        except BlobsUnavailableError as error:
            self._observe(BlobTrouble("delete request bodies", str(error)))

    def delete_soon(self, names: Sequence[str]) -> None:
        """The same for runs that have ended, for which nobody waits."""
        task = asyncio.get_running_loop().create_task(self.delete(names))
        self._deleting.add(task)
        task.add_done_callback(self._deleting.discard)

    async def close(self) -> None:
        """Wait until what is to be deleted is, but not for long."""
        if self._deleting:
            _, late = await asyncio.wait(self._deleting, timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()
