"""Whether this server can take work, tested by writing, which every call needs.

A server is unready only for a problem of its own, which another server may not have. What all servers share may be away
for all of them, and a load balancer that withdrew them all would answer in their place, without the format of any API:
so that is told, and each call is answered as its API does in such an outage (T-06).
"""

import asyncio
import enum
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from fairlead.operations.shared_look import SharedLook
from fairlead.storage.blobs.gate import StoreGate, StoreState
from fairlead.storage.blobs.store import BlobsUnavailableError, StoreUnprovenError
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Transaction, Work
from fairlead.storage.db.migrate import schema_state

_WRITTEN: Final = bytes(4096)


class Status(enum.StrEnum):
    """What a server can do now."""

    STARTING = "starting"
    """It is still starting; calls wait."""
    READY = "ready"
    """It takes work."""
    DEGRADED = "degraded"
    """It takes calls, and answers them as each API does while something that all servers share is away."""
    UNREADY = "unready"
    """It runs, but cannot take work because of a problem of its own."""
    DRAINING = "draining"
    """It is stopping: work in progress continues, new work belongs elsewhere."""


class Subject(enum.StrEnum):
    """What can be wrong."""

    DATABASE = "database"
    STORE = "store"
    SCHEMA = "schema"
    UNPROVEN_STORE = "unproven_store"
    DISK = "disk"


_SILENT: Final[Mapping[Subject, str]] = {
    Subject.DATABASE: "the database does not answer",
    Subject.STORE: "the store for files does not answer",
    Subject.DISK: "the disk of the data directory does not answer",
}
"""What is looked at, and what is told of it while that look takes too long."""


class Problem(msgspec.Struct, frozen=True):
    """Something that is wrong, in words for an operator."""

    subject: Subject
    words: str


class CheckedFiles(Protocol):
    """The store for files, whose state is known, and which can be tried."""

    @property
    def gate(self) -> StoreGate:
        """Whether it is the installation's."""
        ...

    async def check_writable(self) -> None:
        """Write a file; BlobsUnavailableError."""
        ...


class Shared(msgspec.Struct, frozen=True):
    """Whether other servers have the same database, and whether they may have the same store."""

    database: bool
    files: bool


class Readiness:
    """Tests whether the database, the store for files and the data directory can be written, once for all who ask.

    `write_row` writes a small row of this server's own. The data directory `folder` is tried by itself where the files
    are elsewhere.
    """

    def __init__(
        self, database: Database, write_row: Work[object], files: CheckedFiles, folder: Path, shared: Shared
    ) -> None:
        self._database = database
        self._write_row = write_row
        self._files = files
        self._folder = folder
        self._shared = {Subject.DATABASE: shared.database, Subject.STORE: shared.files}
        looks = {Subject.DATABASE: self._look_at_database, Subject.STORE: self._look_at_store}
        if shared.files:
            looks[Subject.DISK] = self._look_at_disk
        self._looks = {subject: SharedLook(look) for subject, look in looks.items()}
        self._is_draining = False

    def begin_draining(self) -> None:
        """Report from now on that this server is stopping."""
        self._is_draining = True

    async def check(self) -> tuple[Status, list[str]]:
        """What this server can do, and what is wrong; takes at most two seconds."""
        if self._is_draining:
            return Status.DRAINING, []
        problems = await self.problems()
        told = [problem.words for problem in problems]
        if any(not self._shared.get(problem.subject) for problem in problems):
            return Status.UNREADY, told
        return (Status.DEGRADED if problems else Status.READY), told

    async def problems(self) -> Sequence[Problem]:
        """What is wrong; takes at most two seconds."""
        found = await asyncio.gather(*(look.ask() for look in self._looks.values()))
        return [
            problem
            for subject, problems in zip(self._looks, found, strict=True)
            for problem in ([Problem(subject, _SILENT[subject])] if problems is None else problems)
        ]

    async def figures(self) -> Mapping[str, bool]:
        """Each subject, and whether something is wrong with it, for the metrics."""
        wrong = {problem.subject for problem in await self.problems()}
        return {subject.value: subject in wrong for subject in Subject}

    async def close(self) -> None:
        """Cancel the tests in progress."""
        for look in self._looks.values():
            await look.close()

    async def _look_at_database(self) -> Sequence[Problem]:
        try:
            is_usable = await self._database.write(self._try_to_write)
        except DatabaseUnavailableError:
            return [Problem(Subject.DATABASE, "the database cannot be written")]
        if is_usable:
            return []
        return [Problem(Subject.SCHEMA, "the database has a schema that this version cannot use")]

    def _try_to_write(self, connection: Transaction) -> bool:
        is_usable = schema_state(connection).is_usable
        if is_usable:
            self._write_row(connection)
        return is_usable

    async def _look_at_store(self) -> Sequence[Problem]:
        try:
            await self._files.check_writable()
        except StoreUnprovenError:
            if self._files.gate.state is StoreState.UNKNOWN:
                return [Problem(Subject.STORE, "the store for files could not be reached yet")]
            words = "the store for files is not known to be the installation's; see the log and `fairlead doctor`"
            return [Problem(Subject.UNPROVEN_STORE, words)]
        except BlobsUnavailableError:
            return [Problem(Subject.STORE, "files cannot be written to their store")]
        return []

    async def _look_at_disk(self) -> Sequence[Problem]:
        try:
            await asyncio.to_thread(self._write_here)
        except OSError:
            return [Problem(Subject.DISK, "the data directory cannot be written")]
        return []

    def _write_here(self) -> None:
        with tempfile.NamedTemporaryFile(dir=self._folder, buffering=0) as file:
            file.write(_WRITTEN)
