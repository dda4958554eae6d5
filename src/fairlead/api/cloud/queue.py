"""The queue of a workspace: what waits, what is executed, and giving some of it up (C-07)."""

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.cloud.bodies import read_fields
from fairlead.api.cloud.documents import (
    JOBS_MAX,
    Interrupted,
    Interruption,
    QueueChange,
    QueueChanged,
    QueueShown,
)
from fairlead.api.cloud.pages import read_jobs
from fairlead.api.cloud.submissions import is_job_id
from fairlead.api.cloud.wire import answer, queue_entry
from fairlead.api.http.route import caller_of
from fairlead.domain.jobs.jobs import JobQuery
from fairlead.domain.jobs.states import LIVE, WORKING
from fairlead.operations.jobs.cancel import JobCanceller
from fairlead.operations.jobs.read import JobReader


@dataclass(frozen=True, slots=True)
class QueueHandlers:
    """Answers `/api/queue` and `/api/interrupt`."""

    reader: JobReader
    canceller: JobCanceller

    async def show_queue(self, request: Request) -> Response:
        """`GET /queue`: the jobs that have not ended, in the order of their submission."""
        caller = caller_of(request)
        query = JobQuery(states=LIVE, limit=JOBS_MAX, newest_first=False, whole=True)
        live = await read_jobs(self.reader, caller, query)
        shown: QueueShown = {
            "queue_running": [queue_entry(job) for job in live if job.state in WORKING],
            "queue_pending": [queue_entry(job) for job in live if job.state not in WORKING],
        }
        return answer(shown)

    async def change_queue(self, request: Request) -> Response:
        """`POST /queue`: cancel jobs by their ids, all that wait, or both. What is not the caller's is not deleted."""
        caller = caller_of(request)
        change = await read_fields(request, QueueChange)
        known = [job_id for job_id in change.delete or () if is_job_id(job_id)]
        deleted = list(await self.canceller.cancel(caller, known)) if known else []
        if change.clear:
            await self.canceller.cancel_waiting(caller)
        changed: QueueChanged = {"deleted": deleted, "cleared": change.clear}
        return answer(changed)

    async def interrupt(self, request: Request) -> Response:
        """`POST /interrupt`: stop what is executed, or the one job that is named; also when nothing is."""
        caller = caller_of(request)
        job_id = (await read_fields(request, Interruption)).prompt_id
        if job_id is not None and not is_job_id(job_id):
            return answer(Interrupted(interrupted=[]))
        return answer(Interrupted(interrupted=list(await self.canceller.cancel_running(caller, job_id))))
