"""What a server wants to know of a large body, found out in a process of its own: see `program`."""

import functools
from typing import Any, Final

import msgspec

from fairlead.documents.outline import LargeDocument, Span, UnevenDocumentError, long_spans, outlined
from fairlead.domain.catalog.schema import InputSchema
from fairlead.domain.faults import FaultError, InvalidInput, Violation
from fairlead.domain.runs.body import read_body

_SCHEMAS_MAX: Final = 64
_NUMBER_BITS: Final = 4096
_UNEVEN: Final = "The request body holds more than 4 MiB beside texts of over 4 KiB, or has a name of that length."
_LONG_NUMBER: Final = "The request body holds a number that is too large."


class Examination(msgspec.Struct, frozen=True):
    """What is to be found out: `schema` is the model's in JSON, `name` what the body calls the model if it does not."""

    nonce: str
    schema: bytes | None = None
    name: str | None = None


class Examined(msgspec.Struct, frozen=True):
    """What was found: why the body cannot be read, or its outline, its long texts, and what breaks the schema."""

    refusal: str | None = None
    outline: str = ""
    spans: tuple[Span, ...] = ()
    violations: tuple[Violation, ...] = ()

    def document(self, content: bytes, nonce: str) -> LargeDocument:
        """The document as the server goes on with it."""
        return LargeDocument(content, self.outline.encode(), self.spans, nonce)


def examine(asked: Examination, content: bytes) -> Examined:
    """Read a body strictly, cut its long texts out, and hold it against the schema."""
    try:
        body = read_body(content)
        if _has_long_number(body):
            return Examined(_LONG_NUMBER)
        spans = tuple(Span(start, end, _characters(content[start:end])) for start, end in long_spans(content))
        outline = outlined(content, spans, asked.nonce)
    except FaultError as error:
        fault = error.fault
        return Examined(fault.detail if isinstance(fault, InvalidInput) else str(fault))
    except UnevenDocumentError:
        return Examined(_UNEVEN)
    if asked.name is not None and body.get("model") is None:
        body["model"] = asked.name
    violations = () if asked.schema is None else _schema(asked.schema).violations(body)
    return Examined(None, outline.decode(), spans, violations)


@functools.lru_cache(maxsize=_SCHEMAS_MAX)
def _schema(text: bytes) -> InputSchema:
    return InputSchema(msgspec.json.decode(text))


def _characters(text: bytes) -> int:
    return len(msgspec.json.decode(b'"%b"' % text, type=str))


def _has_long_number(value: Any) -> bool:
    """Whether an integer has over a thousand digits: each would take as long as thousands of others."""
    if isinstance(value, int):
        return value.bit_length() > _NUMBER_BITS
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_has_long_number, values))
