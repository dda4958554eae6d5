"""Jobs over the administration API: listed, shown in full with their events, cancelled."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Protocol, TypeAlias, TypedDict

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairlead.api.admin.access import Reach, actor_of, reach_of
from fairlead.api.admin.bodies import PAGE, FieldError, answer, limit_of, number_after, page_of, text_of
from fairlead.api.admin.documents import Page
from fairlead.api.admin.runs import WORKSPACE
from fairlead.api.http.route import Access, Answer, Parameter, Route
from fairlead.api.http.schemas import AnyObject, MaybeObject, Time, Uuid, as_time
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.accounts.rights import Actor, Right
from fairlead.domain.faults import FaultError, NotEnabled, RequestNotFound
from fairlead.domain.jobs.faults import JobFaultError
from fairlead.domain.jobs.jobs import Job, StoredEvent
from fairlead.domain.jobs.listing import (
    FILTERS_MAX,
    JobPage,
    LabelFilter,
    ListedJob,
    ListQuery,
    is_label_key,
    is_label_text,
)
from fairlead.domain.jobs.states import JobState
from fairlead.operations.accounts.authenticate import Authenticator

JobStateName: TypeAlias = Annotated[str, msgspec.Meta(extra_json_schema={"enum": [state.value for state in JobState]})]
_WORKFLOW_MAX: Final = 1024 * 1024


class JobShown(TypedDict):
    """A job in a list, by the id that its submitter knows."""

    id: Uuid
    number: int
    state: JobStateName
    labels: Mapping[str, str]
    release: int | None
    created_at: Time
    updated_at: Time


class JobEventShown(TypedDict):
    """An event of a job."""

    number: int
    at: Time
    kind: str
    data: AnyObject


class JobInFull(JobShown):
    """A job in full; `workflow` is null where it is larger than 1 MiB, `outputs` has what its nodes have shown."""

    nodes: int
    attempt: int
    key: Uuid | None
    deployment: str | None
    started_at: Time | None
    finished_at: Time | None
    failure: MaybeObject
    outputs: MaybeObject
    workflow: MaybeObject
    events: Sequence[JobEventShown]


class JobCancelled(TypedDict):
    """Whether this call stops the job; false for one that had ended, or was cancelled before."""

    is_cancelled: bool


class JobReading(Protocol):
    """What reads jobs: a `JobReader`, which a server without the engine does not load."""

    async def page(self, caller: Caller, query: ListQuery) -> JobPage:
        """A page of the jobs of a workspace."""
        ...

    async def job(self, caller: Caller, public_id: str, *, whole: bool = False, workflow_max: int | None = None) -> Job:
        """A job; JobFaultError where the workspace has none of this id."""
        ...

    async def workspace_of(self, job_id: str) -> str | None:
        """The workspace of a job by its own id."""
        ...

    async def events(self, caller: Caller, job: Job) -> Sequence[StoredEvent]:
        """The events of a job, in order."""
        ...


class JobCancelling(Protocol):
    """What cancels jobs: a `JobCanceller`."""

    async def cancel(self, caller: Caller, public_ids: Sequence[str], by: Actor | None = None) -> Sequence[str]:
        """Cancel jobs by their public ids, and return which were cancelled; `by` is the actor in the audit log."""
        ...


class JobVerbs(msgspec.Struct, frozen=True):
    """What a server with the engine can do about jobs."""

    reader: JobReading
    canceller: JobCancelling


class JobHandlers(msgspec.Struct, frozen=True):
    """Answers what is asked about jobs; `jobs` is None on a server without the engine."""

    jobs: JobVerbs | None
    authenticator: Authenticator

    async def list_jobs(self, request: Request) -> Response:
        """`GET /jobs`: those of a workspace, the newest first."""
        limit, caller = limit_of(request), await self._caller(_one_workspace(reach_of(request)))
        which = f"jobs of {caller.workspace_id}"
        query = ListQuery(
            limit, number_after(request, which), _labels_of(request), text_of(request, "deployment"), _state(request)
        )
        page = await self._verbs().reader.page(caller, query)
        after = None if page.next_before is None else str(page.next_before)
        return answer(page_of([_show(one) for one in page.jobs], which, after))

    async def show_job(self, request: Request) -> Response:
        """`GET /jobs/{job_id}`: a job with its workflow, what its nodes have shown, and its events."""
        caller, job = await self._find(request)
        events = await self._verbs().reader.events(caller, job)
        told: JobInFull = {
            "id": job.public_id,
            "number": job.number,
            "state": job.state.value,
            "labels": _labels(job.labels),
            "release": job.release_version,
            "created_at": as_time(job.created_at),
            "updated_at": as_time(job.updated_at),
            "nodes": job.nodes,
            "attempt": job.attempt,
            "key": job.key_id,
            "deployment": job.deployment_id,
            "started_at": None if job.started_at is None else as_time(job.started_at),
            "finished_at": None if job.finished_at is None else as_time(job.finished_at),
            "failure": _raw(job.failure),
            "outputs": _raw(job.outputs),
            "workflow": _raw(job.workflow),
            "events": [
                {"number": one.number, "at": as_time(one.at), "kind": one.kind, "data": _raw(one.data)}
                for one in events
            ],
        }
        return answer(told)

    async def cancel_job(self, request: Request) -> Response:
        """`POST /jobs/{job_id}/cancel`: a job that waits ends, one that is executed is stopped."""
        caller, job = await self._find(request)
        done = await self._verbs().canceller.cancel(caller, [job.public_id], actor_of(request))
        told: JobCancelled = {"is_cancelled": bool(done)}
        return answer(told)

    async def _find(self, request: Request) -> tuple[Caller, Job]:
        """A job of one of the workspaces that the caller may see, and a caller of its workspace; FaultError."""
        public_id = str(request.path_params["job_id"])
        for workspace_id in await self._workspaces(reach_of(request), public_id):
            caller = await self._caller(workspace_id)
            try:
                job = await self._verbs().reader.job(caller, public_id, whole=True, workflow_max=_WORKFLOW_MAX)
            except JobFaultError:
                continue
            return caller, job
        raise FaultError(RequestNotFound(detail="There is no such job."))

    async def _workspaces(self, reach: Reach, public_id: str) -> Sequence[str]:
        """The workspaces in which a job is looked up.

        An id that its submitter chose is unique in its workspace only, so an operator who names no workspace finds a
        job by its own id.
        """
        if reach.workspace_ids is not None:
            return reach.workspace_ids
        found = await self._verbs().reader.workspace_of(public_id)
        return () if found is None else (found,)

    async def _caller(self, workspace_id: str) -> Caller:
        return await self.authenticator.caller_of_workspace(workspace_id, "administration")

    def _verbs(self) -> JobVerbs:
        if self.jobs is None:
            raise FaultError(NotEnabled("This server executes no workflows."))
        return self.jobs


def _state(request: Request) -> JobState | None:
    text = request.query_params.get("state")
    try:
        return None if text is None else JobState(text)
    except ValueError as error:
        raise FieldError("state", f"A state is one of {', '.join(JobState)}.") from error


def _labels_of(request: Request) -> Sequence[LabelFilter]:
    """The labels that are asked for, each as key=value; FieldError."""
    sent = [text.partition("=") for text in request.query_params.getlist("label")]
    if len(sent) > FILTERS_MAX or len({key for key, _, _ in sent}) < len(sent):
        raise FieldError("label", f"There may be up to {FILTERS_MAX} labels, each of another key.")
    if not all(equals and is_label_key(key) and is_label_text(value) for key, equals, value in sent):
        raise FieldError("label", "A label is written key=value; a key has 1 to 40 letters, digits, _ . and -.")
    return [LabelFilter(key, value) for key, _, value in sent]


def _one_workspace(reach: Reach) -> str:
    if reach.workspace_ids is None or len(reach.workspace_ids) != 1:
        raise FieldError("workspace", "Name the workspace.")
    return reach.workspace_ids[0]


def _show(one: ListedJob) -> JobShown:
    return {
        "id": one.public_id,
        "number": one.number,
        "state": one.state.value,
        "labels": _labels(one.labels),
        "release": one.release_version,
        "created_at": as_time(one.created_at),
        "updated_at": as_time(one.updated_at),
    }


def _labels(text: str | None) -> Mapping[str, str]:
    return {} if text is None else msgspec.json.decode(text, type=dict[str, str])


def _raw(content: bytes | None) -> msgspec.Raw | None:
    """A document that is stored as JSON, unchanged."""
    return msgspec.Raw(content) if content else None


ROUTES: Final = (
    Route(
        "GET",
        "/jobs",
        JobHandlers.list_jobs,
        "List the jobs of a workspace",
        {200: Answer("A page, the newest first; one that is not full may have another one behind it.", Page[JobShown])},
        (400, 404, 422),
        (
            WORKSPACE,
            Parameter("state", "Only those in this state."),
            Parameter("deployment", "Only those that were sent to this deployment, by its id."),
            Parameter("label", "Only those with this label, written key=value; up to three times."),
            *PAGE,
        ),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "GET",
        "/jobs/{job_id}",
        JobHandlers.show_job,
        "Show a job with its events",
        {200: Answer("The job.", JobInFull)},
        (404,),
        (WORKSPACE,),
        access=Access.MEMBER,
        right=Right.READ,
    ),
    Route(
        "POST",
        "/jobs/{job_id}/cancel",
        JobHandlers.cancel_job,
        "Cancel a job",
        {200: Answer("Whether it is stopped by this.", JobCancelled)},
        (404,),
        (WORKSPACE,),
        access=Access.MEMBER,
        right=Right.RUN,
    ),
)
