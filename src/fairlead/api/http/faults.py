"""The default answer of all APIs to a fault: one row for each fault, which the type checker enforces.

A row has the kind of the fault, its status, a sentence, and when to try again. The APIs differ in their envelopes and
codes, which go by the kind: a new fault needs a row here and nothing else.
"""

import enum
from typing import Final, NamedTuple, assert_never

from starlette.exceptions import HTTPException

from fairlead.api.http.asgi import CallerLeftError
from fairlead.domain.faults import (
    BodyTooLarge,
    BudgetExceeded,
    Cancelled,
    ClientDisconnected,
    CommittedSpendExceeded,
    ConcurrencyLimitExceeded,
    ContentPolicyViolation,
    DeadlineExceeded,
    Fault,
    FaultError,
    Forbidden,
    InputRejected,
    InsufficientCredits,
    InternalError,
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
    StillRunning,
    TooManyValues,
    Unauthorized,
)
from fairlead.domain.ledger.money import as_dollars
from fairlead.domain.time_zones import reset_text

TIMEOUT_RETRY_SECONDS: Final = 5
RUNNING_RETRY_SECONDS: Final = 2
_BUDGET_PERIODS: Final = {"day": "a day", "week": "a week", "month": "a month", "total": "in all"}


class Kind(enum.Enum):
    """The kinds of faults that APIs without buckets distinguish."""

    INVALID = enum.auto()
    CONFLICT = enum.auto()
    TOO_LARGE = enum.auto()
    UNPAID = enum.auto()
    UNAUTHORIZED = enum.auto()
    FORBIDDEN = enum.auto()
    NOT_FOUND = enum.auto()
    MODEL_REFUSED = enum.auto()
    """A partner's model cannot be run with what it was given."""
    MODEL_FAILED = enum.auto()
    """A partner's model has failed or not answered."""
    BUSY = enum.auto()
    """The workspace has reached a limit of work under way."""
    RATE_LIMITED = enum.auto()
    LEFT = enum.auto()
    """The caller has closed the connection."""
    UNAVAILABLE = enum.auto()
    FAILED = enum.auto()
    """The server has failed."""


class DefaultAnswer(NamedTuple):
    """What is answered to a fault: its kind, a status, a sentence, and in how many seconds to try again."""

    kind: Kind
    status: int
    message: str
    retry_after: int | None = None


def default_answer(fault: Fault) -> DefaultAnswer:  # noqa: PLR0911, PLR0912, C901 -- one total table, a row a fault
    """The row of a fault."""
    match fault:
        case InvalidInput(detail):
            return DefaultAnswer(Kind.INVALID, 400, detail)
        case BodyTooLarge(limit):
            return DefaultAnswer(Kind.TOO_LARGE, 413, f"The request body is larger than {limit} bytes.")
        case TooManyValues(limit):
            return DefaultAnswer(Kind.TOO_LARGE, 413, f"The request body holds more than {limit} values.")
        case KeyConflict(detail):
            return DefaultAnswer(Kind.CONFLICT, 409, detail)
        case InputRejected():
            return DefaultAnswer(Kind.MODEL_REFUSED, 422, "")
        case ContentPolicyViolation():
            message = "The provider refused this request on content-policy grounds."
            return DefaultAnswer(Kind.MODEL_REFUSED, 400, message)
        case ProviderError(detail):
            return DefaultAnswer(Kind.MODEL_FAILED, 502, detail)
        case ProviderTimeout():
            message = "The provider did not answer in time."
            return DefaultAnswer(Kind.MODEL_FAILED, 504, message, TIMEOUT_RETRY_SECONDS)
        case InsufficientCredits() | BudgetExceeded() | CommittedSpendExceeded():
            return _answer_of_money(fault)
        case ModelNotFound():
            return DefaultAnswer(Kind.MODEL_REFUSED, 404, _model_detail(fault))
        case Unauthorized(detail):
            return DefaultAnswer(Kind.UNAUTHORIZED, 401, detail)
        case Forbidden(detail) | NotEnabled(detail):
            return DefaultAnswer(Kind.FORBIDDEN, 403, detail)
        case ConcurrencyLimitExceeded() | StillRunning() | QueueBacklogFull():
            return _answer_of_work(fault)
        case RateLimited(window, limit, retry_after, counted):
            message = f"The quota of {limit} {counted} per {window} is spent."
            return DefaultAnswer(Kind.RATE_LIMITED, 429, message, retry_after)
        case ClientDisconnected():
            return DefaultAnswer(Kind.LEFT, 499, "The caller closed the connection.")
        case InternalError(detail):
            failed = "The router failed. The request id names the failure in its log."
            return DefaultAnswer(Kind.FAILED, 500, detail or failed)
        case DeadlineExceeded(seconds):
            message = f"The run did not end within {seconds:g} seconds. It goes on; nothing was rejected."
            return DefaultAnswer(Kind.MODEL_FAILED, 504, message, TIMEOUT_RETRY_SECONDS)
        case ServiceUnavailable(detail, retry_after):
            return DefaultAnswer(Kind.UNAVAILABLE, 503, detail, retry_after)
        case Cancelled():
            return DefaultAnswer(Kind.MODEL_REFUSED, 409, "The run was cancelled.")
        case QueueTimeout():
            message = "The run waited in the queue longer than allowed and was never started."
            return DefaultAnswer(Kind.MODEL_FAILED, 504, message)
        case RequestNotFound(expired, detail, is_lost):
            kept = "The bytes of the result are missing." if is_lost else "The result is no longer kept."
            return DefaultAnswer(Kind.NOT_FOUND, 410 if expired else 404, kept if expired else detail)
        case _:
            assert_never(fault)


def _answer_of_money(fault: InsufficientCredits | BudgetExceeded | CommittedSpendExceeded) -> DefaultAnswer:
    match fault:
        case InsufficientCredits():
            return DefaultAnswer(Kind.UNPAID, 402, _credits_detail(fault))
        case BudgetExceeded():
            return DefaultAnswer(Kind.UNPAID, 402, _budget_detail(fault))
        case CommittedSpendExceeded():
            return DefaultAnswer(Kind.BUSY, 429, _committed_detail(fault))


def _answer_of_work(fault: ConcurrencyLimitExceeded | StillRunning | QueueBacklogFull) -> DefaultAnswer:
    match fault:
        case ConcurrencyLimitExceeded(limit, current, costly, what):
            kind = f"costly {what}" if costly else what
            message = f"{current} of {limit} {kind} of this workspace are in flight; wait for one to end."
            return DefaultAnswer(Kind.BUSY, 429, message)
        case StillRunning():
            message = "The call this idempotency key was first used for is still running; try again with the same key."
            return DefaultAnswer(Kind.BUSY, 409, message, RUNNING_RETRY_SECONDS)
        case QueueBacklogFull(limit):
            return DefaultAnswer(Kind.BUSY, 429, f"{limit} requests of this workspace are already waiting.")


def fault_of(error: Exception) -> Fault:
    """The fault of an exception that an API has no message of its own for."""
    match error:
        case FaultError():
            return error.fault
        case CallerLeftError():  # nobody is left to answer; the log has it
            return ClientDisconnected()
        case HTTPException():  # Starlette knows no such path
            return RequestNotFound(detail="There is nothing at this path.")
        case _:
            return InternalError()


def _credits_detail(fault: InsufficientCredits) -> str:
    have = as_dollars(fault.available)
    if fault.needed is None:
        return f"The workspace has {have} US dollars left."
    return f"The run may cost {as_dollars(fault.needed)} US dollars; the workspace has {have} left."


def _budget_detail(fault: BudgetExceeded) -> str:
    limit, spent, held = (as_dollars(amount) for amount in (fault.limit, fault.spent, fault.held))
    of_period = _BUDGET_PERIODS.get(fault.period, fault.period)
    return (
        f"The run may cost {as_dollars(fault.needed)} US dollars; the budget of {fault.owner} is {limit} {of_period},"
        f" of which {spent} are spent and {held} held.{reset_text(fault.time_zone, fault.resets_at)}"
    )


def _committed_detail(fault: CommittedSpendExceeded) -> str:
    committed, limit = as_dollars(fault.committed), as_dollars(fault.limit)
    if fault.needed is not None:
        return f"The run may cost {as_dollars(fault.needed)} US dollars; runs in flight may cost {limit} in all."
    return f"Runs in flight may already cost {committed} of {limit} US dollars; wait for one to end."


def _model_detail(fault: ModelNotFound) -> str:
    """The wording of R-05 and R-06: text for display, but people quote it."""
    if fault.detail is not None:
        return fault.detail
    if fault.retired_on is not None:
        use = f"; use {fault.successor}" if fault.successor else ""
        return f"{fault.model_id} was retired on {fault.retired_on}{use}"
    hint = f" Did you mean {', '.join(fault.suggestions)}?" if fault.suggestions else ""
    return f"There is no model {fault.model_id}.{hint}"
