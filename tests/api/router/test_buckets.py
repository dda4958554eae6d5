"""The nineteen buckets as a table: status, words, headers, and how v1 names them (R-19, R-20, R-23, R-24, R-40)."""

import asyncio
import json
from typing import Any, Final, get_args

import pytest

from cases import for_each
from fairlead.api.http.asgi import Message, Scope, answer, begin
from fairlead.api.http.headers import HeaderNames
from fairlead.api.router.errors import error_response
from fairlead.api.router.generations import V1, V2, Generation
from fairlead.domain import faults
from fairlead.domain.faults import Fault, Upstream, Violation

_BUCKETS: Final = {
    "invalid_input",
    "content_policy_violation",
    "provider_error",
    "provider_timeout",
    "insufficient_credits",
    "model_not_found",
    "unauthorized",
    "forbidden",
    "concurrency_limit_exceeded",
    "client_disconnected",
    "internal_error",
    "deadline_exceeded",
    "not_enabled",
    "service_unavailable",
    "rate_limited",
    "cancelled",
    "queue_timeout",
    "request_not_found",
    "queue_backlog_full",
}
_LAST_FOUR: Final = {
    "cancelled": "internal_error",
    "queue_timeout": "internal_error",
    "request_not_found": "model_not_found",
    "queue_backlog_full": "rate_limited",
}
_NONE: Final[dict[str, str]] = {}
_AT_CAPACITY: Final = faults.ServiceUnavailable("full", 7)
_REASON: Final = Upstream(400, "no é")
_TABLE: Final[list[tuple[Fault, int, str, str, dict[str, str]]]] = [
    (faults.InvalidInput("mend it"), 400, "invalid_input", "mend it", _NONE),
    (
        faults.InvalidInput("no", _REASON),
        400,
        "invalid_input",
        "no",
        {"upstream-status": "400", "upstream-detail": r'"no \u00e9"'},
    ),
    (faults.InvalidInput("no", Upstream(500, "secret")), 400, "invalid_input", "no", {"upstream-status": "500"}),
    (faults.InvalidInput("no", Upstream(None, "secret")), 400, "invalid_input", "no", _NONE),
    (faults.BodyTooLarge(9), 413, "invalid_input", "The request body is larger than 9 bytes.", _NONE),
    (faults.TooManyValues(9), 413, "invalid_input", "The request body holds more than 9 values.", _NONE),
    (faults.KeyConflict("used"), 409, "invalid_input", "used", _NONE),
    (
        faults.ContentPolicyViolation("input", Upstream(400, "secret")),
        400,
        "content_policy_violation",
        "The provider refused this request on content-policy grounds.",
        {"upstream-status": "400", "refusal-subject": "input"},
    ),
    (
        faults.ContentPolicyViolation(),
        400,
        "content_policy_violation",
        "The provider refused this request on content-policy grounds.",
        _NONE,
    ),
    (
        faults.ProviderError(upstream=Upstream(500, "secret")),
        502,
        "provider_error",
        "The provider reported a failure of its own.",
        {"upstream-status": "500"},
    ),
    (
        faults.ProviderTimeout(Upstream(504)),
        504,
        "provider_timeout",
        "The provider did not answer in time.",
        {"upstream-status": "504", "retry-after": "5"},
    ),
    (
        faults.InsufficientCredits(150_000_000, 250_000_000),
        402,
        "insufficient_credits",
        "The run may cost 2.5 US dollars; the workspace has 1.5 left.",
        _NONE,
    ),
    (faults.InsufficientCredits(0), 402, "insufficient_credits", "The workspace has 0 US dollars left.", _NONE),
    *(
        (
            faults.BudgetExceeded(200_000_000, period, 100_000_000, 100_000_000, 500_000_000),
            402,
            "insufficient_credits",
            f"The run may cost 5 US dollars; the budget of this API key is 2 {words}, of which 1 are spent and 1 held.",
            _NONE,
        )
        for period, words in (("day", "a day"), ("month", "a month"), ("total", "in all"))
    ),
    (
        faults.BudgetExceeded(
            0, "day", 0, 0, 10**8, "team", "art", resets_at=1_796_014_800_000, time_zone="Europe/Vienna"
        ),
        402,
        "insufficient_credits",
        (
            "The run may cost 1 US dollars; the budget of the team art is 0 a day, of which 0 are spent and 0 held."
            " It begins again on 2026-11-30 06:00 Europe/Vienna."
        ),
        _NONE,
    ),
    (faults.ModelNotFound("a/b"), 404, "model_not_found", "There is no model a/b.", _NONE),
    (
        faults.ModelNotFound("a/b", ("a/c", "a/d")),
        404,
        "model_not_found",
        "There is no model a/b. Did you mean a/c, a/d?",
        _NONE,
    ),
    (
        faults.ModelNotFound("a/b", (), "2026-01-31", "a/c"),
        404,
        "model_not_found",
        "a/b was retired on 2026-01-31; use a/c",
        _NONE,
    ),
    (
        faults.Unauthorized(),
        401,
        "unauthorized",
        "Send an API key in X-API-Key, or a bearer token in Authorization.",
        _NONE,
    ),
    (faults.Forbidden("not you"), 403, "forbidden", "not you", _NONE),
    (faults.NotEnabled("not yet"), 403, "not_enabled", "not yet", _NONE),
    (
        faults.ConcurrencyLimitExceeded(5, 6),
        429,
        "concurrency_limit_exceeded",
        "6 of 5 runs of this workspace are in flight; wait for one to end.",
        {"concurrency-limit": "5", "concurrency-current": "6", "concurrency-remaining": "0"},
    ),
    (
        faults.ConcurrencyLimitExceeded(2, 2, costly=True),
        429,
        "concurrency_limit_exceeded",
        "2 of 2 costly runs of this workspace are in flight; wait for one to end.",
        {"concurrency-limit": "2", "concurrency-current": "2", "concurrency-remaining": "0"},
    ),
    (
        faults.CommittedSpendExceeded(1_000_500_000, 250_000_001),
        429,
        "concurrency_limit_exceeded",
        "Runs in flight may already cost 2.50000001 of 10.005 US dollars; wait for one to end.",
        {"committed-spend-limit": "1000", "committed-spend-current": "251", "committed-spend-remaining": "750"},
    ),
    (
        faults.CommittedSpendExceeded(1_000_000, 500_000, needed=3_000_000),
        429,
        "concurrency_limit_exceeded",
        "The run may cost 0.03 US dollars; runs in flight may cost 0.01 in all.",
        {"committed-spend-limit": "1", "committed-spend-current": "1", "committed-spend-remaining": "0"},
    ),
    (
        faults.CommittedSpendExceeded(1_000_000, 2_000_000),
        429,
        "concurrency_limit_exceeded",
        "Runs in flight may already cost 0.02 of 0.01 US dollars; wait for one to end.",
        {"committed-spend-limit": "1", "committed-spend-current": "2", "committed-spend-remaining": "0"},
    ),
    (
        faults.StillRunning(),
        409,
        "concurrency_limit_exceeded",
        "The call this idempotency key was first used for is still running; try again with the same key.",
        {"retry-after": "2"},
    ),
    (
        faults.RateLimited("minute", 60, 12),
        429,
        "rate_limited",
        "The quota of 60 requests per minute is spent.",
        {"retry-after": "12"},
    ),
    (faults.ClientDisconnected(), 499, "client_disconnected", "The caller closed the connection.", _NONE),
    (
        faults.InternalError(),
        500,
        "internal_error",
        "The router failed. The request id names the failure in its log.",
        _NONE,
    ),
    (
        faults.DeadlineExceeded(0.5),
        504,
        "deadline_exceeded",
        "The run did not end within 0.5 seconds. It goes on; nothing was rejected.",
        {"retry-after": "5"},
    ),
    (faults.ServiceUnavailable("down"), 503, "service_unavailable", "down", _NONE),
    (
        faults.ServiceUnavailable("full", 7, Upstream(429, "secret")),
        503,
        "service_unavailable",
        "full",
        {"upstream-status": "429", "retry-after": "7"},
    ),
    (_AT_CAPACITY, 503, "service_unavailable", "full", {"retry-after": "7"}),
    (faults.ServiceUnavailable("full", 0), 503, "service_unavailable", "full", {"retry-after": "1"}),
    (faults.Cancelled(), 409, "cancelled", "The run was cancelled.", _NONE),
    (
        faults.QueueTimeout(),
        504,
        "queue_timeout",
        "The run waited in the queue longer than allowed and was never started.",
        _NONE,
    ),
    (faults.RequestNotFound(), 404, "request_not_found", "There is no such request.", _NONE),
    (faults.RequestNotFound(expired=True), 410, "request_not_found", "The result is no longer kept.", _NONE),
    (
        faults.QueueBacklogFull(3),
        429,
        "queue_backlog_full",
        "3 requests of this workspace are already waiting.",
        _NONE,
    ),
]


def _answer(fault: Fault, generation: Generation, prefix: str = "X-Service-") -> tuple[int, dict[str, str], Any]:
    names = HeaderNames(prefix)
    scope: Scope = {}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    begin(scope, names.request_id, "the-id")
    asyncio.run(answer(scope, send, *error_response(fault, generation, names)))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    assert int(headers.pop("content-length")) == len(sent[1]["body"])
    return sent[0]["status"], headers, json.loads(sent[1]["body"])


def _names_of(headers: dict[str, str]) -> dict[str, str]:
    """The names of a row as they are on the wire."""
    service = ("upstream", "refusal")
    return {
        name if name == "retry-after" else f"x-service-{name}" if name.startswith(service) else f"x-{name}": value
        for name, value in headers.items()
    }


@pytest.mark.req("R-19", "R-20", "R-22", "R-24", "R-39")
@for_each(("fault", "status", "name", "detail", "more"), _TABLE)
def test_each_fault_has_its_answer(fault: Fault, status: int, name: str, detail: str, more: dict[str, str]) -> None:
    """Each fault has its status, its bucket twice, its words, and exactly the headers that belong to it."""
    answered, headers, body = _answer(fault, V2)
    assert (answered, body["detail"], body["error_type"]) == (status, detail, name)
    fixed = {"content-type": "application/json", "x-service-request-id": "the-id", "x-service-error-type": name}
    assert headers == fixed | _names_of(more)


@pytest.mark.req("R-20")
@pytest.mark.parametrize(("fault", "more"), [
    (faults.InvalidInput("no", _REASON), {"upstream_detail": "no é"}),
    (faults.InvalidInput("no", Upstream(200, "why")), {"upstream_detail": "why"}),
    (faults.InvalidInput("no", Upstream(302, "secret")), {}),
    (faults.InvalidInput("no", Upstream(500, "secret")), {}),
    (faults.ProviderError(upstream=Upstream(400, "secret")), {}),
    (faults.ContentPolicyViolation("output_image", Upstream(400, "secret")), {"refusal_subject": "output_image"}),
    (faults.ContentPolicyViolation(None, Upstream(400, "secret")), {}),
    (faults.Forbidden("no"), {}),
])  # fmt: skip
def test_optional_fields_follow_their_presence_rules(fault: Fault, more: dict[str, str]) -> None:
    """Reason and subject follow their presence rules, and the body has no further field."""
    body = _answer(fault, V2)[2]
    assert {name: body[name] for name in body if name not in ("detail", "error_type")} == more


@pytest.mark.req("R-21")
def test_validation_error_has_no_bucket_in_its_body() -> None:
    """A validation error has only its entries; `ctx` and `input` are absent where there is nothing to say."""
    rejected = faults.InputRejected(
        (
            Violation(("body", 0, "a"), "no", "kind", {"le": 1}, None, has_input=True),
            Violation(("body",), "no", "kind"),
        ),
        Upstream(422),
    )
    status, headers, body = _answer(rejected, V2)
    assert (status, headers["x-service-error-type"], headers["x-service-upstream-status"]) == (
        422,
        "invalid_input",
        "422",
    )
    assert body == {
        "detail": [
            {"loc": ["body", 0, "a"], "msg": "no", "type": "kind", "ctx": {"le": 1}, "input": None},
            {"loc": ["body"], "msg": "no", "type": "kind"},
        ]
    }


@pytest.mark.req("R-19")
def test_every_bucket_is_tried() -> None:
    """There are nineteen, each fault has one, and the table above knows every fault."""
    names = {faults.bucket(fault) for fault, *_ in _TABLE}
    assert names == _BUCKETS
    assert len(_BUCKETS) == 19
    known = {type(fault) for fault, *_ in _TABLE} | {faults.InputRejected}
    assert known == set(get_args(faults.Fault))


@pytest.mark.req("R-19")
@for_each(("fault", "status", "name", "detail", "more"), _TABLE)
def test_v1_folds_the_buckets_it_does_not_know(
    fault: Fault, status: int, name: str, detail: str, more: dict[str, str]
) -> None:
    """v1 folds the last four buckets into its fifteen, in body and header alike, and changes nothing else."""
    answered, headers, body = _answer(fault, V1)
    folded = _LAST_FOUR.get(name, name)
    assert folded in _BUCKETS - set(_LAST_FOUR)
    assert (answered, body["detail"], body["error_type"], headers["x-service-error-type"]) == (
        status,
        detail,
        folded,
        folded,
    )
    assert _names_of(more).items() <= headers.items()


@pytest.mark.req("R-19")
def test_other_prefix_changes_the_services_headers_alone() -> None:
    """The prefix is of the service's own headers only."""
    headers = _answer(faults.ConcurrencyLimitExceeded(1, 1), V2, "X-Brand-")[1]
    assert set(headers) == {
        "content-type",
        "x-brand-request-id",
        "x-brand-error-type",
        "x-concurrency-limit",
        "x-concurrency-current",
        "x-concurrency-remaining",
    }
