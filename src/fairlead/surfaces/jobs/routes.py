"""The jobs API's route table, and nothing else: what may be called, and what answers it."""

from dataclasses import dataclass
from typing import Final, Literal

PREFIX: Final = "/api/v2"


@dataclass(frozen=True, slots=True)
class Route:
    """One route. The handler is a method of one of the classes of handlers in this package."""

    method: Literal["GET", "POST"]
    path: str
    handler: Literal["submit_job", "list_jobs", "show_job", "show_workflow", "show_logs", "watch_job", "cancel_job"]


ROUTES: Final = (
    Route("POST", "/api/v2/jobs", "submit_job"),
    Route("GET", "/api/v2/jobs", "list_jobs"),
    Route("GET", "/api/v2/jobs/{job_id}", "show_job"),
    Route("GET", "/api/v2/jobs/{job_id}/workflow", "show_workflow"),
    Route("GET", "/api/v2/jobs/{job_id}/logs", "show_logs"),
    Route("GET", "/api/v2/jobs/{job_id}/events", "watch_job"),
    Route("POST", "/api/v2/jobs/{job_id}/cancel", "cancel_job"),
)
