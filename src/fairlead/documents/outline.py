"""A large document without its long texts: what has to be decoded of it here takes milliseconds, whatever its size.

A long text is cut out of the bytes and a short mark stands in its place, so that the rest, the outline, can be read and
rewritten as any document. `LargeDocument.filled` puts the bytes of the texts back where their marks are.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

import msgspec

LONG_BYTES: Final = 4096
"""A text that takes more is cut out."""
OUTLINE_BYTES: Final = 4 * 2**20
"""The most that may be left of a document."""
_NONCE_BYTES: Final = 32
_SLICE: Final = 256 * 1024
_NAMED: Final = re.compile(rb'"[ \t\r\n]*:')
_REST_OF_TEXT: Final = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


class Span(NamedTuple):
    """Where a long text stands in the bytes of its document, without its quotes, and how many characters it has."""

    start: int
    end: int
    characters: int


class UnevenDocumentError(Exception):
    """A document is large otherwise than by its texts."""


class LongText(str):
    """A text of which the bytes stay where they are, as long as the text it is.

    No encoder takes it by itself: only one that asks `mark_of` writes its mark, and must have its output `filled`.
    """

    __slots__ = ("_characters", "_content", "_span", "mark")

    mark: str
    _content: bytes
    _span: Span
    _characters: int

    def __new__(cls, mark: str, content: bytes, span: Span) -> Self:
        """Make the text that stands at a place of a document."""
        made = super().__new__(cls, mark)
        made.mark, made._content, made._span, made._characters = mark, content, span, span.characters
        return made

    def __len__(self) -> int:
        return self._characters

    def __deepcopy__(self, _memo: dict[int, Any]) -> "LongText":
        return self

    def lower(self) -> str:
        """The text itself in lower case, for those who look for words in it."""
        return self.whole().lower()

    def whole(self) -> str:
        """The text itself."""
        return str(msgspec.json.decode(b'"%b"' % self._content[self._span.start : self._span.end], type=str))


def long_spans(content: bytes) -> list[tuple[int, int]]:
    """Where the long texts of a well-formed document stand. UnevenDocumentError for a name as long as that."""
    spans: list[tuple[int, int]] = []
    at = content.find(b'"')
    while at >= 0:
        match = _REST_OF_TEXT.match(content, at + 1)
        if match is None:
            break
        if match.end() - at - 2 > LONG_BYTES:
            if _NAMED.match(content, match.end() - 1):
                raise UnevenDocumentError
            spans.append((at + 1, match.end() - 1))
        at = content.find(b'"', match.end())
    return spans


def outlined(content: bytes, spans: Sequence[Span], nonce: str) -> bytes:
    """The document with marks in the place of its long texts. UnevenDocumentError where too much is left of it.

    `nonce` is a secret of 32 characters that no document can hold.
    """
    if len(content) - sum(span.end - span.start - _NONCE_BYTES for span in spans) > OUTLINE_BYTES:
        raise UnevenDocumentError
    parts, done = [], 0
    for number, span in enumerate(spans):
        parts += [content[done : span.start], _mark(nonce, number).encode()]
        done = span.end
    return b"".join([*parts, content[done:]])


def _with_long_texts(value: Any, texts: dict[str, LongText]) -> Any:
    """A decoded outline with its long texts for their marks."""
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, dict):
        return {name: _with_long_texts(inner, texts) for name, inner in value.items()}
    return [_with_long_texts(inner, texts) for inner in value] if isinstance(value, list) else value


class LargeDocument(NamedTuple):
    """A large document: its bytes, its outline, and where in the bytes the texts stand that have marks in it."""

    content: bytes
    outline: bytes
    spans: Sequence[Span]
    nonce: str

    def with_texts(self, value: Any) -> Any:
        """The decoded outline, with a LongText for each of its marks."""
        texts = (LongText(_mark(self.nonce, number), self.content, span) for number, span in enumerate(self.spans))
        return _with_long_texts(value, {text.mark: text for text in texts})

    def filled(self, written: bytes) -> bytes:
        """What was written of its outline, with the bytes of the texts in the place of their marks.

        For a thread: no step holds the interpreter lock for long.
        """
        first, *others = re.split(rb"%b-([0-9]{8})" % self.nonce.encode(), written)
        parts: list[bytes] = [first]
        for number, rest in zip(others[::2], others[1::2], strict=True):
            start, end, _ = self.spans[int(number)]
            parts += [self.content[at : min(at + _SLICE, end)] for at in range(start, end, _SLICE)]
            parts.append(rest)
        return b"".join(parts)


def mark_of(value: Any) -> str:
    """What an encoder writes for a long text; TypeError for anything else that it does not know."""
    if isinstance(value, LongText):
        return value.mark
    raise TypeError(type(value))


def _mark(nonce: str, number: int) -> str:
    return f"{nonce}-{number:08}"
