"""Jobs in the cloud API: status, lists, details and cancelling (C-05), the queue (C-07) and the history."""

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.cloud.bodies import read_fields, whole_number
from fairlead.api.cloud.documents import (
    JOBS_MAX,
    Cancellation,
    CloudJobList,
    HistoryChange,
    HistoryV2,
    Interrupted,
    Interruption,
    JobCancelled,
    JobsCancelled,
    Pagination,
    QueueChange,
    QueueChanged,
    QueueShown,
)
from fairlead.api.cloud.submissions import asked_job, is_job_id
from fairlead.api.cloud.wire import (
    STATUSES,
    answer,
    history_entry,
    history_v2_detail,
    history_v2_entry,
    job_detail,
    job_entry,
    job_status,
    queue_entry,
    states_of,
)
from fairlead.api.http.route import caller_of
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.jobs import events
from fairlead.domain.jobs.faults import BadSubmission, JobFaultError, JobNotFound
from fairlead.domain.jobs.jobs import Job, JobQuery
from fairlead.domain.jobs.states import LIVE, WORKING, JobState
from fairlead.operations.jobs.cancel import JobCanceller
from fairlead.operations.jobs.read import JobReader

_AT_ONCE: Final = 16
_BYTES_MAX: Final = 64 * 2**20
_EVENTS_TOLD: Final = frozenset(
    kind.__name__ for kind in (events.Started, events.Cached, events.Succeeded, events.Failed, events.Interrupted)
)
_decode_event: Final = msgspec.json.Decoder(events.Event).decode
_ENDED: Final = frozenset(JobState) - LIVE
_LISTED: Final = 100
_HISTORY_LISTED: Final = 200
_OFFSET_MAX: Final = 10**9
_SORTED_BY: Final = ("created_at", "create_time")
_NOT_SEARCHED: Final = ("workflow_id", "output_type")
_ORDERS: Final = {"asc": False, "desc": True}


async def _read_jobs(reader: JobReader, caller: Caller, query: JobQuery) -> Sequence[Job]:
    """The jobs a query asks for; fewer where they are too large together for one answer. FaultError."""
    found: list[Job] = []
    size = 0
    while len(found) < query.limit and size <= _BYTES_MAX:
        asked = min(_AT_ONCE, query.limit - len(found))
        page = await reader.jobs(caller, _further(query, found, asked))
        for job in page:
            whole = await reader.with_documents(job)
            found.append(whole)
            size += sum(len(part) for part in (whole.workflow, whole.extra, whole.outputs) if part)
            if size > _BYTES_MAX:
                break
        if len(page) < asked:
            break
    return found


def _further(query: JobQuery, found: Sequence[Job], limit: int) -> JobQuery:
    if not found:
        return msgspec.structs.replace(query, limit=limit)
    return msgspec.structs.replace(query, limit=limit, offset=0, after=found[-1].number)


async def _told_events(reader: JobReader, caller: Caller, job: Job) -> Sequence[tuple[events.Event, int]]:
    """The events of a job that its history has, with their times in ms. FaultError."""
    kept = await reader.events(caller, job)
    return [(_decode_event(event.data), event.at) for event in kept if event.kind in _EVENTS_TOLD]


class JobHandlers(msgspec.Struct, frozen=True):
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
        jobs = await _read_jobs(self.reader, caller, query)
        pagination: Pagination = {
            "offset": query.offset,
            "limit": query.limit,
            "total": total,
            "has_more": query.offset + len(jobs) < total,
        }
        page: CloudJobList = {"jobs": [job_entry(job) for job in jobs], "pagination": pagination}
        return answer(page)

    async def show_job(self, request: Request) -> Response:
        """`GET /jobs/{id}`: one job with its workflow and the outputs of its nodes."""
        caller = caller_of(request)
        job = await self.reader.job(caller, asked_job(request), whole=True)
        told = () if job.state in LIVE else await _told_events(self.reader, caller, job)
        return answer(job_detail(job, told))

    async def cancel_job(self, request: Request) -> Response:
        """`POST /jobs/{id}/cancel`: cancel a job; says whether this has changed it, as an ended one stays as it is."""
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
    """What a list is asked for; FaultError(InvalidInput) for a query that cannot be answered."""
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
        is_newest_first=_ORDERS[order],
    )


def _states(asked: Sequence[str]) -> frozenset[JobState] | None:
    statuses = [status.strip() for status in asked if status.strip()]
    if not statuses:
        return None
    known = sorted(set(STATUSES.values()))
    if not set(statuses) <= set(known):
        raise FaultError(InvalidInput(f"status must be some of {', '.join(known)}."))
    return states_of(statuses)


class QueueHandlers(msgspec.Struct, frozen=True):
    """Answers `/api/queue` and `/api/interrupt`."""

    reader: JobReader
    canceller: JobCanceller

    async def show_queue(self, request: Request) -> Response:
        """`GET /queue`: the jobs that have not ended, in the order of their submission."""
        caller = caller_of(request)
        query = JobQuery(states=LIVE, limit=JOBS_MAX, is_newest_first=False, is_whole=True)
        live = await _read_jobs(self.reader, caller, query)
        shown: QueueShown = {
            "queue_running": [queue_entry(job) for job in live if job.state in WORKING],
            "queue_pending": [queue_entry(job) for job in live if job.state not in WORKING],
        }
        return answer(shown)

    async def change_queue(self, request: Request) -> Response:
        """`POST /queue`: cancel jobs by their ids, all that wait, or both. Jobs of other workspaces are not deleted."""
        caller = caller_of(request)
        change = await read_fields(request, QueueChange)
        known = [job_id for job_id in change.delete or () if is_job_id(job_id)]
        deleted = list(await self.canceller.cancel(caller, known)) if known else []
        if change.clear:
            await self.canceller.cancel_waiting(caller)
        changed: QueueChanged = {"deleted": deleted, "cleared": change.clear}
        return answer(changed)

    async def interrupt(self, request: Request) -> Response:
        """`POST /interrupt`: stop what is executed, or the one job that is named; succeeds also when there is none."""
        caller = caller_of(request)
        job_id = (await read_fields(request, Interruption)).prompt_id
        if job_id is not None and not is_job_id(job_id):
            return answer(Interrupted(interrupted=[]))
        return answer(Interrupted(interrupted=list(await self.canceller.cancel_running(caller, job_id))))


class HistoryHandlers(msgspec.Struct, frozen=True):
    """Answers `/api/history_v2` and `/api/history`."""

    reader: JobReader

    async def list_history(self, request: Request) -> Response:
        """`GET /history_v2`: ended jobs, the newest first; `max_items` from `offset` on."""
        caller = caller_of(request)
        limit = whole_number(request, "max_items", _HISTORY_LISTED, 1, JOBS_MAX)
        offset = whole_number(request, "offset", 0, 0, _OFFSET_MAX)
        query = JobQuery(states=_ENDED, limit=limit, offset=offset, is_whole=True)
        jobs = await _read_jobs(self.reader, caller, query)
        return answer(HistoryV2(history=[history_v2_entry(job) for job in jobs]))

    async def show_history(self, request: Request) -> Response:
        """`GET /history_v2/{id}`: one ended job under its id; an empty object for one that goes on."""
        caller = caller_of(request)
        job = await self.reader.job(caller, asked_job(request), whole=True)
        if job.state in LIVE:
            return answer({})
        return answer({job.public_id: history_v2_detail(job, await _told_events(self.reader, caller, job))})

    async def list_local_history(self, request: Request) -> Response:
        """`GET /history`: ended jobs by their ids, the oldest first; `offset` counts from the oldest, too.

        Without an offset these are the last `max_items`.
        """
        caller = caller_of(request)
        limit = whole_number(request, "max_items", _HISTORY_LISTED, 1, JOBS_MAX)
        from_oldest = "offset" in request.query_params
        offset = whole_number(request, "offset", 0, 0, _OFFSET_MAX)
        query = JobQuery(states=_ENDED, limit=limit, offset=offset, is_newest_first=not from_oldest, is_whole=True)
        jobs = await _read_jobs(self.reader, caller, query)
        in_order = sorted(jobs, key=lambda job: job.number)
        return answer({job.public_id: history_entry(job) for job in in_order})

    async def show_local_history(self, request: Request) -> Response:
        """`GET /history/{id}`: one ended job under its id; an empty object if there is none, as clients expect."""
        caller = caller_of(request)
        job = await self._find(caller, request)
        if job is None or job.state in LIVE:
            return answer({})
        return answer({job.public_id: history_entry(job, await _told_events(self.reader, caller, job))})

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
