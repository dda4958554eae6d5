"""Jobs as work (operations/work): begun, stopped, expired, taken over."""

from collections.abc import Collection, Sequence
from typing import ClassVar, Final, TypeAlias

import msgspec

from fairlead.clock import Clock
from fairlead.domain.faults import FaultError
from fairlead.domain.jobs.entries import Claimed, JobCancel, JobEntry, JobVerdict, Moved
from fairlead.domain.jobs.errors import CRASH, INACTIVE_SUBSCRIPTION, INTERNAL, TIMEOUT
from fairlead.domain.jobs.events import EventEnvelope, Failed, Failure, Interrupted, Place
from fairlead.domain.jobs.jobs import Job, LiveJob
from fairlead.domain.jobs.listing import labels_of_runs
from fairlead.domain.jobs.states import LIVE, JobTransition
from fairlead.domain.ledger.usage import labels_in
from fairlead.domain.work.entries import Claim, TakeOver
from fairlead.messaging.event_hub import EventHub
from fairlead.observing.observations import DatabaseTrouble, JobTakenOver, Observer
from fairlead.operations.jobs.execute import JobExecution, JobExecutor
from fairlead.operations.jobs.store import with_documents
from fairlead.operations.work.places import Reservation
from fairlead.operations.work.queue import WorkQueue
from fairlead.operations.work.stored_documents import DocumentLostError, StoredDocuments
from fairlead.storage.db.database import Database, DatabaseUnavailableError
from fairlead.storage.jobs import jobs
from fairlead.storage.work.table import OwnedWork, WorkTable

JobQueue: TypeAlias = WorkQueue[JobCancel | TakeOver, JobExecution]

_FORGOTTEN_AT_ONCE: Final = 200
WAITED_TOO_LONG: Final = Failed(
    Failure(Place("", ""), "", TIMEOUT, "The job has waited too long and was never executed.", [], {}, [])
)


class JobWork(msgspec.Struct, frozen=True):
    """Handles jobs that wait, and those of silent servers. Ended ones are kept for `kept_ms`.

    `documents` has the large workflows. A job whose servers have died `attempts` times is given up.
    """

    noun: ClassVar[str] = "jobs"
    table: ClassVar[WorkTable] = jobs.QUEUE

    database: Database
    executor: JobExecutor
    event_hub: EventHub
    clock: Clock
    observe: Observer
    kept_ms: int
    documents: StoredDocuments
    attempts: int

    def ids_here(self) -> Collection[str]:
        """The jobs that are executed here."""
        return self.executor.job_ids()

    async def begin(self, claim: Claim, verdict: JobVerdict, reservation: Reservation | None) -> JobExecution | None:
        """Have a claimed job executed; one that cannot be read now is found as a stray, and taken over."""
        job = await self._read_claimed(claim, verdict) if isinstance(verdict, Claimed) else None
        return None if job is None else self.executor.begin(job, reservation)

    def cancel(self, ids: Collection[str]) -> None:
        """Stop jobs that are executed here."""
        for job_id in ids:
            self.executor.interrupt(job_id)

    def expiry(self, id_: str, workspace_id: str, now: int) -> JobCancel:
        """The end of a job that has waited too long."""
        return JobCancel(id_, workspace_id, now, now + self.kept_ms, cause=JobTransition.EXPIRE)

    def note_expiry(self, entry: JobEntry, verdict: JobVerdict) -> bool:
        """Tell watchers that a job has waited too long."""
        if not (isinstance(entry, JobCancel) and isinstance(verdict, Moved)):
            return False
        self.event_hub.publish(
            EventEnvelope(entry.workspace_id, entry.job_id, verdict.public_id, entry.at, WAITED_TOO_LONG)
        )
        return True

    def can_take_over(self) -> bool:
        """Jobs that are taken over wait again, so there is always room for them."""
        return True

    def takeover(self, orphan: OwnedWork, now: int) -> TakeOver:
        """The entry that lets a job wait again."""
        return TakeOver(orphan.id, orphan.workspace_id, orphan.attempt, None, now, now + self.kept_ms)

    async def go_on(self, taken: Sequence[tuple[TakeOver, JobVerdict]]) -> None:
        """Publish that jobs wait again, or have ended because they were cancelled."""
        for entry, verdict in taken:
            if not isinstance(verdict, Moved):
                continue
            self.observe(JobTakenOver(entry.id, verdict.public_id, entry.attempt, verdict.state.value))
            if verdict.state not in LIVE:
                ended = Interrupted(None, None, [])
                self.event_hub.publish(EventEnvelope(entry.workspace_id, entry.id, verdict.public_id, entry.at, ended))

    async def end_strays(self, strays: Sequence[OwnedWork]) -> Sequence[OwnedWork]:
        """Jobs that this server lost are taken over like those of others."""
        return strays

    async def forget(self) -> int:
        """Forget a batch of expired jobs; how many there were."""
        now = self.clock.now_ms()
        try:
            forgotten = await self.database.write(lambda c: jobs.delete_expired_jobs(c, now, _FORGOTTEN_AT_ONCE))
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("forget jobs", str(error)))
            return 0
        if forgotten.blobs:
            self.documents.delete_soon(forgotten.blobs)
        return forgotten.count

    async def _read_claimed(self, claim: Claim, claimed: Claimed) -> LiveJob | None:
        """The job as it was submitted; None where it cannot be read now."""
        cached = self.executor.recall(claim.id)
        if cached is not None:
            return msgspec.structs.replace(
                cached,
                attempt=claimed.attempt,
                events=claimed.events,
                started_at=claim.at,
                start_blocker=self._start_blocker(claimed),
            )
        try:
            found, packs = await self.database.read(lambda c: jobs.find_claimed(c, claim.workspace_id, claim.id))
        except DatabaseUnavailableError as error:
            self.observe(DatabaseTrouble("read a claimed job", str(error)))
            return None
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
            started_at=claim.at,
            partner_key_id=found.partner_key_id,
            events=claimed.events,
            start_blocker=self._start_blocker(claimed) if found.workflow is not None else INTERNAL,
            packs=packs,
            run_labels=labels_of_runs(labels_in(found.labels)),
        )

    async def _with_documents(self, job: Job) -> Job | None:
        """The job with its workflow, or without where that is lost; None where the store is away."""
        try:
            return await with_documents(self.documents, job)
        except DocumentLostError:
            return job
        except FaultError:
            return None

    def _start_blocker(self, claimed: Claimed) -> str | None:
        """Why a claimed job is not to be executed. One whose servers died again and again may be what kills them."""
        if claimed.is_inactive:
            return INACTIVE_SUBSCRIPTION
        return CRASH if claimed.crashes >= self.attempts else None
