"""One fault of every kind, none of them with its defaults alone."""

from typing import Final

from fairlead.domain import faults
from fairlead.domain.faults import Fault, Upstream, Violation

_TOLD: Final = Upstream(422, "the seed is too large")

EVERY: Final[tuple[Fault, ...]] = (
    faults.InvalidInput("Send an object.", _TOLD),
    faults.BodyTooLarge(1024),
    faults.TooManyValues(20_000),
    faults.KeyConflict("used for another call"),
    faults.InputRejected(
        (
            Violation(("body", "items", 3, "w"), "too small", "greater_than_equal", {"ge": 1}, 0, has_input=True),
            Violation(("body", "prompt"), "Field required", "missing"),
        ),
        _TOLD,
    ),
    faults.ContentPolicyViolation("input_image", Upstream(200)),
    faults.ProviderError("It fell over.", Upstream(500)),
    faults.ProviderTimeout(Upstream(504)),
    faults.InsufficientCredits(5, 10),
    faults.BudgetExceeded(10, "month", 5, 3, 4, resets_at=1_796_014_800_000, time_zone="Europe/Vienna"),
    faults.ModelNotFound("acme/x", ("acme/y", "acme/z"), "2026-01-01", "acme/y", "no such thing"),
    faults.Unauthorized("Send a key."),
    faults.Forbidden("Not this one."),
    faults.NotEnabled("Not yet."),
    faults.ConcurrencyLimitExceeded(4, 4, costly=True),
    faults.CommittedSpendExceeded(100, 90),
    faults.StillRunning(),
    faults.RateLimited("minute", 60, 12),
    faults.ClientDisconnected(),
    faults.InternalError(),
    faults.DeadlineExceeded(3.5),
    faults.ServiceUnavailable("The database is away.", 2),
    faults.Cancelled(),
    faults.QueueTimeout(),
    faults.RequestNotFound(expired=True, detail="It is kept no longer."),
    faults.QueueBacklogFull(50),
)


def name_of(fault: Fault) -> str:
    """Return the name of a fault's kind, for the ids of tests."""
    return type(fault).__name__
