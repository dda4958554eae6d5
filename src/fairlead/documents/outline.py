"""A large document without its long texts: decoding what is left takes milliseconds, whatever the document's size.

A long text is cut out of the bytes and a short mark stands in its place, so that the rest, the outline, can be read and
rewritten as any document. `LargeDocument.fill` puts the bytes of the texts back where their marks are.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self, SupportsIndex

import msgspec

LONG_BYTES: Final = 4096
"""A text that takes more is cut out."""
OUTLINE_BYTES: Final = 4 * 2**20
"""The most that may be left of a document."""
_NONCE_BYTES: Final = 32
_SLICE: Final = 64 * 1024
_NAMED: Final = re.compile(rb'"[ \t\r\n]*:')
_LINK: Final = re.compile(rb"https?:", re.IGNORECASE)
_LINK_BYTES_MAX: Final = 64 * 1024
_ESCAPED_BYTES: Final = 12
"""The most bytes that stand for a character: an escape of each half of a pair."""
_REST_OF_TEXT: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
"""Possessive, so that a text without an end is not searched again from each of its characters."""


class Span(NamedTuple):
    """Where a long text stands in the bytes of its document, without its quotes, and how many characters it has."""

    start: int
    end: int
    characters: int


class UnevenDocumentError(Exception):
    """A document is not large because of its texts."""


class LongText(str):
    """A text whose bytes stay in the document; its length is that of the text.

    No encoder takes it by itself: only one that asks `mark_of` writes its mark, and its output must go through `fill`.
    Code that looks at its beginning, or compares it with shorter texts, finds what it would find in the text itself.
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

    def __deepcopy__(self, _memo: dict[int, object]) -> "LongText":
        return self

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        if isinstance(key, slice) and not key.start and key.step is None and key.stop is not None and key.stop >= 0:
            return self._beginning(key.stop)
        return self.whole()[key]

    def lower(self) -> str:
        """The text itself in lower case, for those who look for words in it."""
        return self.whole().lower()

    def whole(self) -> str:
        """The text itself."""
        return str(msgspec.json.decode(b'"%b"' % self._content[self._span.start : self._span.end], type=str))

    def _beginning(self, characters: int) -> str:
        """So many characters from the beginning, at a cost that does not depend on the length of the text."""
        start, end, _ = self._span
        piece = self._content[start : min(end, start + _ESCAPED_BYTES * (characters + 2))]
        for cut in range(_ESCAPED_BYTES):  # it may end within a character
            try:
                return str(msgspec.json.decode(b'"%b"' % piece[: len(piece) - cut], type=str))[:characters]
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
        raise AssertionError(self.mark)


def long_spans(content: bytes, long_bytes: int = LONG_BYTES, *, keeps_links: bool = False) -> list[tuple[int, int]]:
    """Where the texts of a well-formed document stand that take more than `long_bytes`.

    Links of up to 64 KiB are none of them where that is wanted. UnevenDocumentError for a name as long as that.
    """
    spans: list[tuple[int, int]] = []
    at = content.find(b'"')
    while at >= 0:
        match = _REST_OF_TEXT.match(content, at + 1)
        if match is None:
            break
        size = match.end() - at - 2
        if size > long_bytes:
            if _NAMED.match(content, match.end() - 1):
                raise UnevenDocumentError
            if not (keeps_links and size <= _LINK_BYTES_MAX and _LINK.match(content, at + 1)):
                spans.append((at + 1, match.end() - 1))
        at = content.find(b'"', match.end())
    return spans


def write_outline(content: bytes, spans: Sequence[Span], nonce: str) -> bytes:
    """The document with marks in place of its long texts. UnevenDocumentError where too much is left of it.

    `nonce` is a secret of 32 characters that no document can hold.
    """
    if len(content) - sum(span.end - span.start - _NONCE_BYTES for span in spans) > OUTLINE_BYTES:
        raise UnevenDocumentError
    parts, done = [], 0
    for number, span in enumerate(spans):
        parts += [content[done : span.start], _mark(nonce, number).encode()]
        done = span.end
    return b"".join([*parts, content[done:]])


def _with_long_texts(value: object, texts: dict[str, LongText]) -> object:
    """A decoded outline with its long texts in place of their marks."""
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

    def with_texts(self, value: object, kind: type[LongText] = LongText) -> Any:
        """The decoded outline, with a long text of a kind for each of its marks."""
        texts = (kind(_mark(self.nonce, number), self.content, span) for number, span in enumerate(self.spans))
        return _with_long_texts(value, {text.mark: text for text in texts})

    def fill(self, written: bytes) -> bytes:
        """The encoded outline, with the bytes of the texts in place of their marks.

        It may run in a thread: no step holds the interpreter lock for long.
        """
        first, *others = re.split(rb"%b-([0-9]{8})" % self.nonce.encode(), written)
        parts: list[bytes] = [first]
        for number, rest in zip(others[::2], others[1::2], strict=True):
            start, end, _ = self.spans[int(number)]
            parts += [self.content[at : min(at + _SLICE, end)] for at in range(start, end, _SLICE)]
            parts.append(rest)
        return b"".join(parts)


def mark_of(value: object) -> str:
    """What an encoder writes for a long text; TypeError for anything else that it does not know."""
    if isinstance(value, LongText):
        return value.mark
    raise TypeError(type(value))


def _mark(nonce: str, number: int) -> str:
    return f"{nonce}-{number:08}"
