"""Every fault has one status, one code and one envelope in the jobs API (J-07)."""

import json
from collections.abc import Sequence
from typing import Any, Final, get_args

import pytest
from starlette.exceptions import HTTPException

from domain.every_fault import EVERY, name_of
from fairlead.api.http.api import Refusal
from fairlead.api.http.asgi import CallerLeftError
from fairlead.api.jobs.errors import NoLabelsError, NoListError, SsoRequiredError, refusal
from fairlead.domain.assets import faults as asset_faults
from fairlead.domain.faults import Fault, FaultError
from fairlead.domain.jobs import faults
from fairlead.domain.jobs.faults import JobFault, JobFaultError

_JOB_FAULTS: Final[Sequence[tuple[JobFault, int, str]]] = (
    (faults.InvalidWorkflow({}, {}), 422, "invalid_workflow"),
    (faults.SubmissionRefused("missing_asset", "m", {"node_errors": {}}), 422, "missing_asset"),
    (faults.BadSubmission("workflow_format_ui", "m"), 422, "workflow_format_ui"),
    (faults.BadSubmission("partner_key_missing", "m"), 422, "invalid_request"),
    (faults.BadLabels("m", "k"), 422, "metadata_invalid"),
    (faults.IdempotencyKeyUsed(), 422, "idempotency_key_reuse"),
    (faults.BadFilter("m"), 400, "invalid_metadata_filter"),
    (faults.BadCursor(), 400, "invalid_cursor"),
    (faults.TooManyStreams(8, 5), 429, "too_many_streams"),
    (faults.DuplicateJob("0191"), 500, "upstream_error"),
    (faults.SubscriptionInactive("free"), 403, "forbidden"),
    (faults.JobQueueFull(10, 7), 429, "queue_full"),
    (faults.JobNotFound("0191"), 404, "not_found"),
    (faults.FileNotFound("a.png"), 422, "missing_asset"),
    (faults.FileExists("a.png"), 422, "missing_asset"),
    (faults.BadFile("It is not a picture."), 422, "invalid_request"),
    (faults.FileTooLarge(99), 413, "invalid_request"),
    (faults.StorageFull("bytes", 99), 413, "invalid_request"),
    (faults.TooManyUploads(10), 429, "rate_limited"),
    (faults.EngineUnavailable(5), 500, "upstream_error"),
)
_OTHERS: Final = {
    "InvalidInput": (422, "invalid_request"), "BodyTooLarge": (413, "invalid_request"),
    "TooManyValues": (413, "invalid_request"),
    "KeyConflict": (422, "invalid_request"), "InputRejected": (422, "invalid_request"),
    "ContentPolicyViolation": (422, "invalid_request"), "ModelNotFound": (422, "invalid_request"),
    "Cancelled": (422, "invalid_request"), "Unauthorized": (401, "unauthorized"),
    "InsufficientCredits": (402, "insufficient_credits"), "BudgetExceeded": (402, "insufficient_credits"),
    "Forbidden": (403, "forbidden"), "NotEnabled": (403, "forbidden"), "RequestNotFound": (404, "not_found"),
    "RateLimited": (429, "rate_limited"), "ConcurrencyLimitExceeded": (429, "too_many_streams"),
    "CommittedSpendExceeded": (429, "queue_full"), "StillRunning": (429, "queue_full"),
    "QueueBacklogFull": (429, "queue_full"), "ClientDisconnected": (499, "client_disconnected"),
}  # fmt: skip


def answer(error: Exception) -> tuple[Refusal, dict[str, Any], dict[bytes, bytes]]:
    """Return how an error is worded, its body and its headers, which must be whole."""
    worded = refusal(error, {"method": "GET"})
    headers, error_ = dict(worded.headers), json.loads(worded.content)["error"]
    assert set(json.loads(worded.content)) == {"error"}
    more = {"organization_id"} if error_["code"] == "sso_required" else {"details"}
    assert {"code", "message"} <= set(error_) <= {"code", "message", *more}
    assert error_["message"]
    assert (b"retry-after" in headers) == (worded.status == 429)
    assert error_["code"] == worded.result
    return worded, error_, headers


@pytest.mark.req("J-07", "J-11")
@pytest.mark.parametrize("fault", EVERY, ids=name_of)
def test_shared_fault_has_its_specified_status(fault: Fault) -> None:
    """The statuses of the specification; what fails behind this service is told in one safe sentence."""
    worded, error, _ = answer(FaultError(fault))
    assert (worded.status, error["code"]) == _OTHERS.get(type(fault).__name__, (500, "upstream_error"))
    if worded.status == 500:
        assert error["message"] == "Something that this service needs has failed. Try again later."


@pytest.mark.req("J-07", "J-10")
@pytest.mark.parametrize(
    ("error", "status", "code"),
    [(NoListError(), 501, "not_implemented"), (NoLabelsError(), 422, "metadata_not_supported")],
)
def test_missing_feature_of_a_surface_has_its_own_status(error: Exception, status: int, code: str) -> None:
    """What another surface would do is no fault of the caller's, and none of ours."""
    worded, told, _ = answer(error)
    assert (worded.status, told["code"]) == (status, code)


@pytest.mark.req("J-07", "J-09", "J-11")
def test_organization_is_told_when_it_is_known() -> None:
    """Who must sign in elsewhere is told where, when that is known; nothing stands in its place when it is not."""
    worded, told, _ = answer(SsoRequiredError("org_7"))
    assert (worded.status, told["code"], told["organization_id"]) == (403, "sso_required", "org_7")
    worded, told, _ = answer(SsoRequiredError(None))
    assert (worded.status, "organization_id" in told) == (403, False)


@pytest.mark.req("J-14", "J-07")
@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (asset_faults.AssetNotFound(), 404, "not_found"),
        (asset_faults.BlobNotFound(), 404, "blob_not_found"),
        (asset_faults.HashMismatch("00"), 409, "hash_mismatch"),
        (asset_faults.ContentBlocked(), 451, "content_blocked"),
        (asset_faults.AssetInUse(), 409, "asset_in_use"),
    ],
)
def test_fault_of_assets_has_its_own_status(fault: asset_faults.AssetFault, status: int, code: str) -> None:
    """The statuses of the specification, for the faults of assets alone."""
    worded, error, _ = answer(asset_faults.AssetFaultError(fault))
    assert (worded.status, error["code"]) == (status, code)


@pytest.mark.req("J-07")
@pytest.mark.parametrize(("fault", "status", "code"), _JOB_FAULTS)
def test_fault_of_jobs_has_its_specified_status(fault: JobFault, status: int, code: str) -> None:
    """The statuses of the specification, for the faults of jobs alone."""
    worded, error, headers = answer(JobFaultError(fault))
    assert (worded.status, error["code"]) == (status, code)
    if worded.status == 429:
        assert headers[b"retry-after"] == str(getattr(fault, "retry_after", None)).encode()


def test_every_fault_of_jobs_is_tried() -> None:
    """Every kind of fault is in this file."""
    assert {type(fault) for fault, _, _ in _JOB_FAULTS} == set(get_args(JobFault))


@pytest.mark.req("J-07", "J-08", "J-12")
def test_details_of_a_refusal_are_kept() -> None:
    """What programs read of a refusal is in its details."""
    refused = faults.SubmissionRefused("invalid_workflow", "m", {"node_errors": {"1": {}}})
    assert answer(JobFaultError(refused))[1]["details"] == {"node_errors": {"1": {}}}
    assert answer(JobFaultError(faults.BadLabels("m", "k")))[1]["details"] == {"key": "k"}
    assert "details" not in answer(JobFaultError(faults.BadLabels("m")))[1]


@pytest.mark.req("J-11")
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
    worded, _, headers = answer(error)
    assert (worded.status, headers.get(b"allow")) == (status, allow)
    assert "secret" not in worded.content.decode()
