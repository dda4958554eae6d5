"""Jobs as the cloud API tells of them: how one stands, lists of them, one in full, and cancelling (C-05)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.cloud.bodies import read_fields, whole_number
from fairlead.api.cloud.documents import (
    JOBS_MAX,
    Cancellation,
    CloudJobList,
    JobCancelled,
    JobsCancelled,
    Pagination,
)
from fairlead.api.cloud.pages import read_jobs, told_events
from fairlead.api.cloud.submissions import asked_job, is_job_id
from fairlead.api.cloud.wire import STATUSES, answer, job_detail, job_entry, job_status, states_of
from fairlead.api.http.route import caller_of
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.jobs.faults import BadSubmission, JobFaultError
from fairlead.domain.jobs.jobs import JobQuery
from fairlead.domain.jobs.states import LIVE, JobState
from fairlead.operations.jobs.cancel import JobCanceller
from fairlead.operations.jobs.read import JobReader

_LISTED: Final = 100
_OFFSET_MAX: Final = 10**9
_SORTED_BY: Final = ("created_at", "create_time")
_NOT_SEARCHED: Final = ("workflow_id", "output_type")
_ORDERS: Final = {"asc": False, "desc": True}


@dataclass(frozen=True, slots=True)
class JobHandlers:
    """Answers `/api/job` and `/api/jobs`."""

    reader: JobReader
    canceller: JobCanceller

    async def show_job_status(self, request: Request) -> Response:
        """`GET /job/{id}/status`: one of the five values."""
        caller = caller_of(request)
        return answer(job_status(await self.reader.job(caller, asked_job(request))))

    async def list_jobs(self, request: Request) -> Response:
        """`GET /jobs`: jobs without their workflows, by the time of their submission."""
        caller = caller_of(request)
        query = _query(request)
        total = await self.reader.count(caller, query.states)
        jobs = await read_jobs(self.reader, caller, query)
        pagination: Pagination = {
            "offset": query.offset,
            "limit": query.limit,
            "total": total,
            "has_more": query.offset + len(jobs) < total,
        }
        page: CloudJobList = {"jobs": [job_entry(job) for job in jobs], "pagination": pagination}
        return answer(page)

    async def show_job(self, request: Request) -> Response:
        """`GET /jobs/{id}`: one job with its workflow and what its nodes have shown."""
        caller = caller_of(request)
        job = await self.reader.job(caller, asked_job(request), whole=True)
        events = () if job.state in LIVE else await told_events(self.reader, caller, job)
        return answer(job_detail(job, events))

    async def cancel_job(self, request: Request) -> Response:
        """`POST /jobs/{id}/cancel`: whether it was cancelled by this; one that has ended is left as it is."""
        caller = caller_of(request)
        job = await self.reader.job(caller, asked_job(request))
        told: JobCancelled = {"cancelled": bool(await self.canceller.cancel(caller, [job.public_id]))}
        return answer(told)

    async def cancel_jobs(self, request: Request) -> Response:
        """`POST /jobs/cancel`: cancel some jobs at once; none of them where one is unknown."""
        caller = caller_of(request)
        job_ids = (await read_fields(request, Cancellation)).job_ids
        if not all(is_job_id(job_id) for job_id in job_ids):
            raise JobFaultError(BadSubmission("invalid_request", "job_ids must be UUIDs in lower case."))
        for job_id in job_ids:
            await self.reader.job(caller, job_id)
        cancelled = list(await self.canceller.cancel(caller, job_ids))
        told: JobsCancelled = {"cancelled": bool(cancelled), "job_ids": cancelled}
        return answer(told)


def _query(request: Request) -> JobQuery:
    """What a list is asked for; FaultError(InvalidInput) for what cannot be told."""
    parameters = request.query_params
    for name in _NOT_SEARCHED:
        if parameters.get(name):
            raise FaultError(InvalidInput(f"Jobs cannot be listed by {name}."))
    if parameters.get("sort_by", _SORTED_BY[0]) not in _SORTED_BY:
        raise FaultError(InvalidInput(f"sort_by must be {' or '.join(_SORTED_BY)}."))
    order = parameters.get("sort_order", "desc")
    if order not in _ORDERS:
        raise FaultError(InvalidInput("sort_order must be asc or desc."))
    return JobQuery(
        states=_states(parameters.get("status", "").split(",")),
        limit=whole_number(request, "limit", _LISTED, 1, JOBS_MAX),
        offset=whole_number(request, "offset", 0, 0, _OFFSET_MAX),
        newest_first=_ORDERS[order],
    )


def _states(asked: Sequence[str]) -> frozenset[JobState] | None:
    statuses = [status.strip() for status in asked if status.strip()]
    if not statuses:
        return None
    known = sorted(set(STATUSES.values()))
    if not set(statuses) <= set(known):
        raise FaultError(InvalidInput(f"status must be some of {', '.join(known)}."))
    return states_of(statuses)
