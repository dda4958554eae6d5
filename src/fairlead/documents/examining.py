"""What a server wants to know of a large document, found out in a process of its own: see `program`."""

import functools
from collections.abc import Sequence
from typing import Final, TypeAlias

import jiter
import msgspec

from fairlead.documents.members import BadDocumentError, Wanted, members_of
from fairlead.documents.outline import (
    LONG_BYTES,
    LargeDocument,
    Span,
    UnevenDocumentError,
    long_spans,
    write_outline,
)
from fairlead.documents.redaction import Redactor
from fairlead.documents.values import has_more_values
from fairlead.domain.catalog.body import read_body
from fairlead.domain.catalog.schema import InputSchema
from fairlead.domain.faults import FaultError, InvalidInput, Violation

_SCHEMAS_MAX: Final = 64
_NUMBER_BITS: Final = 4096
_SHORTER_BYTES: Final = 512
_SPANS_MAX: Final = 20_000
_UNEVEN: Final = "The request body holds more than 4 MiB beside texts of over 4 KiB, or has a name of that length."
_LONG_NUMBER: Final = "The request body holds a number that is too large."


class OfBody(msgspec.Struct, frozen=True, tag=True):
    """Read the body of a run, and find what is wrong with it.

    `schema` is the model's in JSON, `name` the model's name, which the body gets where it has none.
    """

    nonce: str
    schema: bytes | None = None
    name: str | None = None


class OfAnswer(msgspec.Struct, frozen=True, tag=True):
    """Read a partner's answer without some secrets; JSON with more than `values_max` values is not read."""

    nonce: str
    is_json: bool = True
    secrets: tuple[bytes, ...] = ()
    values_max: int | None = None


class OfSubmission(msgspec.Struct, frozen=True, tag=True):
    """Read some members of a document, as their bytes."""

    wanted: Wanted


Question: TypeAlias = OfBody | OfAnswer | OfSubmission


class Examined(msgspec.Struct, frozen=True):
    """What was found: why the document cannot be read, or its outline, its long texts, and what breaks the schema."""

    refusal: str | None = None
    outline: str = ""
    spans: tuple[Span, ...] = ()
    violations: tuple[Violation, ...] = ()

    def document(self, content: bytes, nonce: str) -> LargeDocument:
        """The document in the form in which the server uses it."""
        return LargeDocument(content, self.outline.encode(), self.spans, nonce)


class ExaminedAnswer(msgspec.Struct, frozen=True):
    """What was found of a partner's answer: whether it is JSON, and whether a server can go on with its outline.

    It `is_secret` where a secret cannot be taken out of it. Where one was taken out, the rest is returned beside it.
    """

    is_json: bool = True
    is_uneven: bool = False
    is_secret: bool = False
    outline: str = ""
    spans: tuple[Span, ...] = ()


class FoundMembers(msgspec.Struct, frozen=True):
    """Which members were found, and which lists, or why nothing was. The members themselves are returned beside it."""

    has: tuple[bool, ...] = ()
    lists: tuple[bool, ...] = ()
    refusal: str | None = None
    is_too_deep: bool = False


Finding: TypeAlias = Examined | ExaminedAnswer | FoundMembers


def answer_to(question: Question, content: bytes) -> tuple[Finding, Sequence[bytes]]:
    """What is found of a document, and the parts of it that were wanted as they are."""
    match question:
        case OfBody():
            return examine(question, content), ()
        case OfAnswer():
            return examine_answer(question, content)
        case OfSubmission():
            return _members(question, content)


def examine(asked: OfBody, content: bytes) -> Examined:
    """Read a body strictly, cut its long texts out, and validate it against the schema."""
    try:
        body = read_body(content)
        if _has_long_number(body):
            return Examined(_LONG_NUMBER)
        spans = _count_spans(content, long_spans(content))
        outline = write_outline(content, spans, asked.nonce)
    except FaultError as error:
        fault = error.fault
        return Examined(fault.detail if isinstance(fault, InvalidInput) else str(fault))
    except UnevenDocumentError:
        return Examined(_UNEVEN)
    if asked.name is not None and body.get("model") is None:
        body["model"] = asked.name
    violations = () if asked.schema is None else _schema(asked.schema).violations(body)
    return Examined(None, outline.decode(), spans, violations)


def examine_answer(asked: OfAnswer, content: bytes) -> tuple[ExaminedAnswer, Sequence[bytes]]:
    """Take the secrets out of a partner's answer, read it, and cut its long texts out."""
    if asked.is_json and asked.values_max is not None and has_more_values(content, asked.values_max):
        return ExaminedAnswer(is_uneven=True), ()
    redacted = Redactor(asked.secrets).redact(content)
    if redacted is None:
        return ExaminedAnswer(is_secret=True), ()
    found = _outlined_answer(asked.nonce, redacted) if asked.is_json else ExaminedAnswer(is_json=False)
    return found, () if redacted is content else (redacted,)


def _outlined_answer(nonce: str, content: bytes) -> ExaminedAnswer:
    """Read an answer, and cut its long texts out; links stay, and shorter texts are cut too where there are many.

    As with small answers, the last of several members of one name counts.
    """
    try:
        document = jiter.from_json(content, allow_inf_nan=False, cache_mode="keys")
    except ValueError:
        return ExaminedAnswer(is_json=False)
    if _has_long_number(document):
        return ExaminedAnswer(is_uneven=True)
    del document
    for long_bytes in (LONG_BYTES, _SHORTER_BYTES):
        try:
            found = long_spans(content, long_bytes, keeps_links=True)
            if len(found) <= _SPANS_MAX:
                spans = _count_spans(content, found)
                return ExaminedAnswer(outline=write_outline(content, spans, nonce).decode(), spans=spans)
        except UnevenDocumentError:
            continue
    return ExaminedAnswer(is_uneven=True)


def _members(asked: OfSubmission, content: bytes) -> tuple[FoundMembers, Sequence[bytes]]:
    try:
        found = members_of(content, asked.wanted)
    except BadDocumentError as error:
        return FoundMembers(refusal=error.reason, is_too_deep=error.is_too_deep), ()
    values = [found.values.get(name) for name in asked.wanted.names]
    lists = tuple(place in found.lists for place in asked.wanted.lists)
    return FoundMembers(tuple(value is not None for value in values), lists), [one for one in values if one is not None]


def _count_spans(content: bytes, spans: Sequence[tuple[int, int]]) -> tuple[Span, ...]:
    return tuple(Span(start, end, _characters(content[start:end])) for start, end in spans)


@functools.lru_cache(maxsize=_SCHEMAS_MAX)
def _schema(text: bytes) -> InputSchema:
    return InputSchema(msgspec.json.decode(text))


def _characters(text: bytes) -> int:
    return len(msgspec.json.decode(b'"%b"' % text, type=str))


def _has_long_number(value: object) -> bool:
    """Whether an integer has over a thousand digits; reading one takes as long as thousands of others."""
    if isinstance(value, int):
        return value.bit_length() > _NUMBER_BITS
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_has_long_number, values))
