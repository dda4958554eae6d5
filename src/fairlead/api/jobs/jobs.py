"""Jobs in the jobs API: submitted, listed, read, watched, canceled (J-01 to J-13)."""

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from starlette import types
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from fairlead.api.http.asgi import Receive, header, read_members, read_whole
from fairlead.api.http.forwarding import BaseUrls
from fairlead.api.http.route import caller_of
from fairlead.api.jobs.addresses import address_of, api_base
from fairlead.api.jobs.credentials import deployment_of
from fairlead.api.jobs.documents import JobShown
from fairlead.api.jobs.errors import NoLabelsError, NoListError
from fairlead.api.jobs.queries import read_list_query
from fairlead.api.jobs.wire import (
    CLASSES_READ_MAX,
    JobAnswer,
    answer,
    class_names,
    event,
    job_document,
    log_document,
    page_document,
    workflow_document,
)
from fairlead.document_readers import DocumentReaders
from fairlead.documents.members import BadDocumentError, Members, Wanted
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.deployments import placement_in
from fairlead.domain.faults import FaultError, InternalError
from fairlead.domain.jobs.events import Event
from fairlead.domain.jobs.faults import BadLabels, BadSubmission, JobFaultError, JobNotFound, SubmissionRefused
from fairlead.domain.jobs.jobs import Job, JobLifetime, NewJob
from fairlead.domain.jobs.listing import fault_of_labels
from fairlead.domain.jobs.states import LIVE, WORKING
from fairlead.domain.jobs.updates import ProgressUpdate, log_line
from fairlead.domain.runs.replays import KEY_MAX
from fairlead.operations.jobs.cancel import JobCanceller
from fairlead.operations.jobs.outputs import JobOutputs
from fairlead.operations.jobs.read import EVENTS_MAX, JobReader
from fairlead.operations.jobs.submissions import JobSubmissions
from fairlead.operations.jobs.watch import JobWatcher, Watch

METADATA_BYTES_MAX: Final = 64 * 1024
_KEY_BYTES_MAX: Final = 8 * 1024
_ABSENT: Final = b"null"
_RESERVED: Final = ("webhook_url", "inputs")
SUBMITTED: Final = Wanted(
    ("workflow", "extra_data", "metadata", *_RESERVED), (("workflow", "nodes"), ("workflow", "links"))
)
"""The members of a body, and those by which a workflow as an editor draws it is recognized. Other members are ignored.

Each stays as it was sent until it is known to be small enough to be read.
"""
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_STREAMED: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_EVENT_STREAM: Final = "text/event-stream"
_events: Final = msgspec.json.Decoder(Event)


def read_submission(members: Members, key_fields: Sequence[str], idempotency_key: bytes | None) -> NewJob:
    """Read SUBMITTED members; JobFaultError says why they are refused.

    `key_fields` are the fields of `extra_data` that may hold the key which pays for partner nodes; it has no other use,
    and nothing of it is stored.
    """
    body = members.values
    for name in _RESERVED:
        if body.get(name, _ABSENT) != _ABSENT:
            raise _bad(f"{name} is reserved, and cannot be sent yet.")
    return NewJob(
        workflow=_workflow(members),
        partner_key=_partner_key(body.get("extra_data", _ABSENT), key_fields),
        is_strict=True,
        labels=_labels(body.get("metadata", _ABSENT)),
        idempotency_key=_idempotency_key(idempotency_key),
    )


def malformed_body(error: BadDocumentError) -> JobFaultError:
    """The message for a body that is not a JSON object, or cannot be read."""
    if error.is_too_deep:
        return _bad("The body is nested too deeply.")
    return _bad(f"The body is not a JSON object that can be submitted: {error.reason}.")


def _workflow(members: Members) -> bytes:
    workflow = members.values.get("workflow", _ABSENT)
    if not workflow.startswith(b"{"):
        message = "The body must have a workflow: an object of nodes by their ids."
        raise JobFaultError(SubmissionRefused("invalid_workflow", message))
    if members.lists == frozenset(SUBMITTED.lists):
        message = "This is the editor's own format; export the workflow in the API format instead."
        raise JobFaultError(BadSubmission("workflow_format_ui", message))
    return workflow


def _partner_key(raw: bytes, key_fields: Sequence[str]) -> str | None:
    if raw == _ABSENT:
        return None
    known = " or ".join(key_fields)
    if len(raw) > _KEY_BYTES_MAX * len(key_fields):
        raise _bad(f"extra_data takes a key of at most {_KEY_BYTES_MAX} bytes as {known}.")
    try:
        sent = msgspec.json.decode(raw, type=dict[str, str | None])
    except msgspec.DecodeError as error:
        raise _bad(f"extra_data must be an object, which takes a key as {known}.") from error
    if not set(sent) <= set(key_fields):
        raise _bad(f"extra_data takes nothing but {known}.")
    return next((key for name in key_fields if (key := sent.get(name))), None)


def _labels(raw: bytes) -> dict[str, str]:
    if raw == _ABSENT:
        return {}
    if len(raw) > METADATA_BYTES_MAX:
        raise JobFaultError(BadLabels(f"metadata may have {METADATA_BYTES_MAX} bytes."))
    try:
        labels = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise JobFaultError(BadLabels("metadata must be an object of texts by their keys.")) from error
    fault = fault_of_labels(labels)
    if fault is not None:
        raise JobFaultError(fault)
    return labels


def _idempotency_key(value: bytes | None) -> str | None:
    if value is None:
        return None
    if not 1 <= len(value) <= KEY_MAX:
        raise _bad(f"Idempotency-Key must have 1 to {KEY_MAX} characters.")
    return value.decode("latin-1")


def _bad(message: str) -> JobFaultError:
    return JobFaultError(BadSubmission("invalid_request", message))


class JobHandlers(msgspec.Struct, frozen=True):
    """Answers `/api/v2/jobs`. `body_limit` is in bytes; `key_fields` as `Brand.partner_key_fields` has them.

    Where it is not an `archive`, jobs are not listed, and take no labels (J-10). At the address of a deployment only
    its jobs are visible.
    """

    readers: DocumentReaders
    submissions: JobSubmissions
    reader: JobReader
    outputs: JobOutputs
    canceller: JobCanceller
    watcher: JobWatcher
    base_urls: BaseUrls
    key_fields: Sequence[str]
    lifetime: JobLifetime
    body_limit: int
    workflow_values: int
    has_archive: bool = True

    async def submit_job(self, request: Request) -> Response:
        """`POST /jobs`: a job is durable when this answers (J-12)."""
        caller, deployment = caller_of(request), deployment_of(request)
        receive = cast("Receive", request.receive)  # the server's own: Starlette hands it on as it is
        content = await read_whole(request.scope, receive, self.body_limit, self.workflow_values)
        placement = None if deployment is None else placement_in(deployment)
        try:
            members = await read_members(self.readers, caller.workspace_id, content, SUBMITTED)
        except BadDocumentError as error:
            raise malformed_body(error) from error
        del content  # the members hold all that is needed of it
        new = read_submission(members, self.key_fields, header(request.scope, b"idempotency-key"))
        if new.labels and not self.has_archive:
            raise NoLabelsError
        address = self.base_urls.caller_of(request.scope)
        new = msgspec.structs.replace(new, placement=placement, partner_address=address)
        job = await self.submissions.submit(caller, new)
        return answer(await self._document(request, caller, job), 201)

    async def list_jobs(self, request: Request) -> Response:
        """`GET /jobs`: a page of the workspace's jobs, the newest first (J-01)."""
        caller = caller_of(request)
        if not self.has_archive:
            raise NoListError
        query, address = read_list_query(request.scope["query_string"]), address_of(request.scope)
        if address is not None:
            query = msgspec.structs.replace(query, deployment_id=address.deployment_id)
        return answer(page_document(await self.reader.page(caller, query)))

    async def show_job(self, request: Request) -> Response:
        """`GET /jobs/{id}`: a job with its state and its outputs (J-13)."""
        caller = caller_of(request)
        return answer(await self._document(request, caller, await self._job(request, caller)))

    async def show_workflow(self, request: Request) -> Response:
        """`GET /jobs/{id}/workflow`: the graph as it was submitted, or as its author has drawn it (K-04)."""
        caller = caller_of(request)
        job = await self._job(request, caller, whole=True)
        if job.workflow is None:
            raise FaultError(InternalError("The stored workflow of this job is lost."))
        return answer(workflow_document(job))

    async def show_logs(self, request: Request) -> Response:
        """`GET /jobs/{id}/logs`: the events of a job, as text; 204 where there is none yet."""
        caller = caller_of(request)
        job = await self._job(request, caller)
        kept = await self.reader.events(caller, job)
        lines = [line for one in kept if (line := log_line(_events.decode(one.data), one.at)) is not None]
        if not lines:
            return Response(status_code=204, headers={"Cache-Control": "no-store"})
        truncated, complete = len(kept) >= EVENTS_MAX, job.state not in LIVE
        return answer(log_document(lines, truncated=truncated, complete=complete))

    async def cancel_job(self, request: Request) -> Response:
        """`POST /jobs/{id}/cancel`: cancel a job, and answer with its state then; an ended one stays as it is."""
        caller = caller_of(request)
        job = await self._job(request, caller)
        await self.canceller.cancel(caller, [job.public_id])
        return answer(await self._document(request, caller, await self._job(request, caller)))

    async def watch_job(self, request: Request) -> Response:
        """`GET /jobs/{id}/events`: a job's updates as server-sent events, until it has ended (J-13)."""
        caller = caller_of(request)
        job = await self._job(request, caller, whole=True, workflow_max=CLASSES_READ_MAX)
        if request.method == "HEAD":  # there would be nothing to stream until the job ends
            return Response(headers=_STREAMED, media_type=_EVENT_STREAM)
        watch = await self.watcher.watch(caller, job.public_id)
        return _WatchResponse(watch, class_names(job), self.base_urls.of(request.scope))

    async def _job(
        self, request: Request, caller: Caller, *, whole: bool = False, workflow_max: int | None = None
    ) -> Job:
        """The job a path names; JobFaultError(JobNotFound) for what is not an id, and for another workspace's job."""
        job_id: str = request.path_params["job_id"]
        if _UUID.fullmatch(job_id) is None:
            raise JobFaultError(JobNotFound(job_id))
        job = await self.reader.job(caller, job_id, whole=whole, workflow_max=workflow_max)
        address = address_of(request.scope)
        if address is not None and address.deployment_id != job.deployment_id:
            raise JobFaultError(JobNotFound(job_id))
        return job

    async def _document(self, request: Request, caller: Caller, job: Job) -> JobShown:
        if job.state in WORKING:
            job = await self._with_classes(caller, job)  # for the class of the node that is executed
        outputs = await self.outputs.of_job(caller, job)
        if job.workflow is None and any(output.is_lost for output in outputs):
            job = await self._with_classes(caller, job)
        told = JobAnswer(job, outputs, self.lifetime.end_of(job), await self.reader.ahead(caller, job))
        return job_document(told, self.base_urls.of(request.scope), api_base(self.base_urls, request.scope))

    async def _with_classes(self, caller: Caller, job: Job) -> Job:
        """The job with its workflow, where that is small enough to look for the classes of its nodes."""
        return await self.reader.job(caller, job.public_id, whole=True, workflow_max=CLASSES_READ_MAX)


class _WatchResponse(StreamingResponse):
    """The stream of a watch, which is closed whatever becomes of the connection."""

    def __init__(self, watch: Watch, classes: Mapping[str, str], base: str) -> None:
        super().__init__(_tell(watch, classes, base), 200, _STREAMED, media_type=_EVENT_STREAM)
        self._watch = watch

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        """Send the stream until it ends, or its reader has left."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watch.close()


async def _tell(watch: Watch, classes: Mapping[str, str], base: str) -> AsyncIterator[bytes]:
    async for update in watch.updates():
        node = update.progress.current_node if isinstance(update, ProgressUpdate) else None
        yield event(update, classes.get(node or ""), base)
