"""Every response header of the router as it is spelled on the wire: a contract, so each name stands here in full."""

from typing import Final

import pytest

from fairlead.api.http import headers
from fairlead.api.http.headers import HeaderNames

_PREFIXED: Final = {
    "request_id": "X-Service-Request-Id",
    "error_type": "X-Service-Error-Type",
    "upstream_status": "X-Service-Upstream-Status",
    "upstream_detail": "X-Service-Upstream-Detail",
    "refusal_subject": "X-Service-Refusal-Subject",
    "router_dropped_params": "X-Service-Router-Dropped-Params",
    "router_fallback_provider": "X-Service-Router-Fallback-Provider",
    "credits_used": "X-Service-Credits-Used",
}
_PLAIN: Final = {
    "RETRY_AFTER": "Retry-After",
    "IDEMPOTENT_REPLAYED": "Idempotent-Replayed",
    "COMMITTED_SPEND_LIMIT": "X-Committed-Spend-Limit",
    "COMMITTED_SPEND_CURRENT": "X-Committed-Spend-Current",
    "COMMITTED_SPEND_REMAINING": "X-Committed-Spend-Remaining",
    "CONCURRENCY_LIMIT": "X-Concurrency-Limit",
    "CONCURRENCY_CURRENT": "X-Concurrency-Current",
    "CONCURRENCY_REMAINING": "X-Concurrency-Remaining",
    "RESPONSE_COST": "X-Litellm-Response-Cost",
    "LABELS": "X-Fairlead-Labels",
    "CONTENT_TYPE": "Content-Type",
}


def _spell(names: HeaderNames) -> dict[str, bytes]:
    return {name: getattr(names, name) for name in HeaderNames.__slots__ if name != "prefix"}


@pytest.mark.req("R-12", "R-14", "R-19", "R-20", "R-22", "R-28")
def test_service_headers_are_spelled_with_the_prefix() -> None:
    """Each name under the default prefix, in ASGI's lower case, and no name beyond these."""
    assert _spell(HeaderNames()) == {name: text.lower().encode() for name, text in _PREFIXED.items()}


@pytest.mark.req("R-18", "R-23")
def test_standard_headers_have_no_prefix() -> None:
    """Each name that never has a prefix, and no such name beyond these."""
    spelled = {name: value for name, value in vars(headers).items() if name.isupper() and isinstance(value, bytes)}
    assert spelled == {name: text.lower().encode() for name, text in _PLAIN.items()}
    assert headers.NOSNIFF == (b"x-content-type-options", b"nosniff")
    assert headers.TOTAL_TOKENS == (b"x-litellm-total-tokens", b"0")


def test_other_prefix_renames_every_service_header() -> None:
    """Another prefix changes each name of the service and nothing of it but the prefix."""
    renamed = {name: value.replace(b"x-service-", b"acme-") for name, value in _spell(HeaderNames()).items()}
    assert _spell(HeaderNames("Acme-")) == renamed
