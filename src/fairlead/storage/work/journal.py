"""The journal of one kind of work: entries that arrive together share one durable transaction (group commit).

One batch is written at a time; entries that arrive meanwhile make the next one. So a single entry does not wait, and a
thousand cost little more than one. An entry is answered only when its batch is durable.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

import msgspec
from sqlalchemy import Connection

from fairlead.domain.faults import ServiceUnavailable
from fairlead.domain.work.entries import Release, Released
from fairlead.storage.db.database import Database, DatabaseUnavailableError

BATCH_MAX: Final = 512
WAITING_MAX: Final = 20_000
_CAPACITY_RETRY_SECONDS: Final = 1

Entry = TypeVar("Entry")
Verdict = TypeVar("Verdict")
_Waiting: TypeAlias = tuple[Entry | Release, asyncio.Future[Verdict | ServiceUnavailable]]


class BatchSpacing(msgspec.Struct, frozen=True):
    """Under load, batches begin at least `seconds` apart, for fewer commits, as by PostgreSQL's commit_delay.

    A batch of less than `least_entries` entries is never followed by a pause, so a single call does not wait.
    """

    least_entries: int = 8
    seconds: float = 0.004


_SPACING: Final = BatchSpacing()


class WrittenWork(msgspec.Struct, Generic[Verdict], frozen=True):
    """The outcome of a batch: a verdict for each entry, in order, and the work that may be claimed.

    In the `unfinished` workspaces more may be released: another Release is due. A batch `has_news` where its listener
    has something to do.
    """

    verdicts: Sequence[Verdict]
    released: Sequence[Released] = ()
    unfinished: Sequence[str] = ()
    has_news: bool = False


Batch = TypeVar("Batch", bound=WrittenWork[Any])


def _ignore(_: object) -> None:
    pass


def _heed(written: asyncio.Future[Verdict]) -> None:
    """Retrieve the result of a write that nobody waits for. If it failed, its work is found again later."""
    if not written.cancelled():
        written.exception()


class Journal(Generic[Entry, Batch, Verdict]):
    """Writes entries in batches and answers each with its verdict: the one way in which the state of work changes.

    `work` writes a batch in one transaction. `split` is called with the number of entries of a failed batch and its
    error. Once a batch is durable, `listener` is called with its news, and `released` with the work that may now be
    claimed. `spacing` bounds how close batches follow each other.
    """

    def __init__(
        self,
        database: Database,
        work: Callable[[Connection, Sequence[Entry | Release]], Batch],
        split: Callable[[int, Exception], None],
        spacing: BatchSpacing = _SPACING,
        *,
        released: Callable[[Sequence[Released]], None] = _ignore,
        listener: Callable[[Batch], None] = _ignore,
    ) -> None:
        self._database = database
        self._work = work
        self._tell_split = split
        self._spacing = spacing
        self._released = released
        self._listener = listener
        self._waiting: list[_Waiting[Entry, Verdict]] = []
        self._in_batch = 0
        self._writing: asyncio.Task[None] | None = None

    @property
    def entries_waiting(self) -> int:
        """How many entries are not durable yet."""
        return len(self._waiting) + self._in_batch

    def write(self, entry: Entry | Release) -> asyncio.Future[Verdict | ServiceUnavailable]:
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
                # Entries that arrive during the pause share the next commit.
                if len(batch) >= self._spacing.least_entries:
                    await asyncio.sleep(began + self._spacing.seconds - asyncio.get_running_loop().time())
        finally:
            self._writing = None

    async def _write_batch(self, batch: list[_Waiting[Entry, Verdict]]) -> None:
        entries, futures = zip(*batch, strict=True)
        try:
            written = await self._database.write(lambda connection: self._work(connection, entries))
        except DatabaseUnavailableError as error:
            for future in futures:
                _refuse(future, error)
        except Exception as error:  # noqa: BLE001 -- any error belongs to the entries, not to the journal
            await self._write_apart(batch, error)
        else:
            # Entries are answered before anything else, so that none waits for what listeners do.
            for future, verdict in zip(futures, written.verdicts, strict=True):
                if not future.done():
                    future.set_result(cast("Verdict", verdict))
            if written.has_news:
                self._listener(written)
            if written.released:
                self._released(written.released)
            for workspace_id in written.unfinished:
                self.write(Release(workspace_id)).add_done_callback(_heed)

    async def _write_apart(self, batch: list[_Waiting[Entry, Verdict]], error: Exception) -> None:
        """Find the entry that made a batch fail, so that the other entries are written."""
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
