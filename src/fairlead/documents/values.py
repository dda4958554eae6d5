"""How many values a JSON document holds, counted in its bytes: nothing is built, and memory stays as it is.

A value is a text, a number, true, false, null, an object or an array; names of members are none. A document of a few
megabytes can hold a million of them, which take a hundred times its bytes and seconds of the interpreter.
"""

from collections.abc import Generator, Iterator
from typing import Final

_SLICE: Final = 256 * 1024
"""How much is looked at in one step, which takes less than a millisecond."""
_WHITESPACE: Final = b" \t\r\n"
_OPENING: Final = (b"{", b"[")
_EMPTY: Final = (b"{}", b"[]")


def has_more_values(content: bytes, most: int) -> bool:
    """Whether a document holds more than `most` values.

    It is exact for a document that is well-formed. Of one that is not, what a reader would build before it finds out
    is counted too.
    """
    steps = looking_for_more(content, most)
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            return bool(ended.value)


def looking_for_more(content: bytes, most: int) -> Generator[None, None, bool]:
    """`has_more_values` in small steps: its caller may let others run after each."""
    if is_certainly_within(content, most):
        return False
    return (yield from _commas_and_brackets(content, most)) > most and (yield from _values(content, most)) > most


def is_certainly_within(content: bytes, most: int) -> bool:
    """Whether a document is too short to hold more than `most` values.

    A value takes a byte, and another parts it from the next.
    """
    return len(content) < 2 * most


def _commas_and_brackets(content: bytes, most: int) -> Generator[None, None, int]:
    """A count that is never too low: what stands in texts is counted as well. It ends where it passes `most`."""
    found = 1
    for start in range(0, len(content), _SLICE):
        piece = content[start : start + _SLICE]
        found += piece.count(b",") + sum(map(piece.count, _OPENING))
        if found > most:
            break
        yield
    return found


def _values(content: bytes, most: int) -> Generator[None, None, int]:
    """The count itself, which ends where it passes `most`.

    A container that is not empty holds one value more than it has commas.
    """
    found, pending, in_text = 1, b"", False
    for piece in _whole_escapes(content):
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = b'"'.join(parts[in_text::2]).translate(None, _WHITESPACE)
        # A text that goes on over a border leaves a quote there: no container with a text in it may look empty.
        outside = pending + (b'"' if in_text else b"") + outside
        in_text ^= len(parts) % 2 == 0
        pending = outside[-1:] if outside[-1:] in _OPENING and not in_text else b""
        outside = outside[: len(outside) - len(pending)] + (b'"' if in_text else b"")
        found += outside.count(b",") + sum(map(outside.count, _OPENING)) - sum(map(outside.count, _EMPTY))
        if found > most:
            return found
        yield
    return found + len(pending)


def _whole_escapes(content: bytes) -> Iterator[bytes]:
    """The document in slices, none of which ends within an escape."""
    start = 0
    while start < len(content):
        end = min(start + _SLICE, len(content))
        piece = content[start:end]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 and end < len(content):
            end += 1
            piece = content[start:end]
        yield piece
        start = end
