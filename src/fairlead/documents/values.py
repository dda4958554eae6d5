"""How many values a JSON document holds, counted on its bytes: nothing is decoded, and no memory is taken.

A value is a text, a number, true, false, null, an object or an array; names of members are none. A document of a few
megabytes can hold a million of them; decoded they take a hundred times its size and seconds of the interpreter.
"""

from typing import Final

_SLICE: Final = 256 * 1024
"""How much is looked at in one step, which takes less than a millisecond."""
_WHITESPACE: Final = b" \t\r\n"
_OPENING: Final = (b"{", b"[")
_QUOTES_OF_MEMBER: Final = 4
_EMPTY: Final = (b"{}", b"[]")


def has_more_values(content: bytes, most: int) -> bool:
    """Whether a document holds more than `most` values.

    It is exact for a well-formed document. In a malformed one, everything that a decoder would build before the error
    counts.
    """
    if is_certainly_within(content, most):
        return False
    count = ValueCount()
    return any(count.add(content[at : at + _SLICE]) > most for at in range(0, len(content), _SLICE))


def is_certainly_within(content: bytes, most: int) -> bool:
    """Whether a document is too short to hold more than `most` values.

    A value takes a byte, and another byte separates it from the next.
    """
    return len(content) < 2 * most


class ValueCount:
    """The count of a document that comes in pieces. A container that is not empty holds one value more than commas.

    Long texts, which make up large documents, are skipped at the speed of memory.
    """

    def __init__(self) -> None:
        self._found = 1
        self._escape = b""
        """A backslash at the end of a piece, which belongs to what follows it."""
        self._opening = b""
        """A bracket at the end of a piece: the next one says whether the container is empty."""
        self._in_text = False
        self._quotes = 0
        """How many quotes begin or end texts."""

    def add(self, piece: bytes) -> int:
        """Count the values of the next piece, and return how many there are so far."""
        piece = self._escape + piece
        self._escape = piece[len(piece) - (len(piece) - len(piece.rstrip(b"\\"))) % 2 :]
        piece = piece[: len(piece) - len(self._escape)]
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b'"'.join(parts[self._in_text :: 2]).translate(None, _WHITESPACE)
        # A text that goes on in the next piece leaves a quote here: no container with a text in it may look empty.
        outside = self._opening + (b'"' if self._in_text else b"") + outside
        self._in_text ^= len(parts) % 2 == 0
        self._opening = outside[-1:] if outside[-1:] in _OPENING and not self._in_text else b""
        outside = outside[: len(outside) - len(self._opening)] + (b'"' if self._in_text else b"")
        self._found += outside.count(b",") + sum(map(outside.count, _OPENING)) - sum(map(outside.count, _EMPTY))
        self._quotes += len(parts) - 1
        # Two texts, a name and its value, are at least one value. Where nothing separates them, no comma would count
        # them.
        return max(self._found, self._quotes // _QUOTES_OF_MEMBER)
