"""The jobs API's error envelope: every fault gets its status, its code and its message here (J-07).

An error has a `code` from a closed list, a `message`, and `details` where there are any. A 429 always says when to try
again. The cause of an internal failure is only in the log.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, assert_never

from starlette.exceptions import HTTPException

from fairlead.api.http.api import METHOD_NOT_ALLOWED, Refusal, make_refusal, refused_method
from fairlead.api.http.asgi import Headers, Scope
from fairlead.api.http.faults import Kind, default_answer, fault_of
from fairlead.api.jobs.documents import JobsError, JobsErrorCode, JobsErrorTold
from fairlead.documents.fitting import fit
from fairlead.domain.assets.faults import (
    AssetFault,
    AssetFaultError,
    AssetInUse,
    AssetNotFound,
    BlobNotFound,
    ContentBlocked,
    HashMismatch,
)
from fairlead.domain.deployments import (
    BadDeployment,
    DeploymentFault,
    DeploymentFaultError,
    DeploymentNotFound,
    DeploymentNotReady,
    DeploymentStopped,
    DeploymentUnavailable,
    TooManyDeployments,
)
from fairlead.domain.faults import (
    ConcurrencyLimitExceeded,
    Fault,
    InternalError,
)
from fairlead.domain.jobs.faults import (
    BadCursor,
    BadFile,
    BadFilter,
    BadLabels,
    BadSubmission,
    DuplicateJob,
    EngineUnavailable,
    FileExists,
    FileFault,
    FileNotFound,
    FileTooLarge,
    IdempotencyKeyUsed,
    InvalidWorkflow,
    JobFault,
    JobFaultError,
    JobNotFound,
    JobQueueFull,
    StorageFull,
    SubmissionRefused,
    SubscriptionInactive,
    TooManyStreams,
    TooManyUploads,
)

_WAIT_SECONDS: Final = 5


class NoListError(HTTPException):
    """Jobs are not listed on this surface (J-10)."""

    def __init__(self) -> None:
        super().__init__(501)


class NoLabelsError(HTTPException):
    """No labels of jobs are kept on this surface (J-10)."""

    def __init__(self) -> None:
        super().__init__(422)


class NoDeploymentsError(HTTPException):
    """There are no deployments on this surface (J-10)."""

    def __init__(self) -> None:
        super().__init__(501)


class SsoRequiredError(HTTPException):
    """The key is valid, but its organization requires single sign-on for this account (J-11)."""

    def __init__(self, organization_id: str | None) -> None:
        super().__init__(403)
        self.organization_id = organization_id


class _Worded(NamedTuple):
    """A fault as this API sends it."""

    status: int
    code: JobsErrorCode
    message: str
    details: Mapping[str, object] | None = None
    retry_after: int | None = None
    organization_id: str | None = None


_FAILED: Final = _Worded(500, "upstream_error", "Something that this service needs has failed. Try again later.")
_NO_PATH: Final = _Worded(404, "not_found", "There is nothing at this path.")
_NO_JOB: Final = _Worded(404, "not_found", "There is no such job.")
_NOT_HERE: Final[Mapping[type[Exception], _Worded]] = {
    NoListError: _Worded(501, "not_implemented", "Jobs are not listed here; each can be read by its id."),
    NoLabelsError: _Worded(422, "metadata_not_supported", "No metadata is kept here; submit the job without."),
    NoDeploymentsError: _Worded(501, "not_implemented", "There are no deployments here."),
}


def refusal(error: Exception, scope: Scope) -> Refusal:
    """The answer to anything that goes wrong in the jobs API."""
    worded, more_headers = _word(error, scope)
    told: JobsErrorTold = {"code": worded.code, "message": worded.message}
    if worded.organization_id is not None:
        told["organization_id"] = worded.organization_id
    if worded.details:
        told["details"] = worded.details
    content = fit(JobsError(error=told))
    return make_refusal(worded.status, content, worded.code, retry_after=worded.retry_after, more_headers=more_headers)


def _word(error: Exception, scope: Scope) -> tuple[_Worded, Headers]:  # noqa: PLR0911 -- one table, a row an error
    match error:
        case JobFaultError():
            return _job_fault(error.fault), []
        case AssetFaultError():
            return _asset_fault(error.fault), []
        case NoListError() | NoLabelsError() | NoDeploymentsError():
            return _NOT_HERE[type(error)], []
        case DeploymentFaultError():
            return _deployment_fault(error.fault), []
        case SsoRequiredError(organization_id=organization_id):
            message = "This account must sign in by the single sign-on of its organization, which takes no API keys."
            return _Worded(403, "sso_required", message, organization_id=organization_id), []
        case HTTPException(status_code=status) if status == METHOD_NOT_ALLOWED:
            message, allow = refused_method(error, scope)
            return _Worded(METHOD_NOT_ALLOWED, "method_not_allowed", message), allow
        case _:
            return _fault(fault_of(error)), []


def _job_fault(fault: JobFault) -> _Worded:  # noqa: PLR0911, PLR0912, C901 -- one total table, a row a fault
    match fault:
        case SubmissionRefused(code, message, details):
            return _Worded(422, code, message, details)
        case InvalidWorkflow():
            return _Worded(422, "invalid_workflow", "The workflow cannot be executed.")
        case BadSubmission("workflow_format_ui", message):
            return _Worded(422, "workflow_format_ui", message)
        case BadSubmission(_, message):
            return _Worded(422, "invalid_request", message)
        case BadLabels(detail, key):
            return _Worded(422, "metadata_invalid", detail, None if key is None else {"key": key})
        case IdempotencyKeyUsed():
            return _Worded(422, "idempotency_key_reuse", "A job was submitted with this Idempotency-Key before.")
        case BadFilter(detail):
            return _Worded(400, "invalid_metadata_filter", detail)
        case BadCursor():
            return _Worded(400, "invalid_cursor", "The cursor is not well-formed. Pass next_cursor on as it came.")
        case JobNotFound():
            return _NO_JOB
        case SubscriptionInactive(subscription):
            message = f"The subscription of this workspace ({subscription}) is inactive: it runs no workflows."
            return _Worded(403, "forbidden", message, {"reason": "subscription_inactive"})
        case JobQueueFull(limit, retry_after):
            message = f"{limit} jobs of this workspace are already waiting."
            return _Worded(429, "queue_full", message, retry_after=retry_after)
        case TooManyStreams(limit, retry_after):
            message = f"{limit} streams of this account are already open."
            return _Worded(429, "too_many_streams", message, retry_after=retry_after)
        case FileNotFound() | FileExists() | BadFile() | FileTooLarge() | TooManyUploads() | StorageFull():
            return _file_fault(fault)
        case DuplicateJob() | EngineUnavailable():
            return _FAILED
        case _:
            assert_never(fault)


def _file_fault(fault: FileFault) -> _Worded:
    match fault:
        case BadFile(message):
            return _Worded(422, "invalid_request", message)
        case FileNotFound(name) | FileExists(name):
            return _Worded(422, "missing_asset", f"The file {name[:200]} cannot be used.")
        case FileTooLarge(limit):
            return _Worded(413, "invalid_request", f"A file may have {limit} bytes.")
        case TooManyUploads(retry_after):
            message = "Too many files are being received; try again soon."
            return _Worded(429, "rate_limited", message, retry_after=retry_after)
        case StorageFull(what, limit):
            message = f"A workspace may keep {limit} {what} here; delete some first."
            return _Worded(413, "invalid_request", message, {"reason": "storage_full", "what": what, "limit": limit})


def _deployment_fault(fault: DeploymentFault) -> _Worded:
    match fault:
        case DeploymentNotFound():
            return _Worded(404, "not_found", "There is no such deployment.")
        case DeploymentNotReady(retry_after):
            message = "The deployment is being made ready."
            return _Worded(429, "deployment_not_ready", message, retry_after=retry_after)
        case DeploymentUnavailable(retry_after):
            message = "No engine takes work for this deployment right now."
            return _Worded(429, "deployment_unavailable", message, retry_after=retry_after)
        case DeploymentStopped(reason):
            message = "The deployment is stopped." if reason is None else f"The deployment is stopped: {reason}"
            return _Worded(422, "deployment_stopped", message)
        case BadDeployment(detail, _):
            return _Worded(422, "invalid_request", detail)
        case TooManyDeployments(what, limit):
            return _Worded(422, "invalid_request", f"There can be {limit} {what}; delete some first.")


def _asset_fault(fault: AssetFault) -> _Worded:
    match fault:
        case AssetNotFound():
            return _Worded(404, "not_found", "There is no such asset.")
        case BlobNotFound():
            return _Worded(404, "blob_not_found", "The workspace has no file with these bytes.")
        case HashMismatch(actual):
            details = {"actual_hash": f"blake3:{actual}"}
            return _Worded(409, "hash_mismatch", "The bytes are not those of expected_hash.", details)
        case ContentBlocked():
            return _Worded(451, "content_blocked", "These bytes are not taken in here.")
        case AssetInUse():
            return _Worded(409, "asset_in_use", "A job that has not ended needs this asset.")


def _fault(fault: Fault) -> _Worded:  # noqa: PLR0911, PLR0912, C901 -- one total table, a row a kind
    told = default_answer(fault)
    match told.kind:
        case Kind.INVALID | Kind.CONFLICT:
            return _Worded(422, "invalid_request", told.message)
        case Kind.MODEL_REFUSED:
            return _Worded(422, "invalid_request", "A partner's model cannot be run with what it was given.")
        case Kind.TOO_LARGE:
            return _Worded(413, "invalid_request", told.message)
        case Kind.UNAUTHORIZED:
            return _Worded(401, "unauthorized", told.message)
        case Kind.UNPAID:
            return _Worded(402, "insufficient_credits", "Who pays for the partner nodes has too little left.")
        case Kind.FORBIDDEN:
            return _Worded(403, "forbidden", told.message)
        case Kind.NOT_FOUND:
            return _NO_PATH
        case Kind.LEFT:
            return _Worded(499, "client_disconnected", told.message)
        case Kind.RATE_LIMITED:
            return _Worded(429, "rate_limited", told.message, retry_after=told.retry_after)
        case Kind.BUSY if isinstance(fault, ConcurrencyLimitExceeded):
            message = "Too many streams and sockets are open."
            return _Worded(429, "too_many_streams", message, retry_after=_WAIT_SECONDS)
        case Kind.BUSY:
            message = "The workspace has too much under way; wait for something to end."
            return _Worded(429, "queue_full", message, retry_after=_WAIT_SECONDS)
        case Kind.FAILED:
            detail = fault.detail if isinstance(fault, InternalError) else None
            return _FAILED._replace(message=detail or _FAILED.message)
        case Kind.UNAVAILABLE | Kind.MODEL_FAILED:
            return _FAILED
        case _:
            assert_never(told.kind)
