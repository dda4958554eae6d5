"""Bodies of runs; large ones are read in processes of their own (document_readers.py).

The server continues with the outline of a large body (documents/outline.py); the process has checked all of it against
the model's schema.
"""

import secrets
from typing import Final

import msgspec

from fairlead.document_readers import INLINE_BYTES, DocumentReaders, NoReaderError, UnreadableDocumentError
from fairlead.documents.examining import Examined, OfBody
from fairlead.documents.outline import LargeDocument
from fairlead.domain.catalog.body import read_body
from fairlead.domain.catalog.models import Model
from fairlead.domain.faults import FaultError, InvalidInput, ServiceUnavailable, Violation

_BUSY: Final = "Too many large bodies are being read; try again soon."
_UNREADABLE: Final = "The request body cannot be read: it takes too long or too much memory."


class ReadBody(msgspec.Struct, frozen=True):
    """A body that was read; for a `large` one also its violations of the model's schema."""

    value: dict[str, object]
    violations: tuple[Violation, ...] | None = None
    large: LargeDocument | None = None


class LargeBodies:
    """Reads bodies; workspaces share the readers of large ones."""

    def __init__(self, readers: DocumentReaders) -> None:
        self._readers = readers

    async def read(self, workspace_id: str, content: bytes, model: Model | None = None) -> ReadBody:
        """Read the body of a run of a model; FaultError if it is not a strict JSON object, or there is no room for it.

        Without a model it is checked against no schema.
        """
        if len(content) <= INLINE_BYTES:
            return ReadBody(read_body(content))
        schema = None if model is None else model.input_schema
        name = model.name if model is not None and schema is not None and schema.declares_model else None
        asked = OfBody(secrets.token_hex(16), None if schema is None else schema.text, name)
        try:
            found, _ = await self._readers.ask(workspace_id, asked, content, Examined)
        except NoReaderError as error:
            raise FaultError(ServiceUnavailable(_BUSY, 1)) from error
        except UnreadableDocumentError as error:
            raise FaultError(InvalidInput(_UNREADABLE)) from error
        if found.refusal is not None:
            raise FaultError(InvalidInput(found.refusal))
        large = found.document(content, asked.nonce)
        return ReadBody(large.with_texts(read_body(large.outline)), found.violations, large)
