"""Group commit: entries that arrive together share one durable transaction.

One batch is written at a time; whatever arrives meanwhile makes the next one. So a lone entry waits for nobody, and a
thousand cost little more than one. An entry is answered only when its batch is durable.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar, cast

import msgspec
from sqlalchemy import Connection

from fairlead.domain.faults import ServiceUnavailable
from fairlead.storage.db.database import Database, DatabaseUnavailableError

BATCH_MAX: Final = 512
WAITING_MAX: Final = 20_000
_CAPACITY_RETRY_SECONDS: Final = 1

Entry = TypeVar("Entry")
Verdict = TypeVar("Verdict")


class BatchSpacing(msgspec.Struct, frozen=True):
    """Under load, batches begin no closer than `seconds`: fewer commits, as by PostgreSQL's commit_delay.

    A batch of less than `least_entries` entries is never followed by a pause, so a lone call waits for nobody.
    """

    least_entries: int = 8
    seconds: float = 0.004


_SPACING: Final = BatchSpacing()


class WrittenBatch(Protocol):
    """What became of a batch, and whatever else is to be told of it."""

    @property
    def verdicts(self) -> Sequence[object]:
        """One for each entry, in order."""
        ...


Batch = TypeVar("Batch", bound=WrittenBatch)


class GroupCommit(Generic[Entry, Batch, Verdict]):
    """Writes entries in batches and answers each with its verdict.

    `work` writes a batch in one transaction. `split` is told how many entries a failed batch had and what it failed
    for. `spacing` bounds how close batches follow each other. Subclasses may tell more of what has been written.
    """

    def __init__(
        self,
        database: Database,
        work: Callable[[Connection, Sequence[Entry]], Batch],
        split: Callable[[int, Exception], None],
        spacing: BatchSpacing = _SPACING,
    ) -> None:
        self._database = database
        self._work = work
        self._tell_split = split
        self._spacing = spacing
        self._waiting: list[tuple[Entry, asyncio.Future[Verdict | ServiceUnavailable]]] = []
        self._in_batch = 0
        self._writing: asyncio.Task[None] | None = None

    @property
    def entries_waiting(self) -> int:
        """How many entries are not durable yet."""
        return len(self._waiting) + self._in_batch

    def written(self, batch: Batch) -> None:
        """Hear what has just become durable, after its entries were answered."""

    def write(self, entry: Entry) -> asyncio.Future[Verdict | ServiceUnavailable]:
        """Hand an entry in; the future answers when it is durable.

        DatabaseUnavailableError from the future: nothing was written.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Verdict | ServiceUnavailable] = loop.create_future()
        if len(self._waiting) >= WAITING_MAX:
            future.set_result(ServiceUnavailable("Too much is waiting to be recorded.", _CAPACITY_RETRY_SECONDS))
            return future
        self._waiting.append((entry, future))
        if self._writing is None:
            self._writing = loop.create_task(self._write_waiting())
        return future

    async def close(self) -> None:
        """Wait until nothing is left to write."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write_waiting(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
                self._in_batch = len(batch)
                began = asyncio.get_running_loop().time()
                await self._write_batch(batch)
                self._in_batch = 0
                if len(batch) >= self._spacing.least_entries:
                    await asyncio.sleep(began + self._spacing.seconds - asyncio.get_running_loop().time())
        finally:
            self._writing = None

    async def _write_batch(self, batch: list[tuple[Entry, asyncio.Future[Verdict | ServiceUnavailable]]]) -> None:
        entries, futures = zip(*batch, strict=True)
        try:
            written = await self._database.write(lambda connection: self._work(connection, entries))
        except DatabaseUnavailableError as error:
            for future in futures:
                _refuse(future, error)
        except Exception as error:  # noqa: BLE001 -- whatever it is belongs to the entries, not to the journal
            await self._write_apart(batch, error)
        else:
            for future, verdict in zip(futures, written.verdicts, strict=True):
                if not future.done():
                    future.set_result(cast("Verdict", verdict))
            self.written(written)

    async def _write_apart(
        self, batch: list[tuple[Entry, asyncio.Future[Verdict | ServiceUnavailable]]], error: Exception
    ) -> None:
        """Find the entry a batch failed for: one poisoned entry must not take its neighbours with it."""
        if len(batch) == 1:
            _refuse(batch[0][1], error)
            return
        self._tell_split(len(batch), error)
        middle = len(batch) // 2
        await self._write_batch(batch[:middle])
        await self._write_batch(batch[middle:])


def _refuse(future: asyncio.Future[Verdict], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
