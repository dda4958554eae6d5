"""The router's error envelope: every fault gets its status, its words and its headers here, and nowhere else.

An ErrorResponse is `{"detail", "error_type"}` with two optional fields (R-20); a ValidationErrorResponse is a `detail`
array (R-21). Both carry the bucket and the request id in headers.
"""

from typing import Final, assert_never

from fairlead.documents.fitting import fitted
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
    Upstream,
    Violation,
    bucket,
)
from fairlead.domain.money import UNITS_PER_DOLLAR, as_dollars
from fairlead.surfaces.asgi import Headers
from fairlead.surfaces.router.documents import InputError, InputViolation, RouterError
from fairlead.surfaces.router.generations import Generation
from fairlead.surfaces.router.headers import (
    COMMITTED_SPEND_CURRENT,
    COMMITTED_SPEND_LIMIT,
    COMMITTED_SPEND_REMAINING,
    CONCURRENCY_CURRENT,
    CONCURRENCY_LIMIT,
    CONCURRENCY_REMAINING,
    JSON,
    RETRY_AFTER,
    HeaderNames,
    header_text,
)
from fairlead.surfaces.surface import too_much

TIMEOUT_RETRY_SECONDS: Final = 5
RUNNING_RETRY_SECONDS: Final = 2
_UNITS_PER_CENT: Final = UNITS_PER_DOLLAR // 100
_BUDGET_PERIODS: Final = {"day": "a day", "month": "a month", "total": "in all"}


def error_response(
    fault: Fault, request_id: str, generation: Generation, names: HeaderNames
) -> tuple[int, Headers, bytes]:
    """Status, headers and body of a fault, for one generation of the API."""
    name = generation.bucket(bucket(fault))
    headers: Headers = [JSON, (names.request_id, request_id.encode()), (names.error_type, name.encode())]
    headers += _extra_headers(fault, names)
    status, detail = _status_and_detail(fault)
    if isinstance(fault, InputRejected):
        return status, headers, fitted(InputError(detail=[_violation(found) for found in fault.violations]))
    body: RouterError = {"detail": detail, "error_type": name}
    if isinstance(fault, InvalidInput) and (reason := _shown_reason(fault.upstream)):
        body["upstream_detail"] = reason
    if isinstance(fault, ContentPolicyViolation) and fault.subject:
        body["refusal_subject"] = fault.subject
    return status, headers, fitted(body)


def _status_and_detail(fault: Fault) -> tuple[int, str]:  # noqa: PLR0911, PLR0912, C901 -- one total table, a row a fault
    match fault:
        case InvalidInput(detail):
            return 400, detail
        case BodyTooLarge() | TooManyValues():
            return 413, too_much(fault)
        case KeyConflict(detail):
            return 409, detail
        case InputRejected():
            return 422, ""
        case ContentPolicyViolation():
            return 400, "The provider refused this request on content-policy grounds."
        case ProviderError(detail):
            return 502, detail
        case ProviderTimeout():
            return 504, "The provider did not answer in time."
        case InsufficientCredits():
            return 402, _credits_detail(fault)
        case BudgetExceeded():
            return 402, _budget_detail(fault)
        case ModelNotFound():
            return 404, _model_detail(fault)
        case Unauthorized(detail):
            return 401, detail
        case Forbidden(detail) | NotEnabled(detail):
            return 403, detail
        case ConcurrencyLimitExceeded(limit, current, costly, what):
            kind = f"costly {what}" if costly else what
            return 429, f"{current} of {limit} {kind} of this workspace are in flight; wait for one to end."
        case CommittedSpendExceeded():
            return 429, _committed_detail(fault)
        case StillRunning():
            return (
                409,
                "The call this idempotency key was first used for is still running; try again with the same key.",
            )
        case RateLimited(window, limit):
            return 429, f"The quota of {limit} requests per {window} is spent."
        case ClientDisconnected():
            return 499, "The caller closed the connection."
        case InternalError(detail):
            return 500, detail or "The router failed. The request id names the failure in its log."
        case DeadlineExceeded(seconds):
            return 504, f"The run did not end within {seconds:g} seconds. It goes on; nothing was rejected."
        case ServiceUnavailable(detail):
            return 503, detail
        case Cancelled():
            return 409, "The run was cancelled."
        case QueueTimeout():
            return 504, "The run waited in the queue longer than allowed and was never started."
        case RequestNotFound(expired, detail):
            return (410, "The result is no longer kept.") if expired else (404, detail)
        case QueueBacklogFull(limit):
            return 429, f"{limit} requests of this workspace are already waiting."
        case _:
            assert_never(fault)


def _credits_detail(fault: InsufficientCredits) -> str:
    have = as_dollars(fault.available)
    if fault.needed is None:
        return f"The workspace has {have} US dollars left."
    return f"The run may cost {as_dollars(fault.needed)} US dollars; the workspace has {have} left."


def _budget_detail(fault: BudgetExceeded) -> str:
    limit, spent, held = (as_dollars(amount) for amount in (fault.limit, fault.spent, fault.held))
    of_period = _BUDGET_PERIODS.get(fault.period, fault.period)
    return (
        f"The run may cost {as_dollars(fault.needed)} US dollars; the budget of this API key is {limit} {of_period},"
        f" of which {spent} are spent and {held} held."
    )


def _committed_detail(fault: CommittedSpendExceeded) -> str:
    committed, limit = as_dollars(fault.committed), as_dollars(fault.limit)
    if fault.needed is not None:
        return f"The run may cost {as_dollars(fault.needed)} US dollars; runs in flight may cost {limit} in all."
    return f"Runs in flight may already cost {committed} of {limit} US dollars; wait for one to end."


def committed_headers(limit: int, committed: int) -> Headers:
    """The cap on committed spend and what is committed under it, in whole US cents (R-23)."""
    cents = limit // _UNITS_PER_CENT, -(-committed // _UNITS_PER_CENT)
    return [
        (COMMITTED_SPEND_LIMIT, b"%d" % cents[0]),
        (COMMITTED_SPEND_CURRENT, b"%d" % cents[1]),
        (COMMITTED_SPEND_REMAINING, b"%d" % max(0, (limit - committed) // _UNITS_PER_CENT)),
    ]


def _model_detail(fault: ModelNotFound) -> str:
    """The wording of R-05 and R-06; display text, but quoted by people."""
    if fault.detail is not None:
        return fault.detail
    if fault.retired_on is not None:
        use = f"; use {fault.successor}" if fault.successor else ""
        return f"{fault.model_id} was retired on {fault.retired_on}{use}"
    hint = f" Did you mean {', '.join(fault.suggestions)}?" if fault.suggestions else ""
    return f"There is no model {fault.model_id}.{hint}"


def _extra_headers(fault: Fault, names: HeaderNames) -> Headers:
    headers: Headers = []
    upstream = getattr(fault, "upstream", None)
    if isinstance(upstream, Upstream) and upstream.status is not None:
        headers.append((names.upstream_status, b"%d" % upstream.status))
    match fault:
        case InvalidInput() if reason := _shown_reason(fault.upstream):
            headers.append((names.upstream_detail, header_text(reason)))
        case ContentPolicyViolation(subject) if subject:
            headers.append((names.refusal_subject, subject.encode()))
        case ProviderTimeout() | DeadlineExceeded():
            headers.append((RETRY_AFTER, b"%d" % TIMEOUT_RETRY_SECONDS))
        case ServiceUnavailable(retry_after=int(seconds)) | RateLimited(retry_after=seconds):
            headers.append((RETRY_AFTER, b"%d" % max(1, seconds)))
        case CommittedSpendExceeded(limit, committed):
            headers += committed_headers(limit, committed)
        case StillRunning():
            headers.append((RETRY_AFTER, b"%d" % RUNNING_RETRY_SECONDS))
        case ConcurrencyLimitExceeded(limit, current):
            headers.append((CONCURRENCY_LIMIT, b"%d" % limit))
            headers.append((CONCURRENCY_CURRENT, b"%d" % current))
            headers.append((CONCURRENCY_REMAINING, b"%d" % max(0, limit - current)))
        case _:
            pass
    return headers


def _shown_reason(upstream: Upstream) -> str | None:
    """The partner's reason under the presence rule of R-20: only with a status of its own that is 2xx or 4xx."""
    if upstream.status is None or upstream.status // 100 not in (2, 4):
        return None
    return upstream.detail


def _violation(found: Violation) -> InputViolation:
    entry: InputViolation = {"loc": list(found.loc), "msg": found.msg, "type": found.type}
    if found.ctx is not None:
        entry["ctx"] = found.ctx
    if found.has_input:
        entry["input"] = found.input
    return entry
