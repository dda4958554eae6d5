"""Why a partner's model could not be run for a node, with the messages and kinds of errors of jobs (C-12)."""

from collections.abc import Mapping, Sequence
from typing import Final

from fairlead.domain.faults import (
    BodyTooLarge,
    BudgetExceeded,
    Cancelled,
    CommittedSpendExceeded,
    ConcurrencyLimitExceeded,
    ContentPolicyViolation,
    DeadlineExceeded,
    Fault,
    Forbidden,
    InputRejected,
    InsufficientCredits,
    InvalidInput,
    KeyConflict,
    ModelNotFound,
    NotEnabled,
    ProviderError,
    ProviderTimeout,
    QueueBacklogFull,
    QueueTimeout,
    RateLimited,
    RequestNotFound,
    ServiceUnavailable,
    Unauthorized,
    Violation,
)
from fairlead.domain.jobs.errors import INSUFFICIENT_FUNDS, VALIDATION
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.time_zones import reset_text
from fairlead.engine.hosts.service import DeclinedError

CONTENT_POLICY: Final = "ContentPolicyError"
PROVIDER: Final = "ProviderError"
PROVIDER_TIMEOUT: Final = "ProviderTimeoutError"
LIMIT: Final = "LimitExceededError"
UNAVAILABLE: Final = "ServiceUnavailableError"
INTERNAL: Final = "InternalError"
_VIOLATIONS_TOLD: Final = 5
_OURS: Final[Mapping[type, str]] = {
    Cancelled: "The run of the model was cancelled.",
    RequestNotFound: "The result of the model is no longer kept.",
}


_KINDS: Final[Mapping[type, str]] = {
    InsufficientCredits: INSUFFICIENT_FUNDS,
    BudgetExceeded: INSUFFICIENT_FUNDS,
    CommittedSpendExceeded: INSUFFICIENT_FUNDS,
    InputRejected: VALIDATION,
    InvalidInput: VALIDATION,
    KeyConflict: VALIDATION,
    Forbidden: VALIDATION,
    NotEnabled: VALIDATION,
    Unauthorized: VALIDATION,
    BodyTooLarge: VALIDATION,
    ModelNotFound: VALIDATION,
    ContentPolicyViolation: CONTENT_POLICY,
    ProviderError: PROVIDER,
    ProviderTimeout: PROVIDER_TIMEOUT,
    DeadlineExceeded: PROVIDER_TIMEOUT,
    QueueTimeout: PROVIDER_TIMEOUT,
    ConcurrencyLimitExceeded: LIMIT,
    QueueBacklogFull: LIMIT,
    RateLimited: LIMIT,
    ServiceUnavailable: UNAVAILABLE,
}


def decline(fault: Fault) -> DeclinedError:
    """A fault of the router as the error of a node."""
    return DeclinedError(_KINDS.get(type(fault), INTERNAL), _of_money(fault) or _words(fault))


def _of_money(fault: Fault) -> str | None:
    """The message of a fault that is due to a lack of money; None for any other."""
    match fault:
        case InsufficientCredits(available, needed):
            cost = "" if needed is None else f"The model may cost {as_dollars(needed)} US dollars; "
            return f"{cost}the workspace has {as_dollars(available)} US dollars left."
        case BudgetExceeded(limit=limit, needed=needed):
            budget = f"the budget of {fault.owner} is {as_dollars(limit)}"
            again = reset_text(fault.time_zone, fault.resets_at)
            return f"The model may cost {as_dollars(needed)} US dollars; {budget}.{again}"
        case CommittedSpendExceeded(limit=limit):
            return f"Runs in flight may cost {as_dollars(limit)} US dollars in all, and with this one would cost more."
        case _:
            return None


def _words(fault: Fault) -> str:  # noqa: PLR0911, C901 -- one table, a row a fault
    match fault:
        case InputRejected(violations):
            return _violations(violations)
        case InvalidInput(detail) | KeyConflict(detail) | Forbidden(detail) | NotEnabled(detail) | Unauthorized(detail):
            return detail
        case ProviderError(detail) | ServiceUnavailable(detail):
            return detail
        case BodyTooLarge(limit):
            return f"What the model is given is larger than {limit} bytes."
        case ModelNotFound(model_id):
            retired = f"{model_id} was retired on {fault.retired_on}" if fault.retired_on else None
            use = f"; use {fault.successor}." if fault.successor else "."
            return retired + use if retired else fault.detail or f"There is no model {model_id}."
        case ContentPolicyViolation():
            return "The provider refused this request on content-policy grounds."
        case ProviderTimeout() | DeadlineExceeded():
            return "The provider did not answer in time."
        case QueueTimeout():
            return "The run waited in the queue longer than allowed and was never started."
        case ConcurrencyLimitExceeded(limit=limit):
            return f"The workspace has {limit} runs in flight, which is as many as it may have."
        case QueueBacklogFull(limit):
            return f"{limit} requests of the workspace are already waiting."
        case RateLimited(window, limit):
            return f"The quota of {limit} requests per {window} is spent."
        case _:
            return _OURS.get(type(fault), "The router failed.")


def _violations(violations: Sequence[Violation]) -> str:
    told = [f"{'.'.join(map(str, found.loc[1:])) or 'body'}: {found.msg}" for found in violations[:_VIOLATIONS_TOLD]]
    left = len(violations) - len(told)
    return "; ".join(told) + (f"; and {left} more" if left else "")
