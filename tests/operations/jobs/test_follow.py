"""Following jobs that other servers execute: told once, in order, from what they have written (M-04)."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec
import pytest

from conftest import Run
from fairlead.domain.jobs.entries import JobCancel, JobEnding, JobEntry, JobProgress, NewEvent, Submission
from fairlead.domain.jobs.events import (
    Counted,
    EventEnvelope,
    Executed,
    Executing,
    Failed,
    Failure,
    Finished,
    Interrupted,
    JobEvent,
    Place,
    Progress,
    QueueChanged,
    Started,
    Succeeded,
)
from fairlead.domain.jobs.states import JobState, JobTransition
from fairlead.domain.jobs.updates import StoredProgress
from fairlead.domain.work.entries import Claim, TakeOver
from fairlead.messaging.local.event_hub import LocalEventHub
from fairlead.observing.observations import DatabaseTrouble, Observation
from fairlead.operations.jobs import follow as following
from fairlead.operations.jobs.follow import JobFollower
from fairlead.operations.jobs.work import WAITED_TOO_LONG
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.jobs.entries import write_job_entries
from fairlead.storage.jobs.jobs import deflate
from storage.bookings import LAB, NOW, Books

pytestmark = pytest.mark.req("M-04")

_ME: Final = "this server"
_OTHER: Final = "another server"
_ONE: Final = Place("1", "1")
_TWO: Final = Place("2", "2")
_SHOWN: Final = Executed(_ONE, {"text": ["x"]})


class Scene:
    """A server that follows others, and one of its subscribers."""

    def __init__(self, database: Database) -> None:
        """Have nobody subscribed yet."""
        self.hub = LocalEventHub()
        self.seen: list[Observation] = []
        self.follower = JobFollower(database, self.hub, self.seen.append, server_id=_ME)
        self._database = database

    async def subscribe(self) -> None:
        """Subscribe to the workspace, as a socket does."""
        self.subscription = self.hub.subscribe(LAB)
        await self.follower.begin(LAB)

    async def write(self, *entries: JobEntry) -> None:
        """Write what servers have done."""
        await self._database.write(lambda connection: write_job_entries(connection, entries))

    async def looks(self) -> list[JobEvent]:
        """What is told after the next look."""
        await self.follower.look()
        return await self.waiting_events()

    async def waiting_events(self) -> list[JobEvent]:
        """What waits to be told."""
        found: list[JobEvent] = []
        with suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0):
                    taken = await self.subscription.next()
                found += [one.envelope.event for one in taken if one.envelope is not None]
        return found


def submission(job: str = "job", server_id: str | None = _OTHER) -> Submission:
    """Return a job that a server submits, and executes where it is named."""
    document = deflate(b"{}")
    return Submission(job, LAB, document, document, "[]", nodes=2, created_at=NOW, backlog=10, server_id=server_id)


def events(first: int, *said: JobEvent) -> list[NewEvent]:
    """Return events to be kept, numbered from the first."""
    return [
        NewEvent(number, type(event).__name__, msgspec.json.encode(event), NOW)
        for number, event in enumerate(said, first)
    ]


def progress(kept: Sequence[NewEvent], report: StoredProgress, attempt: int = 1, at: int = NOW) -> JobProgress:
    """Return how far a job is."""
    return JobProgress("job", LAB, attempt, msgspec.json.encode(report).decode(), kept, at)


def ending(
    kept: Sequence[NewEvent], state: JobState = JobState.SUCCEEDED, failure: bytes | None = None, attempt: int = 1
) -> JobEnding:
    """Return the end of a job."""
    return JobEnding("job", LAB, attempt, state, None, failure, '{"nodes_done":2,"nodes_total":2}', kept, NOW, NOW + 9)


def test_job_of_another_server_is_told_from_its_start_to_its_end(run: Run, database: Database, books: Books) -> None:
    """What is kept of it is told once and in order, and between that which nodes run; then how many jobs remain."""
    books.open(jobs_limit=5)

    async def scene() -> None:
        here = Scene(database)
        await here.subscribe()
        assert await here.looks() == []
        await here.write(submission())
        assert await here.looks() == [QueueChanged(1)]
        report = StoredProgress(0, 2, "1", 1, 4, [_ONE])
        await here.write(progress(events(1, Started()), report, at=NOW + 1))
        assert await here.looks() == [Started(), Executing(_ONE), Progress(_ONE, 1, 4), Counted(0)]
        assert await here.looks() == []
        report = StoredProgress(1, 2, "2", None, None, [_TWO])
        await here.write(progress(events(2, _SHOWN), report, at=NOW + 2))
        assert await here.looks() == [_SHOWN, Finished(_ONE), Executing(_TWO), Counted(1)]
        await here.write(ending(events(3, Succeeded())))
        assert await here.looks() == [Succeeded(), QueueChanged(0)]
        assert await here.looks() == []
        assert here.hub.subscribe(LAB).running == []

    run(scene())


def test_job_that_begins_and_ends_between_two_looks_is_told_whole(run: Run, database: Database, books: Books) -> None:
    """Nothing of it is passed over."""
    books.open(jobs_limit=5)

    async def scene() -> None:
        here = Scene(database)
        await here.subscribe()
        await here.write(submission(), ending(events(1, Started(), _SHOWN, Succeeded())))
        assert await here.looks() == [Started(), _SHOWN, Succeeded()]

    run(scene())


@pytest.mark.parametrize(
    ("cause", "failure", "told"),
    [
        (JobTransition.CANCEL, None, Interrupted(None, None, [])),
        (JobTransition.EXPIRE, None, WAITED_TOO_LONG),
        (JobTransition.ABANDON, failed := Failed(Failure(Place("", ""), "", "X", "No.", [], {}, [])), failed),
    ],
)
def test_job_that_another_server_gave_up_while_it_waited_is_told(
    run: Run, database: Database, books: Books, cause: JobTransition, failure: Failed | None, told: JobEvent
) -> None:
    """No event is kept of that; its end is told as the server that wrote it tells it."""
    books.open(jobs_limit=5)
    content = None if failure is None else msgspec.json.encode(failure)

    async def scene() -> None:
        here = Scene(database)
        await here.write(submission(server_id=None))
        await here.subscribe()
        await here.write(JobCancel("job", LAB, NOW, NOW + 9, cause=cause, failure=content))
        assert await here.looks() == [told, QueueChanged(0)]

    run(scene())


def test_newcomer_is_told_what_runs_and_nothing_of_before(run: Run, database: Database, books: Books) -> None:
    """Events from before it came are not told, and ended jobs are not; the node that runs is, and what follows."""
    books.open(jobs_limit=5)

    async def scene() -> None:
        here = Scene(database)
        await here.write(submission(), ending(events(1, Started(), Succeeded())))
        await here.write(submission("second"))
        report = msgspec.json.encode(StoredProgress(0, 2, "1", None, None, [_ONE])).decode()
        await here.write(JobProgress("second", LAB, 1, report, events(1, Started()), NOW))
        await here.subscribe()
        assert await here.waiting_events() == [Executing(_ONE), Counted(0)]
        assert await here.looks() == []
        await here.write(JobProgress("second", LAB, 1, report, events(2, _SHOWN), NOW + 1))
        assert await here.looks() == [_SHOWN]

    run(scene())


def test_event_that_a_messenger_has_brought_is_told_once(run: Run, database: Database, books: Books) -> None:
    """Nor what this server has published itself; and a node that is known to run does not begin a second time."""
    books.open(jobs_limit=5)

    async def scene() -> None:
        here = Scene(database)
        await here.subscribe()
        await here.write(submission(), submission("mine", _ME))
        heard: list[tuple[JobEvent, int, bool]] = [
            (Started(), 1, True), (Executing(_ONE), 1, False), (Progress(_ONE, 3, 4), 1, False),
        ]  # fmt: skip
        for event, kept, is_kept in heard:
            here.hub.hear(EventEnvelope(LAB, "job", "job", NOW, event, 1, kept, is_kept))
        here.hub.publish(EventEnvelope(LAB, "mine", "mine", NOW, Started(), 1, 1, is_kept=True))
        here.hub.hear(EventEnvelope(LAB, None, None, NOW, QueueChanged(2)))
        assert await here.waiting_events() == [*(event for event, _, _ in heard), Started(), QueueChanged(2)]
        await here.write(progress(events(1, Started()), StoredProgress(0, 2, "1", 1, 4, [_ONE])))
        await here.write(JobProgress("mine", LAB, 1, "{}", events(1, Started()), NOW))
        assert await here.looks() == []
        here.hub.hear(EventEnvelope(LAB, "job", "job", NOW, Succeeded(), 1, 2, is_kept=True))
        await here.write(ending(events(2, Succeeded())))
        assert await here.looks() == [Succeeded(), QueueChanged(1)]

    run(scene())


def test_next_attempt_is_told_though_the_one_before_was_heard_further(
    run: Run, database: Database, books: Books
) -> None:
    """A server that died had not written all that it told; its job begins again with the same numbers."""
    books.open(jobs_limit=5)

    async def scene() -> None:
        here = Scene(database)
        await here.subscribe()
        await here.write(submission())
        here.hub.hear(EventEnvelope(LAB, "job", "job", NOW, Started(), 1, 1, is_kept=True))
        here.hub.hear(EventEnvelope(LAB, "job", "job", NOW, _SHOWN, 1, 2, is_kept=True))
        await here.write(progress(events(1, Started()), StoredProgress(0, 2)))
        assert await here.looks() == [Started(), _SHOWN, QueueChanged(1)]
        await here.write(TakeOver("job", LAB, 1, None, NOW, NOW + 9))
        await here.write(Claim("job", LAB, "a third server", NOW + 1))
        here.hub.hear(EventEnvelope(LAB, "job", "job", NOW, Executing(_TWO), 2, 2))
        assert await here.looks() == []
        await here.write(ending(events(2, Started(), Succeeded()), attempt=2))
        assert await here.looks() == [Started(), Succeeded(), QueueChanged(0)]

    run(scene())


def test_jobs_beyond_those_in_view_are_told_when_they_come_into_view(
    run: Run, database: Database, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wait, a bounded number is looked at, and the end of none is passed over."""
    monkeypatch.setattr(following, "_JOBS_MAX", 2)
    books.open(jobs_limit=1)

    async def scene() -> None:
        here = Scene(database)
        await here.subscribe()
        names = [f"job-{number}" for number in range(5)]
        await here.write(*(submission(name, None) for name in names))
        told = await here.looks()
        for name in names:
            await here.write(Claim(name, LAB, _OTHER, NOW))
            kept = events(1, Started(), Succeeded())
            await here.write(msgspec.structs.replace(ending(kept), job_id=name))
            told += await here.looks()
        told += await here.looks()
        assert told.count(Started()) == told.count(Succeeded()) == len(names)
        assert told[-1] == QueueChanged(0)

    run(scene())


def test_events_of_one_look_are_bounded_and_the_next_goes_on(
    run: Run, database: Database, books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job with many events is told in several looks; its end comes last."""
    monkeypatch.setattr(following, "_EVENTS_A_LOOK", 3)
    books.open(jobs_limit=5)

    async def scene() -> None:
        here = Scene(database)
        await here.subscribe()
        said: list[JobEvent] = [
            Started(),
            *(Executed(_ONE, {"text": [str(number)]}) for number in range(6)),
            Succeeded(),
        ]
        await here.write(submission(), ending(events(1, *said)))
        looks = [await here.looks() for _ in range(4)]
        assert [len(look) for look in looks] == [3, 3, 2, 0]
        assert [event for look in looks for event in look] == said

    run(scene())


def test_outage_of_the_database_costs_time_alone(run: Run, database: Database, books: Books) -> None:
    """A socket is opened all the same, and is told when the database is back."""
    books.open(jobs_limit=5)

    class Away:
        is_away = True

        async def read(self, work: Any) -> Any:
            if self.is_away:
                raise DatabaseUnavailableError("away")
            return await database.read(work)

    async def scene() -> None:
        here, away = Scene(database), Away()
        here.follower = JobFollower(away, here.hub, here.seen.append, server_id=_ME)  # type: ignore[arg-type]
        await here.subscribe()
        assert await here.looks() == []
        assert here.seen == [DatabaseTrouble("follow jobs", "away")] * 2
        away.is_away = False
        assert await here.looks() == []
        await here.write(submission(), ending(events(1, Started(), Succeeded())))
        away.is_away = True
        assert await here.looks() == []
        away.is_away = False
        assert await here.looks() == [Started(), Succeeded()]

    run(scene())


def test_nothing_is_read_while_nobody_watches(run: Run, database: Database, books: Books) -> None:
    """A server without subscribers asks the database nothing; what was followed is forgotten."""
    books.open(jobs_limit=5)

    class Refusing:
        async def read(self, work: Any) -> Any:
            raise AssertionError(work)

    async def scene() -> None:
        here = Scene(database)
        here.follower = JobFollower(Refusing(), here.hub, here.seen.append, server_id=_ME)  # type: ignore[arg-type]
        await here.follower.look()

    run(scene())
