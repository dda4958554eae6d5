"""Reading jobs: one, those of a workspace, how many are left, the events of one."""

from collections.abc import Sequence
from typing import Final, TypeVar

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, ServiceUnavailable
from fairlead.domain.jobs.faults import JobFaultError, JobNotFound
from fairlead.domain.jobs.jobs import Job, JobQuery, StoredEvent
from fairlead.domain.jobs.listing import JobPage, ListQuery
from fairlead.domain.jobs.states import WAITING, JobState
from fairlead.observing.observations import DatabaseTrouble, Observer
from fairlead.operations.jobs.store import with_documents
from fairlead.operations.work.stored_documents import DocumentLostError, StoredDocuments
from fairlead.storage.db.database import Database, DatabaseUnavailableError, Work
from fairlead.storage.jobs import jobs

LIVE_MAX: Final = 1_000
"""How many jobs that have not ended are shown at once."""
EVENTS_MAX: Final = jobs.EVENTS_MAX
"""How many events of a job are read."""
T = TypeVar("T")


class JobReader:
    """Reads the jobs of a workspace, by their public ids. Every method may raise FaultError: the database is away."""

    def __init__(self, database: Database, documents: StoredDocuments, observe: Observer) -> None:
        self._database = database
        self._documents = documents
        self._observe = observe

    async def job(self, caller: Caller, public_id: str, *, whole: bool = False, workflow_max: int | None = None) -> Job:
        """A job, on request with its workflow; JobFaultError where the workspace has none of this id.

        A stored workflow of more than `workflow_max` bytes is not read.
        """
        job = await self._read(lambda c: jobs.find_job(c, caller.workspace_id, public_id, whole=whole))
        found = _require(job, public_id)
        stored = found.documents
        if stored is not None and workflow_max is not None and stored.workflow_size > workflow_max:
            return found
        return await self.with_documents(found)

    async def workspace_of(self, job_id: str) -> str | None:
        """The workspace of a job by its own id; None where there is no such job."""
        return await self._read(lambda c: jobs.workspace_of(c, job_id))

    async def with_documents(self, job: Job) -> Job:
        """A job with its large workflow; without one where that is lost, which is reported where it is found."""
        try:
            return await with_documents(self._documents, job)
        except DocumentLostError:
            return job

    async def job_and_position(self, caller: Caller, public_id: str) -> tuple[Job, int | None]:
        """A job and how many wait before it, at one moment; JobFaultError where the workspace has none of this id."""
        job, ahead = await self._read(lambda c: jobs.find_with_position(c, caller.workspace_id, public_id))
        return _require(job, public_id), ahead

    async def live(self, caller: Caller, *, whole: bool = True) -> Sequence[Job]:
        """The jobs that have not ended, the oldest first, at most LIVE_MAX; see `jobs`."""
        return await self._read(lambda c: jobs.live_jobs(c, caller.workspace_id, LIVE_MAX, whole=whole))

    async def jobs(self, caller: Caller, query: JobQuery) -> Sequence[Job]:
        """The jobs that a query asks for; large workflows are read by `with_documents`."""
        return await self._read(lambda c: jobs.find_jobs(c, caller.workspace_id, query))

    async def page(self, caller: Caller, query: ListQuery) -> JobPage:
        """A page of the jobs of a workspace, the newest first."""
        return await self._read(lambda c: jobs.list_jobs(c, caller.workspace_id, query))

    async def ahead(self, caller: Caller, job: Job) -> int | None:
        """How many jobs wait that were submitted before one; None where that one waits no more."""
        if job.state not in WAITING:
            return None
        return await self._read(lambda c: jobs.QUEUE.count_ahead(c, caller.workspace_id, job.number))

    async def count(self, caller: Caller, states: frozenset[JobState] | None = None) -> int:
        """How many jobs are in some states, or in any."""
        return await self._read(lambda c: jobs.count_jobs(c, caller.workspace_id, states))

    async def remaining(self, caller: Caller) -> int:
        """How many jobs wait or are executed."""
        return await self._read(lambda c: jobs.remaining_jobs(c, caller.workspace_id))

    async def events(self, caller: Caller, job: Job) -> Sequence[StoredEvent]:
        """The events of a job, in order; none for one that has expired."""
        return await self._read(lambda c: jobs.events_of(c, caller.workspace_id, job.id))

    async def _read(self, work: Work[T]) -> T:
        try:
            return await self._database.read(work)
        except DatabaseUnavailableError as error:
            self._observe(DatabaseTrouble("read jobs", str(error)))
            raise FaultError(ServiceUnavailable("Jobs cannot be read right now.")) from error


def _require(job: Job | None, public_id: str) -> Job:
    if job is None:
        raise JobFaultError(JobNotFound(public_id))
    return job
