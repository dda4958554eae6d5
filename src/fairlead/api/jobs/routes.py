"""The jobs API's routes (docs/jobs.md)."""

from typing import Annotated, Any, Final

import msgspec

from fairlead.api.http.route import Access, Answer, Body, Parameter, Route
from fairlead.api.jobs.assets import AssetHandlers
from fairlead.api.jobs.deployments import DeploymentHandlers
from fairlead.api.jobs.documents import (
    AssetAdded,
    AssetForm,
    AssetFromHash,
    AssetShown,
    DeploymentChange,
    DeploymentList,
    DeploymentShown,
    JobList,
    JobLog,
    JobShown,
    JobSubmission,
    JobWorkflow,
    NewDeployment,
    NewRelease,
    ReleaseList,
    ReleaseShown,
)
from fairlead.api.jobs.jobs import JobHandlers
from fairlead.domain.jobs.listing import PAGE_MAX
from fairlead.domain.runs.replays import KEY_MAX

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
    Parameter("metadata", "Labels that the jobs have, for up to three keys.", dict[str, str], is_deep=True),
)

_TAKEN: Final = {
    200: Answer("There was such an asset already.", AssetAdded),
    201: Answer("The new asset.", AssetAdded),
}
_SHOWN: Final = {200: Answer("The deployment.", DeploymentShown)}
ROUTES: Final = (
    Route(
        "POST",
        "/api/v2/jobs",
        JobHandlers.submit_job,
        "Submit a workflow",
        {201: Answer("The job. It is durable.", JobShown)},
        (402, 413, 422),
        (_KEY,),
        Body(JobSubmission),
        access=Access.OPENED,
    ),
    Route(
        "GET",
        "/api/v2/jobs",
        JobHandlers.list_jobs,
        "List jobs, the newest first",
        {200: Answer("A page of the list.", JobList)},
        (400, 422, 501),
        _LIST,
        access=Access.OPENED,
    ),
    Route(
        "GET",
        "/api/v2/jobs/{job_id}",
        JobHandlers.show_job,
        "Tell how a job stands, and what it has made",
        {200: Answer("The job.", JobShown)},
        access=Access.OPENED,
    ),
    Route(
        "GET",
        "/api/v2/jobs/{job_id}/workflow",
        JobHandlers.show_workflow,
        "Show the workflow of a job",
        {200: Answer("The workflow, and its format.", JobWorkflow)},
        access=Access.OPENED,
    ),
    Route(
        "GET",
        "/api/v2/jobs/{job_id}/logs",
        JobHandlers.show_logs,
        "Tell what befell a job, in words",
        {200: Answer("The log.", JobLog), 204: Answer("Nothing has befallen it yet.")},
        access=Access.OPENED,
    ),
    Route(
        "GET",
        "/api/v2/jobs/{job_id}/events",
        JobHandlers.watch_job,
        "Watch a job until it has ended",
        {200: Answer(_EVENTS, Any, (_STREAM,))},
        access=Access.OPENED,
    ),
    Route(
        "POST",
        "/api/v2/jobs/{job_id}/cancel",
        JobHandlers.cancel_job,
        "Cancel a job",
        {200: Answer("The job as it stands then.", JobShown)},
        access=Access.OPENED,
    ),
    Route(
        "POST",
        "/api/v2/assets",
        AssetHandlers.upload_asset,
        "Keep a file",
        _TAKEN,
        (409, 413, 422, 451),
        body=Body(AssetForm, _FORM),
        access=Access.OPENED,
    ),
    Route(
        "POST",
        "/api/v2/assets/from-hash",
        AssetHandlers.make_asset,
        "Make an asset of bytes that need not be sent again",
        _TAKEN,
        (413, 422, 451),
        body=Body(AssetFromHash),
        access=Access.OPENED,
    ),
    Route(
        "HEAD",
        "/api/v2/assets/by-hash/{hash}",
        AssetHandlers.seek_hash,
        "Ask whether the workspace has some bytes",
        {200: Answer("It has.")},
        access=Access.OPENED,
    ),
    Route(
        "GET",
        "/api/v2/assets/{asset_id}",
        AssetHandlers.show_asset,
        "Show an asset",
        {200: Answer("The asset.", AssetShown)},
        access=Access.OPENED,
    ),
    Route(
        "DELETE",
        "/api/v2/assets/{asset_id}",
        AssetHandlers.delete_asset,
        "Delete an asset",
        {204: Answer("It is deleted.")},
        (409,),
        access=Access.OPENED,
    ),
    Route(
        "GET",
        "/api/v2/assets/{asset_id}/content",
        AssetHandlers.show_content,
        "Fetch the bytes of an asset",
        {302: Answer("A link to the bytes, which is its own credential.", headers=("location!", "cache-control!"))},
        access=Access.OPENED,
    ),
    Route(
        "POST",
        "/api/v2/deployments",
        DeploymentHandlers.create_deployment,
        "Make a deployment and its first release",
        {201: Answer("The deployment, which is being prepared.", DeploymentShown)},
        (413, 422, 501),
        body=Body(NewDeployment),
        access=Access.OPENED,
    ),
    Route(
        "GET",
        "/api/v2/deployments",
        DeploymentHandlers.list_deployments,
        "List deployments, the newest first",
        {200: Answer("All of them.", DeploymentList)},
        (501,),
        access=Access.OPENED,
    ),
    Route(
        "GET",
        "/api/v2/deployments/{deployment_id}",
        DeploymentHandlers.show_deployment,
        "Tell how a deployment stands",
        _SHOWN,
        (501,),
        access=Access.OPENED,
    ),
    Route(
        "PATCH",
        "/api/v2/deployments/{deployment_id}",
        DeploymentHandlers.change_deployment,
        "Change the pool of a deployment",
        _SHOWN,
        (413, 422, 501),
        body=Body(DeploymentChange),
        access=Access.OPENED,
    ),
    Route(
        "DELETE",
        "/api/v2/deployments/{deployment_id}",
        DeploymentHandlers.delete_deployment,
        "Delete a deployment",
        {204: Answer("It is deleted.")},
        (501,),
        access=Access.OPENED,
    ),
    Route(
        "POST",
        "/api/v2/deployments/{deployment_id}/stop",
        DeploymentHandlers.stop_deployment,
        "Have a deployment take no more jobs",
        _SHOWN,
        (501,),
        access=Access.OPENED,
    ),
    Route(
        "POST",
        "/api/v2/deployments/{deployment_id}/start",
        DeploymentHandlers.start_deployment,
        "Make a deployment ready again",
        _SHOWN,
        (501,),
        access=Access.OPENED,
    ),
    Route(
        "POST",
        "/api/v2/deployments/{deployment_id}/releases",
        DeploymentHandlers.publish_release,
        "Publish a release of a deployment",
        {201: Answer("The release, which serves once it is prepared.", ReleaseShown)},
        (413, 422, 501),
        body=Body(NewRelease, is_required=False),
        access=Access.OPENED,
    ),
    Route(
        "GET",
        "/api/v2/deployments/{deployment_id}/releases",
        DeploymentHandlers.list_releases,
        "List the releases of a deployment, the newest first",
        {200: Answer("All of them.", ReleaseList)},
        (501,),
        access=Access.OPENED,
    ),
)
