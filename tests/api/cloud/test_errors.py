"""Every fault has one status and one envelope in the cloud API (C-14)."""

import json
from collections.abc import Callable
from typing import Any, Final, get_args

import pytest
from starlette.exceptions import HTTPException

from domain.every_fault import EVERY, name_of
from fairlead.api.cloud.errors import refusal
from fairlead.api.http.api import Refusal
from fairlead.api.http.asgi import CallerLeftError
from fairlead.domain.assets.faults import AssetFaultError, ContentBlocked
from fairlead.domain.faults import Fault, FaultError
from fairlead.domain.jobs import faults
from fairlead.domain.jobs.faults import JobFault, JobFaultError

_INVALID: Final = faults.InvalidWorkflow(
    {"type": "prompt_no_outputs", "message": "m", "details": "d", "extra_info": {}}, {"1": {"errors": []}}
)
_JOB_FAULTS: Final[dict[JobFault, tuple[int, str]]] = {
    faults.BadSubmission("no_prompt", "The body has no prompt."): (400, "no_prompt"),
    faults.DuplicateJob("0191"): (409, "duplicate_prompt_id"),
    faults.SubscriptionInactive("free"): (429, "subscription_inactive"),
    faults.JobQueueFull(10, 7): (429, "queue_full"),
    faults.JobNotFound("0191"): (404, "job_not_found"),
    faults.FileNotFound("a.png"): (404, "file_not_found"),
    faults.FileExists("a.png"): (409, "file_exists"),
    faults.BadFile("It is not a picture."): (400, "invalid_file"),
    faults.FileTooLarge(99): (413, "file_too_large"),
    faults.StorageFull("files", 99): (413, "storage_full"),
    faults.TooManyUploads(10): (429, "too_many_uploads"),
    faults.EngineUnavailable(5): (503, "engine_unavailable"),
}
_OF_THE_JOBS_API: Final = {
    faults.SubmissionRefused, faults.BadLabels, faults.BadFilter, faults.BadCursor, faults.IdempotencyKeyUsed,
    faults.TooManyStreams,
}  # fmt: skip
_STATUSES: Final = {
    "TooManyValues": 413,
    "InvalidInput": 400, "BodyTooLarge": 413, "KeyConflict": 409, "InputRejected": 400, "ContentPolicyViolation": 400,
    "ProviderError": 503, "ProviderTimeout": 503, "InsufficientCredits": 402, "BudgetExceeded": 402,
    "ModelNotFound": 400, "Unauthorized": 401, "Forbidden": 403, "NotEnabled": 403, "ConcurrencyLimitExceeded": 429,
    "CommittedSpendExceeded": 429, "StillRunning": 429, "RateLimited": 429, "ClientDisconnected": 499,
    "InternalError": 500, "DeadlineExceeded": 503, "ServiceUnavailable": 503, "Cancelled": 400, "QueueTimeout": 503,
    "RequestNotFound": 404, "QueueBacklogFull": 429,
}  # fmt: skip


def answer(error: Exception, method: str = "GET") -> tuple[Refusal, dict[str, Any], dict[bytes, bytes]]:
    """Return how an error is worded, its body and its headers."""
    worded = refusal(error, {"method": method})
    return worded, json.loads(worded.content), dict(worded.headers)


def is_well_formed(body: dict[str, Any]) -> None:
    """Assert the shape that editors and plain clients read."""
    assert set(body) == {"error", "node_errors", "code", "message"}
    assert set(body["error"]) == {"type", "message", "details", "extra_info"}
    assert body["error"]["type"] == body["code"]
    assert body["error"]["message"] == body["message"] != ""
    assert body["node_errors"] == {}


@pytest.mark.req("C-14")
@pytest.mark.parametrize("fault", EVERY, ids=name_of)
def test_shared_fault_has_its_specified_status(fault: Fault) -> None:
    """The statuses of the specification, for the faults that jobs share with everything else."""
    worded, body, headers = answer(FaultError(fault))
    is_well_formed(body)
    assert worded.status == _STATUSES[type(fault).__name__]
    assert headers[b"content-type"] == b"application/json"
    assert headers.get(b"retry-after") == {"RateLimited": b"12", "ServiceUnavailable": b"2"}.get(type(fault).__name__)


@pytest.mark.req("C-14")
@pytest.mark.parametrize("fault", _JOB_FAULTS, ids=lambda fault: type(fault).__name__)
def test_fault_of_jobs_has_its_specified_status(fault: JobFault) -> None:
    """The statuses of the specification, for the faults of jobs alone: 429 is an inactive subscription."""
    worded, body, headers = answer(JobFaultError(fault))
    is_well_formed(body)
    assert (worded.status, body["code"]) == _JOB_FAULTS[fault]
    retry_after = getattr(fault, "retry_after", None)
    assert headers.get(b"retry-after") == (None if retry_after is None else str(retry_after).encode())


@pytest.mark.req("C-14")
def test_every_fault_of_jobs_is_tried() -> None:
    """Every kind of fault is in this file."""
    assert {type(fault) for fault in (*_JOB_FAULTS, _INVALID)} | _OF_THE_JOBS_API == set(get_args(JobFault))


@pytest.mark.req("C-04")
def test_invalid_workflow_is_explained_in_the_words_of_its_checker() -> None:
    """An invalid workflow is told in the words of who has checked it, whichever member is read."""
    worded, body, _ = answer(JobFaultError(_INVALID), "POST")
    assert (worded.status, worded.result) == (400, "invalid_workflow")
    told = {"code": _INVALID.error.get("type"), "message": _INVALID.error.get("message")}
    assert body == {"error": _INVALID.error, "node_errors": _INVALID.node_errors, **told}


@pytest.mark.req("C-03")
def test_missing_file_of_a_body_is_400_and_of_an_address_404() -> None:
    """A missing original of a mask is the body's fault; a missing file of an address is not found."""
    assert answer(JobFaultError(faults.FileNotFound("a")), "POST")[0].status == 400
    assert answer(JobFaultError(faults.FileNotFound("a")), "HEAD")[0].status == 404


@pytest.mark.req("C-14")
@pytest.mark.parametrize(
    ("error", "status", "allow"),
    [
        (HTTPException(404), 404, None),
        (HTTPException(405, headers={"Allow": "GET"}), 405, b"GET"),
        (CallerLeftError(), 499, None),
        (ValueError("/home/secret"), 500, None),
    ],
)
def test_exception_is_never_shown(error: Exception, status: int, allow: bytes | None) -> None:
    """What is no fault gets a status, and nothing of what went wrong inside is told."""
    worded, body, headers = answer(error)
    is_well_formed(body)
    assert (worded.status, headers.get(b"allow")) == (status, allow)
    assert "secret" not in worded.content.decode()


def test_fault_label_of_a_metric_is_from_a_closed_list() -> None:
    """What names a fault in metrics is from a closed list, whatever the error of a workflow is called."""
    make: Callable[[str], Exception] = lambda kind: JobFaultError(faults.BadSubmission(kind, "m"))  # noqa: E731 -- short
    assert {refusal(make(kind), {"method": "POST"}).result for kind in ("a", "b")} == {"invalid_submission"}


@pytest.mark.req("C-14", "J-14")
def test_blocked_bytes_are_refused_with_451() -> None:
    """Files are assets, and bytes that are not taken in as these are not taken in here."""
    worded, body, _ = answer(AssetFaultError(ContentBlocked()), "POST")
    is_well_formed(body)
    assert (worded.status, body["code"], worded.result) == (451, "content_blocked", "content_blocked")
