"""The router's error envelope: a fault has the status and the message of its default answer, and its headers here.

An ErrorResponse is `{"detail", "error_type"}` with two optional fields (R-20); a ValidationErrorResponse is a `detail`
array (R-21). Both carry the bucket in a header.
"""

from typing import Final

from fairlead.api.http.asgi import Headers
from fairlead.api.http.faults import default_answer
from fairlead.api.http.headers import (
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
from fairlead.api.router.documents import InputError, InputViolation, RouterError
from fairlead.api.router.generations import Generation
from fairlead.documents.fitting import fit
from fairlead.domain.faults import (
    CommittedSpendExceeded,
    ConcurrencyLimitExceeded,
    ContentPolicyViolation,
    Fault,
    InputRejected,
    InvalidInput,
    Upstream,
    Violation,
    bucket,
)
from fairlead.domain.ledger.money import UNITS_PER_DOLLAR

_UNITS_PER_CENT: Final = UNITS_PER_DOLLAR // 100


def error_response(fault: Fault, generation: Generation, names: HeaderNames) -> tuple[int, Headers, bytes]:
    """Status, headers and body of a fault, for one generation of the API."""
    name = generation.bucket(bucket(fault))
    headers: Headers = [JSON, (names.error_type, name.encode())]
    _, status, detail, retry_after = default_answer(fault)
    if retry_after is not None:
        headers.append((RETRY_AFTER, b"%d" % max(1, retry_after)))
    headers += _extra_headers(fault, names)
    if isinstance(fault, InputRejected):
        return status, headers, fit(InputError(detail=[_violation(found) for found in fault.violations]))
    body: RouterError = {"detail": detail, "error_type": name}
    if isinstance(fault, InvalidInput) and (reason := _shown_reason(fault.upstream)):
        body["upstream_detail"] = reason
    if isinstance(fault, ContentPolicyViolation) and fault.subject:
        body["refusal_subject"] = fault.subject
    return status, headers, fit(body)


def committed_headers(limit: int, committed: int) -> Headers:
    """The cap on committed spend and what is committed under it, in whole US cents (R-23)."""
    cents = limit // _UNITS_PER_CENT, -(-committed // _UNITS_PER_CENT)
    return [
        (COMMITTED_SPEND_LIMIT, b"%d" % cents[0]),
        (COMMITTED_SPEND_CURRENT, b"%d" % cents[1]),
        (COMMITTED_SPEND_REMAINING, b"%d" % max(0, (limit - committed) // _UNITS_PER_CENT)),
    ]


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
        case CommittedSpendExceeded(limit, committed):
            headers += committed_headers(limit, committed)
        case ConcurrencyLimitExceeded(limit, current):
            headers.append((CONCURRENCY_LIMIT, b"%d" % limit))
            headers.append((CONCURRENCY_CURRENT, b"%d" % current))
            headers.append((CONCURRENCY_REMAINING, b"%d" % max(0, limit - current)))
        case _:
            pass
    return headers


def _shown_reason(upstream: Upstream) -> str | None:
    """The partner's reason, under the presence rule of R-20: only where the partner's own status is 2xx or 4xx."""
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
