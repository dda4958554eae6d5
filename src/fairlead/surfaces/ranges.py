"""Byte ranges (RFC 9110, section 14): which part of a representation a request asks for."""

import re
from dataclasses import dataclass
from typing import Final

_SINGLE: Final = re.compile(r"bytes[ \t]*=[ \t]*(?:([0-9]{1,19})-([0-9]{0,19})|-([0-9]{1,19}))[ \t]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """The bytes from `start` up to `end`, not included."""

    start: int
    end: int


class UnsatisfiableRangeError(Exception):
    """None of the bytes asked for exist."""


def part_of(header: str | None, size: int) -> Part | None:
    """Read a Range header for `size` bytes; None means the whole: it is absent, malformed, or asks for several parts.

    UnsatisfiableRangeError when the range is well-formed and begins behind the end.
    """
    if header is None or (match := _SINGLE.fullmatch(header)) is None:
        return None
    first, last, suffix = match.groups()
    if suffix is not None:
        start, end = max(0, size - int(suffix)), size
    else:
        start, end = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size:
        raise UnsatisfiableRangeError
    return Part(start, end)
