"""The history of a workspace: its ended jobs, as the cloud API and as the engine it follows has it."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.cloud.bodies import read_fields, whole_number
from fairlead.api.cloud.documents import JOBS_MAX, HistoryChange, HistoryV2, QueueChanged
from fairlead.api.cloud.pages import read_jobs, told_events
from fairlead.api.cloud.submissions import asked_job
from fairlead.api.cloud.wire import answer, history_entry, history_v2_detail, history_v2_entry
from fairlead.api.http.route import caller_of
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.jobs.faults import JobFaultError, JobNotFound
from fairlead.domain.jobs.jobs import Job, JobQuery
from fairlead.domain.jobs.states import LIVE, JobState
from fairlead.operations.jobs.read import JobReader

ENDED: Final = frozenset(JobState) - LIVE
_LISTED: Final = 200
_OFFSET_MAX: Final = 10**9


@dataclass(frozen=True, slots=True)
class HistoryHandlers:
    """Answers `/api/history_v2` and `/api/history`."""

    reader: JobReader

    async def list_history(self, request: Request) -> Response:
        """`GET /history_v2`: ended jobs, the newest first; `max_items` from `offset` on."""
        caller = caller_of(request)
        limit = whole_number(request, "max_items", _LISTED, 1, JOBS_MAX)
        offset = whole_number(request, "offset", 0, 0, _OFFSET_MAX)
        query = JobQuery(states=ENDED, limit=limit, offset=offset, whole=True)
        jobs = await read_jobs(self.reader, caller, query)
        return answer(HistoryV2(history=[history_v2_entry(job) for job in jobs]))

    async def show_history(self, request: Request) -> Response:
        """`GET /history_v2/{id}`: one ended job under its id; nothing yet for one that goes on."""
        caller = caller_of(request)
        job = await self.reader.job(caller, asked_job(request), whole=True)
        if job.state in LIVE:
            return answer({})
        return answer({job.public_id: history_v2_detail(job, await told_events(self.reader, caller, job))})

    async def list_local_history(self, request: Request) -> Response:
        """`GET /history`: ended jobs by their ids, the oldest first; `offset` counts from the oldest, too.

        Without an offset these are the last `max_items`.
        """
        caller = caller_of(request)
        limit = whole_number(request, "max_items", _LISTED, 1, JOBS_MAX)
        from_oldest = "offset" in request.query_params
        offset = whole_number(request, "offset", 0, 0, _OFFSET_MAX)
        query = JobQuery(states=ENDED, limit=limit, offset=offset, newest_first=not from_oldest, whole=True)
        jobs = await read_jobs(self.reader, caller, query)
        in_order = sorted(jobs, key=lambda job: job.number)
        return answer({job.public_id: history_entry(job) for job in in_order})

    async def show_local_history(self, request: Request) -> Response:
        """`GET /history/{id}`: one ended job under its id; nothing where there is none, as clients that poll expect."""
        caller = caller_of(request)
        job = await self._find(caller, request)
        if job is None or job.state in LIVE:
            return answer({})
        return answer({job.public_id: history_entry(job, await told_events(self.reader, caller, job))})

    async def change_history(self, request: Request) -> Response:
        """`POST /history`: deletes nothing and says so. Jobs expire by themselves."""
        await read_fields(request, HistoryChange)
        return answer(QueueChanged(deleted=[], cleared=False))

    async def _find(self, caller: Caller, request: Request) -> Job | None:
        try:
            return await self.reader.job(caller, asked_job(request), whole=True)
        except JobFaultError as error:
            if isinstance(error.fault, JobNotFound):
                return None
            raise
