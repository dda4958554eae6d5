"""The router's response headers, spelled once, and the header with labels, which calls have.

Those of the service carry its prefix (decisions: names on the wire).
"""

import json
from dataclasses import dataclass, field, fields
from typing import Final
from urllib.parse import unquote

from fairlead.domain.brand import Brand
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.jobs.listing import fault_of_labels
from fairlead.domain.runs.entries import LABELS_MAX


@dataclass(frozen=True, slots=True)
class HeaderNames:
    """The header names under one prefix, in ASGI's form: lower-case bytes."""

    prefix: str = Brand().header_prefix
    request_id: bytes = field(init=False)
    error_type: bytes = field(init=False)
    upstream_status: bytes = field(init=False)
    upstream_detail: bytes = field(init=False)
    refusal_subject: bytes = field(init=False)
    credits_used: bytes = field(init=False)
    router_dropped_params: bytes = field(init=False)
    router_fallback_provider: bytes = field(init=False)

    def __post_init__(self) -> None:
        for name in (header.name for header in fields(self) if not header.init):
            spelled = self.prefix + name.replace("_", "-")
            object.__setattr__(self, name, spelled.lower().encode("ascii"))


# These have standard names, and never carry a prefix.
RETRY_AFTER: Final = b"retry-after"
IDEMPOTENT_REPLAYED: Final = b"idempotent-replayed"
COMMITTED_SPEND_LIMIT: Final = b"x-committed-spend-limit"
COMMITTED_SPEND_CURRENT: Final = b"x-committed-spend-current"
COMMITTED_SPEND_REMAINING: Final = b"x-committed-spend-remaining"
CONCURRENCY_LIMIT: Final = b"x-concurrency-limit"
CONCURRENCY_CURRENT: Final = b"x-concurrency-current"
CONCURRENCY_REMAINING: Final = b"x-concurrency-remaining"
RESPONSE_COST: Final = b"x-litellm-response-cost"
"""Where LLM gateways of a widely used kind look for what a call cost, in dollars."""
TOTAL_TOKENS: Final = (b"x-litellm-total-tokens", b"0")
"""Likewise its tokens: media have none, and without it they would be guessed."""
CONTENT_TYPE: Final = b"content-type"
REPLAYED: Final = (IDEMPOTENT_REPLAYED, b"true")
NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
"""The web server sends it with every answer."""
HTTPS_ONLY: Final = (b"strict-transport-security", b"max-age=31536000")
"""Likewise, where callers come by https alone."""
JSON: Final = (CONTENT_TYPE, b"application/json")
LABELS: Final = b"x-fairlead-labels"
LABELS_NAME: Final = "X-Fairlead-Labels"
_LABELS_BYTES_MAX: Final = 4096
SCHEMA_CACHING: Final = "private, max-age=300, must-revalidate"


def header_text(text: str) -> bytes:
    """Text as a header takes it without a loss: as it is where it is printable ASCII, else a JSON string in ASCII."""
    return (text if text.isascii() and text.isprintable() else json.dumps(text)).encode("ascii")


def read_labels(value: bytes) -> dict[str, str]:
    """Read labels such as `client=acme,project=spring`; FaultError(InvalidInput).

    Values are percent-encoded where they have commas, percent signs or characters beyond ASCII.
    """
    if len(value) > _LABELS_BYTES_MAX:
        raise FaultError(InvalidInput(f"{LABELS_NAME} may have {_LABELS_BYTES_MAX} characters."))
    parts = [part.strip() for part in value.decode("latin-1").split(",") if part.strip()]
    pairs = [part.partition("=")[::2] for part in parts]
    labels = {name.strip(): unquote(text.strip(), errors="replace") for name, text in pairs}
    if not all("=" in part for part in parts) or len(labels) < len(parts) or len(parts) > LABELS_MAX:
        raise FaultError(InvalidInput(f"{LABELS_NAME} has up to {LABELS_MAX} different pairs such as client=acme."))
    if (fault := fault_of_labels(labels)) is not None:
        raise FaultError(InvalidInput(f"{LABELS_NAME}: {fault.detail}"))
    return labels
