"""Descriptions of headers and errors in the OpenAPI document, shared by all APIs."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class HeaderShown:
    """A header of answers, and the schema of its value."""

    summary: str
    type: Any = str


HEADERS: Final[Mapping[str, HeaderShown]] = MappingProxyType(
    {
        "request_id": HeaderShown("The id of the call; it names the call in the log."),
        "error_type": HeaderShown("The bucket of the error."),
        "upstream_status": HeaderShown("The partner's own status.", int),
        "upstream_detail": HeaderShown("The partner's own reason, as far as it may be shown: a JSON string in ASCII."),
        "refusal_subject": HeaderShown("What the partner has refused: the input or the output."),
        "credits_used": HeaderShown("What the run was charged, in credits."),
        "router_dropped_params": HeaderShown("What the translation left out: a JSON array of strings."),
        "router_fallback_provider": HeaderShown("The provider that served the run in place of another."),
        "idempotent-replayed": HeaderShown("`true` where this answer was given before."),
        "retry-after": HeaderShown("In how many seconds to try again.", int),
        "x-concurrency-limit": HeaderShown("How many runs the workspace may have in flight.", int),
        "x-concurrency-current": HeaderShown("How many it has.", int),
        "x-concurrency-remaining": HeaderShown("How many more it may begin.", int),
        "x-committed-spend-limit": HeaderShown("What runs in flight may cost in all, in US cents.", int),
        "x-committed-spend-current": HeaderShown("What they may cost already.", int),
        "x-committed-spend-remaining": HeaderShown("What more may be begun.", int),
        "etag": HeaderShown("The entity tag."),
        "cache-control": HeaderShown("Who may keep this, and for how long."),
        "content-range": HeaderShown("Which part this is, or how many bytes there are."),
        "content-disposition": HeaderShown("What the file is called, and whether to show it."),
        "accept-ranges": HeaderShown("`bytes`: parts may be asked for."),
        "location": HeaderShown("Where the file is: a link that is its own credential."),
    }
)
"""Every header that is told of. Names with underscores are the service's own, spelled after its brand."""

ERRORS: Final[Mapping[int, str]] = MappingProxyType(
    {
        400: "The request cannot be used; the message says why.",
        401: "There is no credential, or it is not valid.",
        402: "Too little is left to pay with, or a budget is spent.",
        403: "The credential does not allow this.",
        404: "There is no such thing, or it is somebody else's.",
        409: "This goes against what there is already, or what is under way.",
        410: "This was here and is no longer kept.",
        413: "The body, or the file in it, is too large.",
        416: "The part that was asked for begins behind the end.",
        422: "The request can be read and is not right; the message says why.",
        429: "Too much, or too often; try again later.",
        451: "These bytes are not taken in here.",
        500: "The server failed. The request id names the failure in its log.",
        501: "This installation does not do that.",
        502: "The partner failed, or its answer is no result.",
        503: "Something that this needs is away or has no room; try again later.",
        504: "The partner, or the run, took too long.",
    }
)
"""What each status of an error means, whichever API answers it."""
