"""What callers send to the cloud API: bodies of JSON read within bounds, and values of queries."""

from typing import Final, TypeVar, cast

import msgspec
from starlette.requests import Request

from fairlead.api.http.asgi import Receive, read_small_json, read_whole
from fairlead.domain.faults import FaultError, InvalidInput
from fairlead.domain.jobs.faults import BadSubmission, JobFaultError

BODY_MAX: Final = 2**20
"""The largest body of everything that is not a workflow and no file."""
_DIGITS_MAX: Final = 15
_REASON_MAX: Final = 300
T = TypeVar("T")


async def read_content(request: Request, limit: int = BODY_MAX) -> bytes:
    """A body of at most `limit` bytes; FaultError, or CallerLeftError."""
    receive = cast("Receive", request.receive)  # the server's own: Starlette hands it on as it is
    return await read_whole(request.scope, receive, limit)


async def read_document(request: Request, values: int, limit: int = BODY_MAX) -> bytes:
    """A JSON document of at most `limit` bytes and `values` values, not decoded; FaultError, or CallerLeftError."""
    receive = cast("Receive", request.receive)  # as above
    return await read_whole(request.scope, receive, limit, values)


async def read_fields(request: Request, fields: type[T]) -> T:
    """A small JSON body; an empty one has no fields. JobFaultError, FaultError."""
    return decode(await read_small_json(request, BODY_MAX) or b"{}", fields)


def decode(content: bytes, fields: type[T]) -> T:
    """Read JSON; JobFaultError(BadSubmission), which says where it is wrong and repeats nothing else of it."""
    try:
        return msgspec.json.decode(content, type=fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JobFaultError(BadSubmission("invalid_request", f"The body cannot be used: {reason(error)}.")) from error


def reason(error: Exception) -> str:
    """What is wrong with a JSON document, in words for the sender."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:_REASON_MAX]


def whole_number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """A whole number of the query, within bounds; FaultError(InvalidInput) for anything else."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    if not is_number or not least <= int(text) <= most:
        raise FaultError(InvalidInput(f"{name} must be a whole number from {least} to {most}."))
    return int(text)
