"""Follows jobs that other servers execute, and publishes what those write to the watchers here.

It works with and without a messenger: the relay drops what the messenger has brought already. Each check is one read of
the database. It covers workspaces that are watched here, and in each the oldest jobs that have not ended: as they end,
the next come into view, so that none is missed however many wait.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from fairlead.domain.jobs.errors import INTERNAL
from fairlead.domain.jobs.events import (
    Counted,
    Ending,
    Event,
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
    ShownValues,
    Started,
    Succeeded,
)
from fairlead.domain.jobs.jobs import StoredEvent
from fairlead.domain.jobs.states import LIVE, WORKING, JobState
from fairlead.domain.jobs.updates import StoredProgress
from fairlead.messaging.event_relay import EventRelay, JobMark
from fairlead.observing.observations import DatabaseTrouble, Observer, UnexpectedError
from fairlead.operations.jobs.work import WAITED_TOO_LONG
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.jobs import changes
from fairlead.storage.jobs.changes import ChangedJob, JobStand, Known, KnownJob

Follow: TypeAlias = Callable[[str], Awaitable[None]]
"""Follows a workspace that is watched now: everything that others do after it has returned is published here."""
_WORKSPACES_A_LOOK: Final = 1_000
"""With more watched workspaces, each check covers the next so many."""
_JOBS_MAX: Final = 1_000
"""How many jobs of a workspace are in view."""
_JOBS_A_LOOK: Final = 200
_EVENTS_A_LOOK: Final = 500
"""How many events of a job one check publishes; the next continues."""
_BEGIN_SECONDS: Final = 5.0
_NOWHERE: Final = Place("", "")
_LOST_END: Final = Failed(Failure(_NOWHERE, "", INTERNAL, "Why the job has failed is not known any more.", [], {}, []))
_read_event: Final = msgspec.json.Decoder(Event).decode
_read_ending: Final = msgspec.json.Decoder(Failed | Interrupted).decode
_read_progress: Final = msgspec.json.Decoder(StoredProgress).decode


class _Seen(msgspec.Struct):
    """What was read of a job: its state, how many events, its progress, and the nodes that run."""

    stand: JobStand | None = None
    kept: int = 0
    progress: str | None = None
    running: Sequence[Place] = ()

    @property
    def attempt(self) -> int:
        """The attempt that was seen last."""
        return 0 if self.stand is None else self.stand.attempt


class _Followed(msgspec.Struct):
    """A workspace that is watched: its jobs in view, and the number up to which they were taken into view.

    Jobs up to the number `known` existed before; their ends are not published.
    """

    after: int
    known: int
    jobs: dict[str, _Seen] = {}

    @property
    def room(self) -> int:
        """How many more jobs may come into view."""
        return _JOBS_MAX - len(self.jobs)


class JobFollower:
    """Publishes what other servers than `server_id` have done to the watchers of jobs here."""

    def __init__(self, database: Database, relay: EventRelay, observe: Observer, *, server_id: str) -> None:
        self._database = database
        self._relay = relay
        self._observe = observe
        self._server_id = server_id
        self._followed: dict[str, _Followed] = {}
        self._beginning: dict[str, asyncio.Task[None]] = {}
        self._last = ""

    async def begin(self, workspace_id: str) -> None:
        """Follow a workspace that is watched now: everything that happens after this returns is published.

        While the database is away it returns nevertheless, and the next check begins.
        """
        if workspace_id in self._followed and self._relay.has_begun(workspace_id):
            return
        task = self._beginning.get(workspace_id)
        if task is None:
            task = self._beginning[workspace_id] = asyncio.get_running_loop().create_task(self._begin(workspace_id))
            task.add_done_callback(lambda _: self._beginning.pop(workspace_id, None))
        await asyncio.wait([task], timeout=_BEGIN_SECONDS)

    async def look(self) -> None:
        """Publish what has changed since the last check."""
        watched = self._relay.watched_workspaces()
        for workspace_id in self._followed.keys() - watched:
            del self._followed[workspace_id]
        for workspace_id in [id_ for id_ in watched if not self._relay.has_begun(id_)][:_WORKSPACES_A_LOOK]:
            await self.begin(workspace_id)
        workspace_ids = self._next()
        if not workspace_ids:
            return
        turns = {id_: self._relay.turn(id_) for id_ in workspace_ids}
        try:
            known = self._read_known(workspace_ids)
            found = await self._database.read(lambda c: changes.find_changes(c, known))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("follow jobs", str(error)))
            return
        for job in found.jobs:
            if (followed := self._followed.get(job.workspace_id)) is not None:
                self._tell(followed, job, found.events.get(job.id, ()))
        newest = max((job.stand.updated_at for job in found.jobs), default=0)
        for workspace_id, stand in found.workspaces.items():
            self._relay.relay_remaining(workspace_id, stand.remaining, newest, turns[workspace_id])

    async def _begin(self, workspace_id: str) -> None:
        try:
            found = await self._database.read(lambda c: changes.find_beginning(c, workspace_id, _JOBS_MAX))
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("follow jobs", str(error)))
            return
        except Exception as error:  # noqa: BLE001 -- nobody waits for how this ends
            self._observe(UnexpectedError("follow jobs", error))
            return
        if (stand := found.workspace) is None:
            return
        live = found.live
        is_all = len(live) < _JOBS_MAX
        followed = _Followed(stand.last_number if is_all else live[-1].number, stand.last_number)
        known = [JobMark(job.id, job.stand.attempt, found.kept.get(job.id, 0)) for job in live]
        self._followed[workspace_id] = followed
        self._relay.begin(workspace_id, stand.remaining, known)
        for job, one in zip(live, known, strict=True):
            seen = followed.jobs[job.id] = _Seen(job.stand, one.kept)
            if job.server_id != self._server_id and job.stand.state in WORKING:
                self._tell_progress(job, seen)

    def _next(self) -> Sequence[str]:
        """The workspaces of this check: all that are followed, or the next of them."""
        ids = sorted(self._followed)
        if len(ids) > _WORKSPACES_A_LOOK:
            ids = [*(id_ for id_ in ids if id_ > self._last), *(id_ for id_ in ids if id_ <= self._last)]
            ids = ids[:_WORKSPACES_A_LOOK]
            self._last = ids[-1]
        return ids

    def _read_known(self, workspace_ids: Collection[str]) -> Known:
        """What was read before of some workspaces."""
        followed = {id_: self._followed[id_] for id_ in workspace_ids}
        return Known(
            places={id_: (one.after, one.room) for id_, one in followed.items()},
            jobs={id_: KnownJob(seen.stand, seen.kept) for one in followed.values() for id_, seen in one.jobs.items()},
            server_id=self._server_id,
            most_jobs=_JOBS_A_LOOK,
            most_events=_EVENTS_A_LOOK,
        )

    def _tell(self, followed: _Followed, job: ChangedJob, events: Sequence[StoredEvent]) -> None:
        """Publish the changes of a job, and note what was published."""
        seen = followed.jobs.get(job.id)
        if seen is None:
            followed.after = max(followed.after, job.number)
            if job.number <= followed.known and job.stand.state not in LIVE:
                return
            seen = followed.jobs[job.id] = _Seen()
        if job.server_id != self._server_id:
            has_end = self._tell_events(job, seen, events)
            if len(events) >= _EVENTS_A_LOOK:
                return  # its state is not noted, so that the next check reads on
            if job.stand.state in WORKING:
                self._tell_progress(job, seen)
            elif job.stand.state not in LIVE and not has_end:
                self._relay.relay(_envelope(job, _ending(job), job.stand.updated_at))
        seen.stand = job.stand
        if job.stand.state not in LIVE:
            del followed.jobs[job.id]

    def _tell_events(self, job: ChangedJob, seen: _Seen, events: Sequence[StoredEvent]) -> bool:
        """Publish stored events of a job; returns whether its end is one of them."""
        has_end = False
        for attempt, stored, event in _attempts(job, seen, events):
            has_end = isinstance(event, Succeeded | Failed | Interrupted)
            self._relay.relay(_envelope(job, event, stored.at, attempt, stored.number, is_kept=True))
        if events:
            seen.kept = events[-1].number
        return has_end

    def _tell_progress(self, job: ChangedJob, seen: _Seen) -> None:
        """Publish the nodes that run now, the progress of the current one, and how many are done."""
        if job.progress is None or job.progress == seen.progress:
            return
        try:
            now = _read_progress(job.progress)
        except msgspec.MsgspecError:
            return  # of a release that words it otherwise
        for event in _moves(seen.running, now, is_heard=self._relay.is_heard(job.id, job.workspace_id)):
            self._relay.relay(_envelope(job, event, job.stand.updated_at, job.stand.attempt, seen.kept))
        seen.progress, seen.running = job.progress, now.running


async def follow_nobody(workspace_id: str) -> None:
    """Follow nobody: a server that is alone publishes everything itself."""
    del workspace_id


def _envelope(
    job: ChangedJob, event: JobEvent, at: int, attempt: int = 0, kept: int = 0, *, is_kept: bool = False
) -> EventEnvelope:
    return EventEnvelope(job.workspace_id, job.id, job.public_id, at, event, attempt, kept, is_kept)


def _attempts(job: ChangedJob, seen: _Seen, events: Sequence[StoredEvent]) -> Iterator[tuple[int, StoredEvent, Event]]:
    """Events with the attempts they belong to: the newest begins with the last `Started`, where there is a new one."""
    begins = max((stored.number for stored in events if stored.kind == Started.__name__), default=None)
    for stored in events:
        is_newest = seen.attempt == job.stand.attempt or (begins is not None and stored.number >= begins)
        try:
            event = _read_event(stored.data)
        except msgspec.MsgspecError:
            continue  # the same
        if isinstance(event, Executed):
            event = msgspec.structs.replace(event, ui=ShownValues.encode(event.ui))
        yield job.stand.attempt if is_newest else max(seen.attempt, 1), stored, event


def _moves(before: Sequence[Place], now: StoredProgress, *, is_heard: bool) -> Iterator[JobEvent]:
    """The events between two reports, as far as they show them."""
    running = {place.node: place for place in now.running}
    yield from (Finished(place) for place in before if place.node not in running)
    known = {place.node for place in before}
    yield from (Executing(place) for place in now.running if place.node not in known)
    if is_heard:
        return
    current = running.get(now.current_node or "")
    if current is not None and now.step is not None and now.steps is not None:
        yield Progress(current, now.step, now.steps)
    yield Counted(now.nodes_done)


def _ending(job: ChangedJob) -> Ending:
    """The end of a job that has no event for it, because it was given up while it waited."""
    if job.stand.state is JobState.SUCCEEDED:
        return Succeeded()
    if job.failure is not None:
        try:
            found: Failed | Interrupted = _read_ending(job.failure)
        except msgspec.MsgspecError:
            return _LOST_END
        return found
    if job.stand.state is JobState.CANCELED:
        return Interrupted(None, None, [])
    return WAITED_TOO_LONG if job.stand.state is JobState.EXPIRED else _LOST_END
