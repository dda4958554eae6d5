"""Cancelling jobs: one that waits ends at once, one that is executed is stopped by the server that has it."""

import asyncio
from collections.abc import Sequence
from typing import Final, TypeVar

from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.rights import Actor
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.entries import JobCancel, Moved
from fairlead.domain.jobs.events import EventEnvelope, Interrupted
from fairlead.domain.jobs.states import WAITING, WORKING, JobState
from fairlead.messaging.event_hub import EventHub
from fairlead.messaging.wakeups import Topic, Wakeup, Wakeups
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.jobs.store import JobStore
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.jobs.ids import find_known_as
from fairlead.storage.jobs.jobs import live_jobs

T = TypeVar("T")
JOBS_MAX: Final = 10_000
"""How many jobs are cancelled by one call."""


class JobCanceller:
    """Cancels jobs of a workspace. Jobs of other workspaces, or ended ones, are left out of the result."""

    def __init__(
        self,
        database: Database,
        store: JobStore,
        wakeups: Wakeups,
        event_hub: EventHub,
        clock: Clock,
        observe: Observer,
        *,
        kept_ms: int,
    ) -> None:
        self._database = database
        self._store = store
        self._wakeups = wakeups
        self._event_hub = event_hub
        self._clock = clock
        self._observe = observe
        self._kept_ms = kept_ms

    async def cancel(self, caller: Caller, public_ids: Sequence[str], by: Actor | None = None) -> Sequence[str]:
        """Cancel jobs by their public ids; returns those that were not cancelled before. FaultError.

        Where an administrator cancels (`by`), the audit log has each of them.
        """
        return await self._cancel(caller, await self._own_ids(caller, public_ids), None, by)

    async def cancel_waiting(self, caller: Caller) -> Sequence[str]:
        """Cancel every job that waits, and return which they were. FaultError."""
        return await self._cancel(caller, await self._live(caller, WAITING), WAITING)

    async def cancel_running(self, caller: Caller, public_id: str | None = None) -> Sequence[str]:
        """Stop the jobs that are executed, or one of them, and return which they were. FaultError."""
        if public_id is None:
            return await self._cancel(caller, await self._live(caller, WORKING), WORKING)
        return await self._cancel(caller, await self._own_ids(caller, [public_id]), WORKING)

    async def _own_ids(self, caller: Caller, public_ids: Sequence[str]) -> list[str]:
        """The own ids of jobs, in the order in which they are wanted."""
        wanted = [(caller.workspace_id, public_id) for public_id in list(dict.fromkeys(public_ids))[:JOBS_MAX]]
        found = {job.public_id: job.job_id for job in await self._read(lambda c: find_known_as(c, wanted))}
        return [found[public_id] for _, public_id in wanted if public_id in found]

    async def _live(self, caller: Caller, states: frozenset[JobState]) -> list[str]:
        found = await self._read(lambda c: live_jobs(c, caller.workspace_id, JOBS_MAX, whole=False))
        return [job.id for job in found if job.state in states]

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("read jobs to cancel", str(error)))
            raise FaultError(ServiceUnavailable("Jobs cannot be read right now.")) from error

    async def _cancel(
        self, caller: Caller, job_ids: Sequence[str], only: frozenset[JobState] | None, by: Actor | None = None
    ) -> list[str]:
        now = self._clock.now_ms()
        until = now + self._kept_ms
        entries = [JobCancel(job_id, caller.workspace_id, now, until, only=only, by=by) for job_id in job_ids]
        moved = await asyncio.gather(*(self._store.write(entry) for entry in entries))
        done = []
        for job_id, verdict in zip(job_ids, moved, strict=True):
            if not isinstance(verdict, Moved):
                continue
            done.append(verdict.public_id)
            if verdict.state in WORKING:
                self._wakeups.publish(Wakeup(Topic.JOB_CANCELLED, caller.workspace_id, job_id))
            else:
                ended = Interrupted(None, None, [])
                self._event_hub.publish(EventEnvelope(caller.workspace_id, job_id, verdict.public_id, now, ended))
        return done
