"""Bodies of JSON, which are counted before anything is made of them (S-02)."""

from typing import Final, cast

from starlette.requests import Request

from fairlead.api.http.asgi import Receive, read_whole
from fairlead.document_readers import DocumentReaders, NoReaderError, UnreadableDocumentError
from fairlead.documents.members import BadDocumentError, Members, Wanted
from fairlead.domain.faults import FaultError, ServiceUnavailable

_BUSY: Final = "Too many large documents are being read; try again soon."
SMALL_VALUES: Final = 20_000
"""What a body may hold that no setting speaks of: it is of a kilobyte or two, whatever its limit."""


async def read_small_json(request: Request, limit: int) -> bytes:
    """A body of at most `limit` bytes that can hold but little; FaultError, or CallerLeftError."""
    receive = cast("Receive", request.receive)  # the server's own: Starlette hands it on as it is
    return await read_whole(request.scope, receive, limit, SMALL_VALUES)


async def read_members(readers: DocumentReaders, workspace_id: str, content: bytes, wanted: Wanted) -> Members:
    """Some members of a body, whatever its size; BadDocumentError, or FaultError where too many are being read."""
    try:
        return await readers.members(workspace_id, content, wanted)
    except NoReaderError as error:
        raise FaultError(ServiceUnavailable(_BUSY, 1)) from error
    except UnreadableDocumentError as error:
        raise BadDocumentError("it takes too long or too much memory") from error
