"""The jobs API's route table, and nothing else: what may be called, and what answers it."""

from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "/api/v2"


@dataclass(frozen=True, slots=True)
class Route:
    """One route. The handler is a method of one of the classes of handlers in this package."""

    method: Literal["GET", "HEAD", "POST", "DELETE"]
    path: str
    handler: Literal[
        "submit_job", "list_jobs", "show_job", "show_workflow", "show_logs", "watch_job", "cancel_job",
        "create_deployment", "list_deployments", "show_deployment", "delete_deployment", "stop_deployment",
        "start_deployment", "publish_release", "list_releases",
        "upload_asset", "make_asset", "seek_hash", "show_asset", "delete_asset", "show_content",
    ]  # fmt: skip


ROUTES: Final = (
    Route("POST", "/api/v2/jobs", "submit_job"),
    Route("GET", "/api/v2/jobs", "list_jobs"),
    Route("GET", "/api/v2/jobs/{job_id}", "show_job"),
    Route("GET", "/api/v2/jobs/{job_id}/workflow", "show_workflow"),
    Route("GET", "/api/v2/jobs/{job_id}/logs", "show_logs"),
    Route("GET", "/api/v2/jobs/{job_id}/events", "watch_job"),
    Route("POST", "/api/v2/jobs/{job_id}/cancel", "cancel_job"),
    Route("POST", "/api/v2/assets", "upload_asset"),
    Route("POST", "/api/v2/assets/from-hash", "make_asset"),
    Route("HEAD", "/api/v2/assets/by-hash/{hash}", "seek_hash"),
    Route("GET", "/api/v2/assets/{asset_id}", "show_asset"),
    Route("DELETE", "/api/v2/assets/{asset_id}", "delete_asset"),
    Route("GET", "/api/v2/assets/{asset_id}/content", "show_content"),
    Route("POST", "/api/v2/deployments", "create_deployment"),
    Route("GET", "/api/v2/deployments", "list_deployments"),
    Route("GET", "/api/v2/deployments/{deployment_id}", "show_deployment"),
    Route("DELETE", "/api/v2/deployments/{deployment_id}", "delete_deployment"),
    Route("POST", "/api/v2/deployments/{deployment_id}/stop", "stop_deployment"),
    Route("POST", "/api/v2/deployments/{deployment_id}/start", "start_deployment"),
    Route("POST", "/api/v2/deployments/{deployment_id}/releases", "publish_release"),
    Route("GET", "/api/v2/deployments/{deployment_id}/releases", "list_releases"),
)
