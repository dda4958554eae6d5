"""Stores large documents as blobs, because the database has one writer, and each would make others wait (S-02).

These are the bodies of runs while the runs are live, and the workflows of jobs as long as the jobs. Such a blob belongs
to one owner, because it begins with the owner's id. So it can be deleted as soon as its owner no longer needs it, even
if others have sent the same document. What a crash leaves behind is swept with other unnamed blobs.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from fairlead.document_readers import INLINE_BYTES
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.work.entries import DocumentBlob
from fairlead.observing.blobs import BlobTrouble
from fairlead.observing.observations import Observer
from fairlead.storage.blobs.store import BlobLostError, Blobs, BlobsUnavailableError

_CLOSE_SECONDS: Final = 5.0


class DocumentLostError(Exception):
    """A stored document is missing, or is not what was stored."""


class StoredDocuments:
    """Stores large documents, which messages call `what`.

    Those of up to `inline_bytes` are stored in the database instead.
    """

    def __init__(
        self, blobs: Blobs, observe: Observer, inline_bytes: int = INLINE_BYTES, what: str = "request body"
    ) -> None:
        self.inline_bytes = inline_bytes
        """The largest document that is stored in the database."""
        self._blobs = blobs
        self._observe = observe
        self._what = what
        self._deleting = set[asyncio.Task[None]]()

    async def keep(self, owner_id: str, *parts: bytes) -> DocumentBlob:
        """Store a document, which may be given in parts, and return its blob.

        FaultError(ServiceUnavailable) where the store is away.
        """
        head = owner_id.encode()
        size = len(head) + sum(map(len, parts))
        writer = self._blobs.writer(size)
        try:
            for part in (head, *parts):
                await writer.write(part)
            return DocumentBlob(await writer.commit(), size)
        except BlobsUnavailableError as error:
            self._observe(BlobTrouble(f"store a {self._what}", str(error)))
            reason = f"The {self._what} cannot be stored right now; nothing was started."
            raise FaultError(ServiceUnavailable(reason)) from error
        finally:
            await writer.abort()

    async def read(self, owner_id: str, kept: bytes | DocumentBlob) -> bytes:
        """A document; DocumentLostError, or FaultError(ServiceUnavailable) where the store is away."""
        if not isinstance(kept, DocumentBlob):
            return kept
        (document,) = await self.read_parts(owner_id, kept, kept.size)
        return document

    async def read_parts(self, owner_id: str, kept: DocumentBlob, first: int) -> Sequence[bytes]:
        """The first bytes of a document, and the rest if there is any; raises as `read` does."""
        try:
            pieces = [piece async for piece in await self._blobs.read(kept.name, 0, kept.size)]
        except BlobLostError as error:
            raise DocumentLostError from error
        except BlobsUnavailableError as error:
            self._observe(BlobTrouble(f"read a {self._what}", str(error)))
            raise FaultError(ServiceUnavailable(f"The {self._what} cannot be read right now.")) from error
        head = owner_id.encode()
        # The id in front proves that the blob is this owner's, and the size that it is whole.
        if not pieces or not pieces[0].startswith(head) or sum(map(len, pieces)) != kept.size:
            raise DocumentLostError
        pieces[0] = pieces[0][len(head) :]
        # Without the interpreter lock.
        return [await asyncio.to_thread(b"".join, part) for part in _split(pieces, first) if part]

    async def delete(self, names: Sequence[str]) -> None:
        """Delete the blobs of owners that never began; those that cannot be deleted now are swept."""
        try:
            for name in names:
                await self._blobs.delete(name)
        except BlobsUnavailableError as error:
            self._observe(BlobTrouble(f"delete a {self._what}", str(error)))

    def delete_soon(self, names: Sequence[str]) -> None:
        """The same in the background, for owners that no longer need theirs."""
        task = asyncio.get_running_loop().create_task(self.delete(names))
        self._deleting.add(task)
        task.add_done_callback(self._deleting.discard)

    async def close(self) -> None:
        """Wait for deletions under way, but not for long."""
        if self._deleting:
            _, late = await asyncio.wait(self._deleting, timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()


def _split(pieces: Sequence[bytes], first: int) -> tuple[list[bytes], list[bytes]]:
    """The pieces of the first bytes, and those of the others."""
    before, after, left = list[bytes](), list[bytes](), first
    for piece in pieces:
        if left >= len(piece):
            before.append(piece)
        else:
            before.append(piece[:left])
            after.append(piece[left:])
        left = max(0, left - len(piece))
    return before, after
