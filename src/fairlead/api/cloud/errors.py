"""The cloud API's error envelope: every fault gets its status and its message here (C-14).

An error has an `error` with `type`, `message`, `details` and `extra_info`, and `node_errors` by node, which is empty
unless a workflow cannot be executed; editors show both. `code` and `message` repeat the cause for clients that show
only one sentence.
"""

from typing import NamedTuple, assert_never

from starlette.exceptions import HTTPException

from fairlead.api.cloud.documents import CloudError, CloudErrorTold
from fairlead.api.http.api import METHOD_NOT_ALLOWED, Refusal, make_refusal, refused_method
from fairlead.api.http.asgi import Headers, Scope
from fairlead.api.http.faults import Kind, default_answer, fault_of
from fairlead.documents.fitting import fit
from fairlead.domain.assets.faults import AssetFaultError, ContentBlocked
from fairlead.domain.faults import (
    Fault,
    InsufficientCredits,
    InternalError,
    bucket,
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
from fairlead.domain.ledger.money import as_dollars


class _Worded(NamedTuple):
    """A fault as this API sends it. `result` names it in logs and metrics, as `type` may be any text."""

    status: int
    type: str
    message: str
    retry_after: int | None = None
    result: str | None = None


def refusal(error: Exception, scope: Scope) -> Refusal:
    """The answer to anything that goes wrong in the cloud API."""
    if isinstance(error, JobFaultError) and isinstance(error.fault, InvalidWorkflow):
        told = error.fault.error
        same = {"code": told.get("type"), "message": told.get("message")}
        body = {"error": told, "node_errors": error.fault.node_errors, **same}
        return make_refusal(400, fit(body), "invalid_workflow")
    worded, more_headers = _word(error, scope)
    content = fit(error_document(worded.type, worded.message))
    result = worded.result or worded.type
    return make_refusal(worded.status, content, result, retry_after=worded.retry_after, more_headers=more_headers)


def error_document(type_: str, message: str) -> CloudError:
    """The body of an error that no node of a workflow has caused."""
    error: CloudErrorTold = {"type": type_, "message": message, "details": "", "extra_info": {}}
    return {"error": error, "node_errors": {}, "code": type_, "message": message}


def _word(error: Exception, scope: Scope) -> tuple[_Worded, Headers]:
    match error:
        case JobFaultError():
            return _job_fault(error.fault, scope.get("method", "GET")), []
        case AssetFaultError(fault=ContentBlocked()):  # files are assets; no other fault of assets occurs here
            return _Worded(451, "content_blocked", "These bytes are not taken in here."), []
        case HTTPException(status_code=status) if status == METHOD_NOT_ALLOWED:
            message, allow = refused_method(error, scope)
            return _Worded(METHOD_NOT_ALLOWED, "method_not_allowed", message), allow
        case _:
            return _fault(fault_of(error)), []


def _job_fault(fault: JobFault, method: str) -> _Worded:  # noqa: PLR0911, PLR0912, C901 -- one total table, a row a fault
    match fault:
        case InvalidWorkflow() | SubmissionRefused():
            return _Worded(400, "invalid_workflow", "The workflow cannot be executed.")
        case BadLabels() | BadFilter() | BadCursor() | IdempotencyKeyUsed() | TooManyStreams():  # of the jobs API alone
            return _Worded(400, "invalid_request", "The request cannot be used.")
        case BadSubmission(type_, message):
            return _Worded(400, type_, message, result="invalid_submission")
        case DuplicateJob(public_id):
            return _Worded(409, "duplicate_prompt_id", f"There is a job {public_id} already.")
        case SubscriptionInactive(subscription):
            message = f"The subscription of this workspace ({subscription}) is inactive: it runs no workflows."
            return _Worded(429, "subscription_inactive", message)
        case JobQueueFull(limit, retry_after):
            message = f"{limit} jobs of this workspace are already waiting."
            return _Worded(429, "queue_full", message, retry_after)
        case JobNotFound(job_id):
            return _Worded(404, "job_not_found", f"There is no job {job_id[:64]}.")
        case FileNotFound(name):
            # What an address names is not found; what a body names makes the body bad (C-03).
            status = 404 if method in {"GET", "HEAD"} else 400
            return _Worded(status, "file_not_found", f"There is no file {name[:200]}.")
        case FileExists(name):
            return _Worded(409, "file_exists", f"There is a file {name[:200]} already.")
        case BadFile(detail):
            return _Worded(400, "invalid_file", detail)
        case FileTooLarge(limit):
            return _Worded(413, "file_too_large", f"A file may have {limit} bytes.")
        case TooManyUploads(retry_after):
            return _Worded(429, "too_many_uploads", "Too many files are being received; try again soon.", retry_after)
        case StorageFull(what, limit):
            return _Worded(413, "storage_full", f"A workspace may keep {limit} {what} here; delete some first.")
        case EngineUnavailable(retry_after):
            return _Worded(503, "engine_unavailable", "No engine is ready to take work; try again soon.", retry_after)
        case _:
            assert_never(fault)


def _fault(fault: Fault) -> _Worded:  # noqa: PLR0911 -- one total table, a row a kind
    name, told = bucket(fault), default_answer(fault)
    match told.kind:
        case Kind.INVALID | Kind.CONFLICT | Kind.TOO_LARGE | Kind.UNAUTHORIZED | Kind.FORBIDDEN | Kind.LEFT:
            return _Worded(told.status, name, told.message)
        case Kind.RATE_LIMITED | Kind.UNAVAILABLE:
            return _Worded(told.status, name, told.message, told.retry_after)
        case Kind.NOT_FOUND:
            return _Worded(404, name, told.message)
        case Kind.UNPAID:
            return _Worded(402, name, _unpaid(fault))
        case Kind.BUSY:
            return _Worded(429, name, "The workspace has too much under way; wait for something to end.")
        case Kind.MODEL_REFUSED:
            return _Worded(400, name, "A partner's model cannot be run with what it was given.")
        case Kind.MODEL_FAILED:
            return _Worded(503, name, "A partner's model has not answered as it should.")
        case Kind.FAILED:
            detail = fault.detail if isinstance(fault, InternalError) else None
            return _Worded(500, name, detail or "The server failed. The request id names the failure in its log.")
        case _:
            assert_never(told.kind)


def _unpaid(fault: Fault) -> str:
    if isinstance(fault, InsufficientCredits):
        return f"The workspace that pays has {as_dollars(fault.available)} US dollars left."
    return "The budget of the API key that pays is spent."
