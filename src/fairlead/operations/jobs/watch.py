"""Watches one job: its state now, then what happens to it until its end (J-13).

The state comes from the database; events say when to read it, and bring what is only live. A job that another server
may execute is also read every few seconds.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError
from fairlead.domain.jobs.events import (
    Cached,
    Counted,
    EventEnvelope,
    Executed,
    Executing,
    Failed,
    Finished,
    Interrupted,
    JobEvent,
    Preview,
    Progress,
    ProgressText,
    QueueChanged,
    Started,
    Stopped,
    Succeeded,
)
from fairlead.domain.jobs.faults import JobFaultError, TooManyStreams
from fairlead.domain.jobs.jobs import Job
from fairlead.domain.jobs.outputs import JobOutput
from fairlead.domain.jobs.states import LIVE, STATUSES, WAITING
from fairlead.domain.jobs.updates import OutputUpdate, ProgressReport, ProgressUpdate, StatusUpdate, Update, log_line
from fairlead.messaging.event_hub import Broadcast, EventHub, EventSubscription
from fairlead.operations.jobs.follow import Follow
from fairlead.operations.jobs.outputs import JobOutputs
from fairlead.operations.jobs.read import JobReader

STREAMS_MAX: Final = 8
"""How many jobs an account may watch at this server."""
_LOOK_SECONDS: Final = 5.0
_SILENCE_SECONDS: Final = 15.0
"""The silence after which an empty update is sent. A server that is alone reads as often, as it knows what happens."""
_LOGGED: Final = (Started, Cached, Executed, Stopped, Succeeded, Failed, Interrupted)
_progress: Final = msgspec.json.Decoder(ProgressReport)


class JobWatcher:
    """Lets callers watch their jobs, and counts the watches. `alone`: no other server can execute their jobs.

    Otherwise what others do in a workspace is published here once `follow` has returned.
    """

    def __init__(
        self,
        event_hub: EventHub,
        reader: JobReader,
        outputs: JobOutputs,
        follow: Follow,
        *,
        alone: bool = False,
    ) -> None:
        self._event_hub = event_hub
        self._reader = reader
        self._outputs = outputs
        self._follow = follow
        self._open = Counter[str]()
        self.look_seconds = _SILENCE_SECONDS if alone else _LOOK_SECONDS

    async def watch(self, caller: Caller, public_id: str) -> "Watch":
        """Begin to watch a job; the watch must be closed. JobFaultError for no such job, or too many watches."""
        await self._reader.job(caller, public_id)
        if self._open[caller.workspace_id] >= STREAMS_MAX:
            raise JobFaultError(TooManyStreams(STREAMS_MAX))
        subscription = self._event_hub.subscribe(caller.workspace_id)
        self._open[caller.workspace_id] += 1
        try:
            await self._follow(caller.workspace_id)
            # Read after the subscription has begun, so that every later change is published to it.
            job, ahead = await self._reader.job_and_position(caller, public_id)
        except BaseException:
            self.leave(caller, subscription)
            raise
        return Watch(self, caller, subscription, job, ahead)

    async def look(self, caller: Caller, job: Job) -> StatusUpdate | None:
        """The job now; None where it cannot be read any more."""
        try:
            return StatusUpdate(*await self._reader.job_and_position(caller, job.public_id))
        except (FaultError, JobFaultError):
            return None

    async def outputs_of(self, caller: Caller, job: Job, event: Executed | None = None) -> Sequence[JobOutput]:
        """The outputs that a node has just shown, or all committed ones; none where they cannot be read now.

        A later read of the job finds those.
        """
        try:
            return await (
                self._outputs.of_job(caller, job) if event is None else self._outputs.of_node(caller, job, event)
            )
        except FaultError:
            return ()

    def preview(self, job_id: str) -> Preview | None:
        """The newest preview of a job."""
        return self._event_hub.newest_preview(job_id)

    def leave(self, caller: Caller, subscription: EventSubscription) -> None:
        """Count one watch less."""
        subscription.close()
        self._open[caller.workspace_id] -= 1
        if not self._open[caller.workspace_id]:
            del self._open[caller.workspace_id]


class _Tally(msgspec.Struct):
    """The progress of a job, counted on from the stored one; a late watcher may see one node too many for a second.

    It never goes back, until the job waits again.
    """

    known: ProgressReport
    done: set[str]
    message: str | None = None

    def note(self, event: JobEvent) -> bool:
        """Take note of an event; returns whether it changes anything."""
        match event:
            case Cached(nodes=nodes):
                self.done.update(nodes)
            case Executing(place=place):
                self._now(place.node, None, None)
            case Progress(place=place, value=value, most=most):
                self._now(place.node, value, most)
            case Finished(place=place):
                if place.parent is None:
                    self.done.add(place.node)
                if self.known.current_node == place.node:
                    self._now(None, None, None)
            case ProgressText(text=text):
                self.message = text
            case Counted(nodes_done=done) if done >= self.update().progress.nodes_done:
                self.known, self.done = msgspec.structs.replace(self.known, nodes_done=done), set()
            case _:
                return False
        return True

    def learn(self, job: Job) -> None:
        """Take over the stored progress, where it is further."""
        found = progress_of(job)
        if found.nodes_done >= self.update().progress.nodes_done or job.state in WAITING:
            self.known, self.done = found, set()

    def update(self) -> ProgressUpdate:
        """How far the job is now."""
        done = min(self.known.nodes_total, self.known.nodes_done + len(self.done))
        return ProgressUpdate(msgspec.structs.replace(self.known, nodes_done=done), self.message)

    def _now(self, node: str | None, step: float | None, steps: float | None) -> None:
        self.known = msgspec.structs.replace(self.known, current_node=node, step=step, steps=steps)


class Watch:
    """One watch of a job. It must be closed."""

    def __init__(
        self, watcher: JobWatcher, caller: Caller, subscription: EventSubscription, job: Job, ahead: int | None
    ) -> None:
        self._watcher = watcher
        self._caller = caller
        self._subscription = subscription
        self._status = StatusUpdate(job, ahead)
        self._tally = _Tally(progress_of(job), set())
        self._made: set[tuple[str, str]] = set()
        self._is_closed = False

    @property
    def job(self) -> Job:
        """The job as it was seen last."""
        return self._status.job

    def close(self) -> None:
        """Stop watching; nothing happens where that was done before."""
        if not self._is_closed:
            self._is_closed = True
            self._watcher.leave(self._caller, self._subscription)

    async def updates(self) -> AsyncIterator[Update | None]:
        """The job's status, outputs, progress and newest preview; then everything that happens until it has ended.

        A terminal status comes last, and each output once. None after a while of silence. It ends early when the server
        stops, when the watcher is too slow, and when the job cannot be read any more.
        """
        loop = asyncio.get_running_loop()
        for update in await self._snapshot():
            yield update
        said_at = loop.time()
        while self.job.state in LIVE:
            broadcasts = await self._next()
            if self._subscription.ended.done():
                return
            found = await self._updates_of_events(broadcasts)
            looks = not broadcasts or any(self._is_turn(broadcast.envelope) for broadcast in broadcasts)
            if looks:
                seen = await self._watcher.look(self._caller, self.job)
                if seen is None:
                    return
                found += await self._updates_of_status(seen)
            for one in found:
                yield one
            if found:
                said_at = loop.time()
            elif loop.time() - said_at >= _SILENCE_SECONDS:
                said_at = loop.time()
                yield None

    async def _snapshot(self) -> Sequence[Update]:
        preview = self._watcher.preview(self.job.id)
        told = await self._new_outputs()
        if self.job.progress is not None or self.job.state not in WAITING:
            told.append(self._tally.update())
        if self.job.state not in LIVE:
            return [*told, self._status]
        return [self._status, *told, *(() if preview is None else (preview,))]

    async def _new_outputs(self, event: Executed | None = None) -> list[Update]:
        """Outputs that were not sent yet: those that a node has just shown, or all committed ones."""
        found = await self._watcher.outputs_of(self._caller, self.job, event)
        new = {(output.node_id, output.id): output for output in found}
        told: list[Update] = [OutputUpdate(output) for key, output in new.items() if key not in self._made]
        self._made.update(new)
        return told

    async def _next(self) -> Sequence[Broadcast]:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._watcher.look_seconds):
                return await self._subscription.next()
        return ()

    def _is_turn(self, envelope: EventEnvelope | None) -> bool:
        """Whether an event may have changed the status of the job."""
        if envelope is None:
            return False
        if isinstance(envelope.event, QueueChanged):
            return self.job.state in WAITING
        return envelope.job_id == self.job.id and isinstance(envelope.event, Started | Succeeded | Failed | Interrupted)

    async def _updates_of_events(self, broadcasts: Sequence[Broadcast]) -> list[Update]:
        """The updates for some events; of progress and previews only the newest."""
        told: list[Update] = []
        preview, has_moved = None, False
        for broadcast in broadcasts:
            envelope = broadcast.envelope
            if envelope is None or envelope.job_id != self.job.id:
                continue
            event = envelope.event
            if isinstance(event, Preview):
                preview = event
            has_moved = self._tally.note(event) or has_moved
            if isinstance(event, _LOGGED) and (line := log_line(event, envelope.at)):
                told.append(line)
            if isinstance(event, Executed):
                told.extend(await self._new_outputs(event))
        if has_moved:
            told.append(self._tally.update())
        return told if preview is None else [*told, preview]

    async def _updates_of_status(self, seen: StatusUpdate) -> list[Update]:
        """The updates for the job as it is now: outputs, progress, and its status where that has changed.

        This includes outputs of jobs on other servers, and those for which no event arrived here.
        """
        before, far = self._status, self._tally.update()
        self._status = seen
        self._tally.learn(seen.job)
        told = await self._new_outputs()
        if self._tally.update() != far:
            told.append(self._tally.update())
        if (STATUSES[seen.job.state], seen.ahead) != (STATUSES[before.job.state], before.ahead):
            told.append(seen)
        return told


def progress_of(job: Job) -> ProgressReport:
    """The stored progress of a job; zero for one that has just begun."""
    return ProgressReport(0, job.nodes) if job.progress is None else _progress.decode(job.progress)
