"""Claiming jobs, and looking after those that nobody does: cancelled elsewhere, too old, orphaned."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from fairlead.domain.faults import FaultError
from fairlead.domain.jobs.entries import Claimed, JobCancel, JobClaim, JobRelease, JobTakeOver, Moved
from fairlead.domain.jobs.errors import CRASH, INACTIVE_SUBSCRIPTION, INTERNAL, TIMEOUT
from fairlead.domain.jobs.events import EventEnvelope, Failed, Failure, Interrupted, Place
from fairlead.domain.jobs.jobs import Job, LiveJob
from fairlead.domain.jobs.states import LIVE, JobTransition
from fairlead.messaging.event_hub import EventHub
from fairlead.observing.observations import DatabaseTrouble, JobTakenOver, Observer
from fairlead.operations.clock import Clock
from fairlead.operations.jobs.books import JobBooks
from fairlead.operations.jobs.documents import with_documents
from fairlead.operations.jobs.execute import JobExecutor
from fairlead.operations.stored_documents import DocumentLostError, StoredDocuments
from fairlead.storage import jobs
from fairlead.storage.database import Database, DatabaseUnavailableError, Work

FOUND_AT_ONCE: Final = 200
STRAY_AFTER_MS: Final = 60_000
"""Far longer than it takes from a claim's commit to the job's execution."""
ATTEMPTS_MAX: Final = 3
_WAITED_TOO_LONG: Final = Failed(
    Failure(Place("", ""), "", TIMEOUT, "The job has waited too long and was never executed.", [], {}, [])
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobClaimer:
    """Takes jobs for this server. `alone`: no other server can share the database; else one is dead after `silent_ms`.

    Jobs wait for at most `timeout_ms`, and are kept for `kept_ms` when they have ended. `documents` has the large
    workflows.
    """

    database: Database
    books: JobBooks
    executor: JobExecutor
    event_hub: EventHub
    clock: Clock
    observe: Observer
    alone: bool
    silent_ms: int
    timeout_ms: int
    kept_ms: int
    documents: StoredDocuments
    _claiming: set[str] = field(default_factory=set)

    async def claim(self, job_id: str, workspace_id: str) -> None:
        """Take a released job and have it executed, in a place that was reserved; one of another's gives it back."""
        job = None
        try:
            if job_id not in self._claiming and not self.executor.has(job_id):
                job = await self._claimed(job_id, workspace_id)
        finally:
            if job is None:
                self.executor.give_back()
        if job is not None:
            self.executor.begin(job)

    async def _claimed(self, job_id: str, workspace_id: str) -> LiveJob | None:
        """The job that is this server's now; None for one of another's.

        A claim that may have been written is written again until that is known. So there is only one of a job at a
        time: two within a millisecond would look like one that was repeated.
        """
        self._claiming.add(job_id)
        try:
            entry = JobClaim(job_id, workspace_id, self.executor.server_id, self.clock.now_ms())
            verdict = await self.books.write_at_last(entry)
            return await self._read_claimed(entry, verdict) if isinstance(verdict, Claimed) else None
        finally:
            self._claiming.discard(job_id)

    async def find_released(self, behind: str = "") -> Sequence[tuple[str, str]]:
        """Jobs that wait for a server, some of each workspace, those behind the workspace `behind` first.

        Ids and workspaces. What nobody told of is found here.
        """
        return await self._find("find released jobs", lambda c: jobs.released_jobs(c, behind, FOUND_AT_ONCE))

    async def pass_on_cancels(self) -> None:
        """Stop the jobs executed here that were cancelled, through whichever server that was."""
        server_id = self.executor.server_id
        for job_id in await self._find("read cancelled jobs", lambda c: jobs.unwanted_jobs(c, server_id)):
            self.executor.interrupt(job_id)

    async def use_room(self) -> None:
        """Give slots to jobs that are parked where there are some to spare: a subscription was changed."""
        found = await self._find("find room for jobs", lambda c: jobs.workspaces_with_job_room(c, FOUND_AT_ONCE))
        await asyncio.gather(*(self.books.write_at_last(JobRelease(workspace_id)) for workspace_id in found))

    async def time_out(self) -> int:
        """End a batch of jobs that have waited too long, and return how many were found."""
        now = self.clock.now_ms()
        before = now - self.timeout_ms
        late = await self._find("time out jobs", lambda c: jobs.waiting_jobs_since(c, before, FOUND_AT_ONCE))
        for job_id, workspace_id in late:
            entry = JobCancel(job_id, workspace_id, now, now + self.kept_ms, cause=JobTransition.EXPIRE)
            verdict = await self.books.write_at_last(entry)
            if isinstance(verdict, Moved):
                self.event_hub.publish(EventEnvelope(workspace_id, job_id, verdict.public_id, now, _WAITED_TOO_LONG))
        return len(late)

    async def take_over(self) -> int:
        """Let a batch of jobs wait anew whose server fell silent, or that this one lost; how many were found."""
        now = self.clock.now_ms()
        silent_since = now if self.alone else now - self.silent_ms
        own, server_id = self.executor.job_ids(), self.executor.server_id
        orphans = await self._find(
            "find orphaned jobs", lambda c: jobs.orphaned_jobs(c, server_id, silent_since, FOUND_AT_ONCE)
        )
        strays = await self._find("find stray jobs", lambda c: jobs.jobs_of(c, server_id, now - STRAY_AFTER_MS))
        found = [*orphans, *(stray for stray in strays if stray.job_id not in own)]
        for orphan in found:
            entry = JobTakeOver(orphan.job_id, orphan.workspace_id, orphan.attempt, now, now + self.kept_ms)
            verdict = await self.books.write_at_last(entry)
            if isinstance(verdict, Moved):
                self.observe(JobTakenOver(orphan.job_id, verdict.public_id, orphan.attempt, verdict.state.value))
                if verdict.state not in LIVE:
                    ended = Interrupted(None, None, [])
                    self.event_hub.publish(
                        EventEnvelope(orphan.workspace_id, orphan.job_id, verdict.public_id, now, ended)
                    )
        return len(found)

    async def forget(self) -> int:
        """Forget a batch of jobs whose time is up, and return how many were."""
        now = self.clock.now_ms()
        try:
            forgotten = await self.database.write(lambda c: jobs.delete_expired_jobs(c, now, FOUND_AT_ONCE))
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("forget jobs", str(error)))
            return 0
        if forgotten.blobs:
            self.documents.delete_soon(forgotten.blobs)
        return forgotten.count

    async def _read_claimed(self, entry: JobClaim, claimed: Claimed) -> LiveJob | None:
        """The job as it was submitted; None where it cannot be read now: it is found as a stray and taken over."""
        at_hand = self.executor.recall(entry.job_id)
        if at_hand is not None:
            return msgspec.structs.replace(
                at_hand,
                attempt=claimed.attempt,
                events=claimed.events,
                started_at=entry.at,
                hindrance=_hindrance(claimed),
            )
        ids = entry.workspace_id, entry.job_id
        whole = await self._find("read a claimed job", lambda c: [jobs.find_claimed(c, *ids)])
        found, packs = whole[0] if whole else (None, None)
        if found is None or (found := await self._with_documents(found)) is None:
            return None
        return LiveJob(
            id=found.id,
            public_id=found.public_id,
            workspace_id=found.workspace_id,
            attempt=claimed.attempt,
            workflow=found.workflow or b"{}",
            extra=found.extra or b"{}",
            wanted=found.wanted,
            nodes=found.nodes,
            created_at=found.created_at,
            started_at=entry.at,
            partner_key_id=found.partner_key_id,
            events=claimed.events,
            hindrance=_hindrance(claimed) if found.workflow is not None else INTERNAL,
            packs=packs,
        )

    async def _with_documents(self, job: Job) -> Job | None:
        """The job with its workflow, or without where that is lost; None where the store is away."""
        try:
            return await with_documents(self.documents, job)
        except DocumentLostError:
            return job
        except FaultError:
            return None

    async def _find(self, doing: str, work: Work[Sequence[T]]) -> Sequence[T]:
        """What is looked for again soon, and so may be missed now."""
        try:
            return await self.database.read(work)
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble(doing, str(error)))
            return ()


def _hindrance(claimed: Claimed) -> str | None:
    """Why a claimed job is not to be executed. One whose servers died again and again may be what kills them."""
    if claimed.is_inactive:
        return INACTIVE_SUBSCRIPTION
    return CRASH if claimed.crashes >= ATTEMPTS_MAX else None
