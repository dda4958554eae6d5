"""Watching a job: what newcomers are told of it, and what nobody has told of here (J-13)."""

from pathlib import Path
from typing import Final

import pytest

from conftest import Run
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.jobs.entries import JobCancel, JobEntry, Submission
from fairlead.domain.jobs.events import EventEnvelope, Executing, JobEvent, Place, Preview, Started, Succeeded
from fairlead.domain.jobs.jobs import JobLifetime
from fairlead.domain.jobs.states import JobState
from fairlead.domain.jobs.updates import StatusUpdate, Update
from fairlead.identity.links import Links
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.operations.assets.files import FileLinks
from fairlead.operations.jobs import watch as watching
from fairlead.operations.jobs.follow import follow_nobody
from fairlead.operations.jobs.outputs import JobOutputs
from fairlead.operations.jobs.read import JobReader
from fairlead.operations.jobs.watch import JobWatcher
from fairlead.operations.work.stored_documents import StoredDocuments
from fairlead.storage.db.database import Database
from fairlead.storage.jobs.entries import write_job_entries
from fairlead.storage.jobs.jobs import deflate
from operations.asset_room import Room
from storage.bookings import LAB, NOW, Books

_PLACE: Final = Place("1", "1")
_ME: Final = Caller(LAB, "lab")


@pytest.mark.req("J-13")
def test_newcomer_sees_the_newest_preview(run: Run) -> None:
    """The newest preview of a job is available for as long as it is executed; one of an unknown job is not kept."""

    async def read_updates() -> list[bytes | None]:
        event_hub = LocalEventHub()
        seen: list[bytes | None] = []

        def tell(event: JobEvent) -> None:
            event_hub.publish(EventEnvelope("lab", "job", "job", 1, event))
            preview = event_hub.newest_preview("job")
            seen.append(None if preview is None else preview.image)

        for event in (
            Preview(_PLACE, "image/png", b"lost"), Started(), Executing(_PLACE), Preview(_PLACE, "image/png", b"first"),
            Preview(_PLACE, "image/png", b"second"), Succeeded(),
        ):  # fmt: skip
            tell(event)
        return seen

    assert run(read_updates()) == [None, None, None, b"first", b"second", None]


@pytest.mark.req("J-13")
@pytest.mark.parametrize("alone", [True, False])
def test_watch_notices_a_job_that_ended_elsewhere(
    database: Database, books: Books, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, *, alone: bool
) -> None:
    """A job of which nothing is heard is looked for, however rarely; silence is told as such meanwhile."""
    monkeypatch.setattr(watching, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(watching, "_SILENCE_SECONDS", 0.03)
    books.open(jobs_limit=1)
    document = deflate(b"{}")
    watcher = _watcher(database, tmp_path, alone=alone)

    def write(entry: JobEntry) -> None:
        books.do(lambda connection: write_job_entries(connection, [entry]))

    async def read_updates() -> list[Update | None]:
        watch = await watcher.watch(_ME, "job")
        seen: list[Update | None] = []
        try:
            async for update in watch.updates():
                seen.append(update)
                if update is None and seen.count(None) == 1:
                    await database.write(
                        lambda connection: write_job_entries(connection, [JobCancel("job", LAB, 1, 2)])
                    )
        finally:
            watch.close()
        return seen

    write(Submission("job", LAB, document, document, "[]", nodes=1, created_at=NOW, backlog=10))
    statuses = [(seen.job.state, seen.ahead) for seen in run(read_updates()) if isinstance(seen, StatusUpdate)]
    assert statuses == [(JobState.RELEASED, 0), (JobState.CANCELED, None)]


def _watcher(database: Database, folder: Path, *, alone: bool) -> JobWatcher:
    room = Room(database, folder)
    links, lifetime = FileLinks(Links(bytes(32), "/files"), room.clock), JobLifetime(1, 1, 1)
    outputs = JobOutputs(database, room.blobs, room.files, links, lifetime, room.clock, lambda _: None)
    reader = JobReader(database, StoredDocuments(room.blobs, lambda _: None), lambda _: None)
    return JobWatcher(LocalEventHub(), reader, outputs, follow_nobody, alone=alone)
