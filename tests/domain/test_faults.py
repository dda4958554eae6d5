"""Each fault has its bucket, and the buckets are those of the specification."""

import typing

import pytest

from fairlead.domain import faults
from fairlead.domain.faults import Fault, FaultError, bucket

MADE: dict[str, Fault] = {
    "invalid_input": faults.InvalidInput("x"),
    "content_policy_violation": faults.ContentPolicyViolation(),
    "provider_error": faults.ProviderError(),
    "provider_timeout": faults.ProviderTimeout(),
    "insufficient_credits": faults.InsufficientCredits(0),
    "model_not_found": faults.ModelNotFound("a/b"),
    "unauthorized": faults.Unauthorized(),
    "forbidden": faults.Forbidden("x"),
    "not_enabled": faults.NotEnabled("x"),
    "concurrency_limit_exceeded": faults.ConcurrencyLimitExceeded(1, 1),
    "rate_limited": faults.RateLimited("minute", 1, 1),
    "client_disconnected": faults.ClientDisconnected(),
    "internal_error": faults.InternalError(),
    "deadline_exceeded": faults.DeadlineExceeded(1.0),
    "service_unavailable": faults.ServiceUnavailable("x"),
    "cancelled": faults.Cancelled(),
    "queue_timeout": faults.QueueTimeout(),
    "request_not_found": faults.RequestNotFound(),
    "queue_backlog_full": faults.QueueBacklogFull(1),
}
ALSO_INVALID: tuple[Fault, ...] = (
    faults.BodyTooLarge(1),
    faults.TooManyValues(1),
    faults.KeyConflict("x"),
    faults.InputRejected(()),
)
ALSO_UNPAID: tuple[Fault, ...] = (faults.BudgetExceeded(10, "month", 5, 3, 4),)
ALSO_BUSY: tuple[Fault, ...] = (faults.CommittedSpendExceeded(1, 1), faults.StillRunning())


@pytest.mark.req("R-19")
@pytest.mark.parametrize("name", MADE)
def test_each_fault_falls_into_its_bucket(name: str) -> None:
    """The nineteen buckets, spelled as on the wire."""
    assert bucket(MADE[name]) == name


@pytest.mark.req("R-19", "R-26")
@pytest.mark.parametrize("fault", ALSO_INVALID, ids=lambda fault: type(fault).__name__)
def test_faults_that_share_invalid_input_stay_apart(fault: Fault) -> None:
    """Some faults share a bucket and differ in their answer."""
    assert bucket(fault) == "invalid_input"


@pytest.mark.req("R-19")
@pytest.mark.parametrize("fault", ALSO_UNPAID, ids=lambda fault: type(fault).__name__)
def test_call_that_cannot_be_paid_is_insufficient_credits(fault: Fault) -> None:
    """Anyone who has no money left for a call, the workspace or its key, is told the same bucket."""
    assert bucket(fault) == "insufficient_credits"


@pytest.mark.req("R-18", "R-19", "R-23")
@pytest.mark.parametrize("fault", ALSO_BUSY, ids=lambda fault: type(fault).__name__)
def test_call_that_must_wait_for_a_run_is_a_concurrency_limit(fault: Fault) -> None:
    """What clears when a run ends shares the bucket of the slots."""
    assert bucket(fault) == "concurrency_limit_exceeded"


@pytest.mark.req("R-19")
def test_every_kind_of_fault_has_a_bucket() -> None:
    """Every kind of fault is tried here, and there are nineteen buckets."""
    tried = {type(fault) for fault in (*MADE.values(), *ALSO_INVALID, *ALSO_UNPAID, *ALSO_BUSY)}
    assert tried == set(typing.get_args(Fault))
    assert len(MADE) == 19


@pytest.mark.req("R-24")
def test_our_deadline_and_the_partners_timeout_have_different_buckets() -> None:
    """Our deadline and the partner's are told apart."""
    assert bucket(faults.DeadlineExceeded(1.0)) != bucket(faults.ProviderTimeout())


def test_fault_error_carries_its_fault() -> None:
    """The error carries the fault as it is, and its text is for logs."""
    fault = faults.RateLimited("minute", 5, 9)
    assert FaultError(fault).fault is fault
    assert "minute" in str(FaultError(fault))
