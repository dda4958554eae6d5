"""What is said of the jobs API's routes (docs/jobs.md)."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec

from fairlead.domain.jobs.listing import PAGE_MAX
from fairlead.domain.runs.replays import KEY_MAX
from fairlead.surfaces.jobs.documents import (
    AssetAdded,
    AssetForm,
    AssetFromHash,
    AssetShown,
    DeploymentList,
    DeploymentShown,
    JobList,
    JobLog,
    JobsError,
    JobShown,
    JobSubmission,
    JobWorkflow,
    NewDeployment,
    NewRelease,
    ReleaseList,
    ReleaseShown,
)
from fairlead.surfaces.jobs.routes import ROUTES
from fairlead.surfaces.openapi.description import (
    Access,
    Answer,
    Body,
    Description,
    Operation,
    Parameter,
    describe_routes,
)

_FORM: Final = "multipart/form-data"
_STREAM: Final = "text/event-stream"
_EVENTS: Final = "Server-sent events: `status`, `progress` (JobProgress), `preview`, `output` (JobOutputShown), `log`."
_KEY: Final = Parameter(
    "Idempotency-Key",
    "Makes sure that no second job is made by accident.",
    Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_MAX)],
    where="header",
)
_LIST: Final = (
    Parameter(
        "limit", f"How many jobs at most; {PAGE_MAX} where it is absent or more.", Annotated[int, msgspec.Meta(ge=1)]
    ),
    Parameter("cursor", "The `next_cursor` of the page before."),
    Parameter("metadata[key]", "A label that the jobs have, for up to three keys."),
)

_JOBS: Final = {
    "submit_job": Operation(
        "Submit a workflow",
        {201: Answer("The job. It is durable.", JobShown)},
        (402, 413, 422),
        (_KEY,),
        Body(JobSubmission),
    ),
    "list_jobs": Operation(
        "List jobs, the newest first", {200: Answer("A page of the list.", JobList)}, (400, 422, 501), _LIST
    ),
    "show_job": Operation("Tell how a job stands, and what it has made", {200: Answer("The job.", JobShown)}),
    "show_workflow": Operation(
        "Show the workflow of a job", {200: Answer("The workflow, and its format.", JobWorkflow)}
    ),
    "show_logs": Operation(
        "Tell what befell a job, in words",
        {200: Answer("The log.", JobLog), 204: Answer("Nothing has befallen it yet.")},
    ),
    "watch_job": Operation(
        "Watch a job until it has ended",
        {200: Answer(_EVENTS, Any, (_STREAM,))},
    ),
    "cancel_job": Operation("Cancel a job", {200: Answer("The job as it stands then.", JobShown)}),
}

_TAKEN: Final = {
    200: Answer("There was such an asset already.", AssetAdded),
    201: Answer("The new asset.", AssetAdded),
}
_ASSETS: Final = {
    "upload_asset": Operation("Keep a file", _TAKEN, (409, 413, 422, 451), body=Body(AssetForm, _FORM)),
    "make_asset": Operation(
        "Make an asset of bytes that need not be sent again", _TAKEN, (413, 422, 451), body=Body(AssetFromHash)
    ),
    "seek_hash": Operation("Ask whether the workspace has some bytes", {200: Answer("It has.")}, (422,)),
    "show_asset": Operation("Show an asset", {200: Answer("The asset.", AssetShown)}),
    "delete_asset": Operation("Delete an asset", {204: Answer("It is deleted.")}, (409,)),
    "show_content": Operation(
        "Fetch the bytes of an asset",
        {302: Answer("A link to the bytes, which is its own credential.", headers=("location!", "cache-control!"))},
    ),
}

_SHOWN: Final = {200: Answer("The deployment.", DeploymentShown)}
_DEPLOYMENTS: Final = {
    "create_deployment": Operation(
        "Make a deployment and its first release",
        {201: Answer("The deployment, which is being prepared.", DeploymentShown)},
        (413, 422, 501),
        body=Body(NewDeployment),
    ),
    "list_deployments": Operation(
        "List deployments, the newest first", {200: Answer("All of them.", DeploymentList)}, (501,)
    ),
    "show_deployment": Operation("Tell how a deployment stands", _SHOWN, (501,)),
    "delete_deployment": Operation("Delete a deployment", {204: Answer("It is deleted.")}, (501,)),
    "stop_deployment": Operation("Have a deployment take no more jobs", _SHOWN, (501,)),
    "start_deployment": Operation("Make a deployment ready again", _SHOWN, (501,)),
    "publish_release": Operation(
        "Publish a release of a deployment",
        {201: Answer("The release, which serves once it is prepared.", ReleaseShown)},
        (413, 422, 501),
        body=Body(NewRelease, required=False),
    ),
    "list_releases": Operation(
        "List the releases of a deployment, the newest first", {200: Answer("All of them.", ReleaseList)}, (501,)
    ),
}

OPERATIONS: Final[Mapping[str, Operation]] = MappingProxyType(
    {name: replace(operation, access=Access.OPENED) for name, operation in {**_JOBS, **_ASSETS, **_DEPLOYMENTS}.items()}
)
"""By the names of the handlers, as the table of routes has them."""

_PATH: Final = {
    "job_id": Parameter("job_id", "The id of a job: a UUID in lower case.", where="path"),
    "asset_id": Parameter("asset_id", "The id of an asset: a UUID in lower case.", where="path"),
    "deployment_id": Parameter("deployment_id", "The id of a deployment.", where="path"),
    "hash": Parameter("hash", "`blake3:` and 64 digits of lower-case hexadecimal.", where="path"),
}


def describe_jobs() -> Description:
    """The jobs API."""
    return Description(
        name="jobs",
        title="Jobs",
        summary="Workflows as jobs with labels, their results, and assets; also behind the address of a deployment.",
        error=JobsError,
        routes=describe_routes("jobs", ROUTES, OPERATIONS),
        path_parameters=_PATH,
        refusals={Access.OPENED: (401, 403, 404, 429, 500)},
        headers_of={429: ("retry-after!",)},
    )
