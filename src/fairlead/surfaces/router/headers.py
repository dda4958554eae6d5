"""The router's response headers, spelled once. Those of the service carry its prefix (decisions: names on the wire)."""

from dataclasses import dataclass, field
from typing import Final

DEFAULT_PREFIX: Final = "X-Service-"


@dataclass(frozen=True, slots=True)
class HeaderNames:
    """The header names under one prefix, in ASGI's form: lower-case bytes."""

    prefix: str = DEFAULT_PREFIX
    request_id: bytes = field(init=False)
    error_type: bytes = field(init=False)
    upstream_status: bytes = field(init=False)
    upstream_detail: bytes = field(init=False)
    refusal_subject: bytes = field(init=False)
    credits_used: bytes = field(init=False)

    def __post_init__(self) -> None:
        for name in (
            "request_id",
            "error_type",
            "upstream_status",
            "upstream_detail",
            "refusal_subject",
            "credits_used",
        ):
            spelled = self.prefix + name.replace("_", "-")
            object.__setattr__(self, name, spelled.lower().encode("ascii"))


RETRY_AFTER: Final = b"retry-after"
CONCURRENCY_LIMIT: Final = b"x-concurrency-limit"
CONCURRENCY_CURRENT: Final = b"x-concurrency-current"
CONCURRENCY_REMAINING: Final = b"x-concurrency-remaining"
CONTENT_TYPE: Final = b"content-type"
NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
JSON: Final = (CONTENT_TYPE, b"application/json")
SCHEMA_CACHING: Final = "private, max-age=300, must-revalidate"


def header_text(text: str) -> bytes:
    """Text made fit for a header: printable ASCII, everything else as `?`."""
    return "".join(char if char.isprintable() else " " for char in text).encode("ascii", "replace")
