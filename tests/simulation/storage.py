"""The database of a simulation: one real SQLite in memory, and a line from each server to it that can fail.

What is simulated is when a transaction happens and what its server hears of it. The transactions themselves are the
product's own statements on the product's own tables.
"""

import asyncio
import hashlib
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.pool import StaticPool

from fairlead.storage.blobs.store import BlobDamagedError, BlobMissingError, BlobsUnavailableError, StoredBlob
from fairlead.storage.db.database import DatabaseUnavailableError
from fairlead.storage.db.migrate import upgrade
from fairlead.storage.db.statements import sqlite_driver
from fairlead.storage.ledger import ledger
from simulation.process import Process
from simulation.scenario import Scenario

T = TypeVar("T")
Work = Callable[[Connection], T]

_PROVEN_EVERY: Final = 0.01


class WrongBooksError(Exception):
    """A commit left books that disagree with themselves."""


class Store:
    """The database that the servers of a simulation share. `begin` puts it back to how it was when it was kept."""

    def __init__(self) -> None:
        engine = create_engine(
            "sqlite://", connect_args={"check_same_thread": False}, poolclass=StaticPool, hide_parameters=True
        )

        @event.listens_for(engine, "connect")
        def _configure(connection: sqlite3.Connection, _record: Any) -> None:
            connection.isolation_level = None  # BEGIN is ours, as in the product
            connection.execute("PRAGMA foreign_keys=ON")

        self._engine = engine
        self._connection = engine.connect()
        self._connection.begin()  # for good: the transactions are SQLite's
        self._kept = sqlite3.connect(":memory:")
        self.transact(upgrade)

    def keep(self) -> None:
        """Remember everything as it is now."""
        sqlite_driver(self._connection).backup(self._kept)

    def begin(self) -> None:
        """Put everything back to how it was kept.

        Not by `deserialize`: that makes a new schema, and SQLite 3.40 goes on to use the one before for `json_each`,
        which it has freed by then.
        """
        self._kept.backup(sqlite_driver(self._connection))

    def transact(self, work: Work[T], *, commits: bool = True) -> T:
        """Do work in one transaction."""
        driver = sqlite_driver(self._connection)
        driver.execute("BEGIN IMMEDIATE")
        ended_by = "ROLLBACK"
        try:
            result = work(self._connection)
            if commits:
                ended_by = "COMMIT"
        finally:
            driver.execute(ended_by)
        return result

    def look(self, work: Work[T]) -> T:
        """Do reading work on what is there now."""
        return self.transact(work, commits=False)

    def close(self) -> None:
        """Let the memory go."""
        self._kept.close()
        self._connection.close()
        self._engine.dispose()


class Line:
    """A server's way to the database: slow, sometimes broken, and broken off where the server dies."""

    def __init__(self, store: Store, process: Process, scenario: Scenario) -> None:
        self._store = store
        self._process = process
        self._scenario = scenario
        self.is_away = False

    async def write(self, work: Work[Any], *, durable: bool = True) -> Any:  # noqa: ARG002 -- nothing here is
        """Commit, or fail before; or commit and fail all the same, which nobody can tell apart."""
        await self._travel(self._scenario.plan.commit_refused, "commit")
        await self._process.may_die(self._scenario.plan.crash_before_commit, "before a commit")
        result = self._store.transact(work)
        if self._scenario.happens(_PROVEN_EVERY):
            self._prove()
        await self._process.may_die(self._scenario.plan.crash_after_commit, "after a commit")
        if self._scenario.happens(self._scenario.plan.commit_unheard):
            self._scenario.tell(f"{self._process.name}: a commit is not heard of")
            raise DatabaseUnavailableError("away after the commit")
        await self._process.wait(self._latency())
        return result

    async def read(self, work: Work[Any]) -> Any:
        """Read what is there at one moment; the answer comes later."""
        await self._travel(self._scenario.plan.read_refused, "read")
        result = self._store.look(work)
        await self._process.wait(self._latency())
        return result

    async def close(self) -> None:
        """Leave the database to the others."""

    async def _travel(self, refused: float, what: str) -> None:
        await self._process.wait(self._latency())
        if self.is_away or self._scenario.happens(refused):
            self._scenario.tell(f"{self._process.name}: a {what} is refused")
            raise DatabaseUnavailableError("away")

    def _latency(self) -> float:
        return self._scenario.chance.choice((0.0, 0.001, 0.001, 0.004, 0.03))

    def _prove(self) -> None:
        found = self._store.look(ledger.disagreements)
        if found:
            raise WrongBooksError(found)


class MemoryBlobs:
    """Blobs in memory, shared by all servers, whose store is sometimes away."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._blobs: dict[str, bytes] = {}

    def writer(self, _limit: int) -> "_Writer":
        """Begin a blob."""
        return _Writer(self._scenario, self._blobs)

    async def read(self, name: str, start: int, end: int) -> AsyncIterator[bytes]:
        """Stream the bytes of a blob."""
        if name not in self._blobs:
            raise BlobMissingError(name)
        return _once(self._blobs[name][start:end])

    async def check(self, name: str, size: int) -> None:
        """Look for a blob of a size."""
        if name not in self._blobs:
            raise BlobMissingError(name)
        if len(self._blobs[name]) != size:
            raise BlobDamagedError(name)

    async def verify(self, name: str, size: int) -> None:
        """Do the same: memory is not damaged."""
        await self.check(name, size)

    async def size(self, name: str) -> int | None:
        """Give the size of a blob."""
        return len(self._blobs[name]) if name in self._blobs else None

    async def exists(self, name: str) -> bool:
        """Say whether there is such a blob."""
        return name in self._blobs

    async def delete(self, name: str) -> None:
        """Remove a blob."""
        self._blobs.pop(name, None)

    async def walk(self, _folder: str) -> AsyncIterator[Sequence[StoredBlob]]:
        """List nothing: nothing is swept in a simulation."""
        pages: Sequence[Sequence[StoredBlob]] = ()
        for page in pages:
            yield page

    async def sweep(self, _older_than: float) -> int:
        """Sweep nothing."""
        return 0


class _Writer:
    def __init__(self, scenario: Scenario, blobs: dict[str, bytes]) -> None:
        self._scenario = scenario
        self._blobs = blobs
        self._content = b""

    async def write(self, chunk: bytes) -> None:
        self._content += chunk

    async def commit(self) -> str:
        await asyncio.sleep(0)
        if self._scenario.happens(self._scenario.plan.blobs_refused):
            raise BlobsUnavailableError("the store is away")
        name = hashlib.sha256(self._content).hexdigest()
        self._blobs[name] = self._content
        return name

    async def abort(self) -> None:
        self._content = b""


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
